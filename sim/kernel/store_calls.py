"""Call of a store from a kernel: one C function, by its address.

The engine sets the address. Behind it is its own store, which judges and applies the verb at once:
Python's stores, or the kernels of the compiled engine. So a kernel learns the answer during its
call, and each engine keeps its own stores.
"""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any
from weakref import WeakMethod

from .jit import INTERPRETED

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


if INTERPRETED:

    def call_store(address: int, *given: int) -> int:
        """Call a store's function."""
        return int(StoreFunction(int(address))(*map(int, given)))

else:
    from llvmlite import ir
    from numba.core import types
    from numba.extending import intrinsic

    @intrinsic
    def call_store(
        typingctx: Any, address: Any, table: Any, part: Any, verb: Any, key: Any, number: Any
    ) -> Any:
        """Call a store's function."""

        def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            word = ir.IntType(64)
            pointer = ir.FunctionType(word, [word] * INTEGERS).as_pointer()
            return builder.call(builder.inttoptr(args[0], pointer), args[1:])

        return types.int64(*[types.int64] * (1 + INTEGERS)), lower
