"""Compiled loop of one policy, cached next to the file of the policy.

The loop is compiled anew for each policy, so that the policy is part of it. A policy as an argument
would be another type in each process, and nothing cached would ever be found again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from types import CodeType, FunctionType
from typing import Any

from ..kernel.jit import Int, jit_without_refcounts
from .item_arrays import ItemArrays
from .pool_loop import run_items

Loop = Callable[[Any, ItemArrays, int, int], int]
POLICY: Any = None  # in the loop of a policy, the policy


def _run_policy(state: Any, w: ItemArrays, horizon: Int, budget: Int) -> Int:
    """Process events up to and including a tick, see ``run_items``."""
    return run_items(POLICY, state, w, horizon, budget)


@cache
def loop_of(policy: Callable[..., Any]) -> Loop:
    """Loop of a policy; compiled at its first call if the policy is compiled."""
    plain: Any = getattr(policy, "py_func", policy)
    name = f"run_{plain.__name__}_{_fingerprint(plain.__code__)}"
    file = (
        "closure" if plain.__closure__ else plain.__code__.co_filename
    )  # not cached, or next to it
    code = _run_policy.__code__.replace(
        co_name=name,
        co_qualname=name,
        co_filename=file,
        co_firstlineno=plain.__code__.co_firstlineno,  # numba reads the source from there
    )
    made = FunctionType(code, {**_run_policy.__globals__, "POLICY": policy}, name)
    made.__module__ = plain.__module__
    return jit_without_refcounts(made)


def _fingerprint(code: CodeType) -> str:
    """Hash of what a function does, so that two functions of one name have two loops."""
    said = code.co_code, code.co_names, [c for c in code.co_consts if not isinstance(c, CodeType)]
    return hashlib.sha256(repr(said).encode()).hexdigest()[:16]
