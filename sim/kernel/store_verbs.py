"""Verbs of a store that a kernel calls by one C function, and that function.

The engine sets its address. Behind it is its own store, which judges and applies the verb at once:
Python's stores, or the kernels of the compiled engine. So a kernel learns the answer during its
call, and each engine keeps its own stores.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any
from weakref import WeakMethod

# Verbs. Those up to SET_ORDER act, the others observe.
HOLD, RELEASE, DROP, TOUCH, SET_ORDER, OWNERS, SIZE, USED, HOLDING = range(9)
WRONG = -9  # answer: the verb is an error, and has changed nothing

INTEGERS = 5
StoreFunction = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * INTEGERS)
"""C function of a store: table of the caller, part, verb, key and number; returns the answer."""


def function_of(method: Callable[..., int]) -> Any:
    """C function that calls a method of an object, which it does not keep alive."""
    known = WeakMethod(method)
    return StoreFunction(lambda *given: known()(*given))  # type: ignore[misc]


def address_of(function: Any) -> int:
    """Address of a C function of Python, which must be kept while kernels may call it."""
    return ctypes.cast(function, ctypes.c_void_p).value or 0
