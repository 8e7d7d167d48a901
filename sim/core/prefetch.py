"""A hint to the processor: this will be read soon."""

from __future__ import annotations
from typing import Any

from .jit import INTERPRETED, Int

if INTERPRETED:
    def prefetch(table, row): pass
else:
    from llvmlite import ir
    from numba.core import cgutils, types
    from numba.np.arrayobj import make_array
    from numba.extending import intrinsic

    @intrinsic
    def prefetch(typingctx: Any, table: Any, row: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            array = make_array(signature.args[0])(context, builder, args[0])
            stride = builder.extract_value(array.strides, 0)
            row = context.cast(builder, args[1], signature.args[1], types.intp)
            at = cgutils.pointer_add(builder, array.data, builder.mul(row, stride), ir.IntType(8).as_pointer())
            word = ir.IntType(32)
            kind = ir.FunctionType(ir.VoidType(), [at.type, word, word, word])
            hint = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8" )
            builder.call(hint, [at, word(1), word(3), word(1)])
            return context.get_dummy_value()
        return types.none(table, row), codegen
