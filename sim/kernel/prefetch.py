"""Prefetch hint to the CPU for a table row that will be read soon.

Rows of a thousand streams are too many for the CPU's own prefetcher: half of the time per op was
waiting for memory. When an op starts, the next row of its graph, usually the next op of its
stream, is prefetched; it is needed about a thousand ops later.
"""

from __future__ import annotations

from typing import Any

from .jit import LINKED, jit

if not LINKED:

    @jit
    def prefetch(table: Any, row: Any) -> None:
        """Do nothing; without a compiler there is no prefetch hint."""

else:
    from llvmlite import ir
    from numba.core import cgutils, types
    from numba.extending import intrinsic
    from numba.np.arrayobj import make_array

    @intrinsic
    def prefetch(_: Any, table: Any, row: Any) -> Any:
        """Prefetch a table row into the CPU cache; a row number out of range is allowed."""

        def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            array = make_array(table)(context, builder, args[0])
            number = context.cast(builder, args[1], row, types.intp)
            offset = builder.mul(number, builder.extract_value(array.strides, 0))
            at = cgutils.pointer_add(builder, array.data, offset, cgutils.voidptr_t)
            word = ir.IntType(32)
            hint = ir.FunctionType(ir.VoidType(), [at.type, word, word, word])
            call = cgutils.get_or_insert_function(builder.module, hint, "llvm.prefetch.p0i8")
            builder.call(call, [at, word(1), word(3), word(1)])  # to write, to keep, data
            return context.get_dummy_value()

        return types.none(table, row), build
