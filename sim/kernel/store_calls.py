"""Call of a store from a kernel, by the address of its C function."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from typing import Any

from .jit import INTERPRETED
from .store_verbs import INTEGERS, StoreFunction

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
