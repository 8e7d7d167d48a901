"""Calls of kernels by address, and arrays at an address, for a loop that is compiled only once.

A kernel of a compiled process has a state of its own type. So the loop cannot name its type. It
passes a row of a table with the addresses of all arrays to an *adapter*, which is compiled once per
type of state: it rebuilds the arguments and calls the kernel. Both are called by numba's own
calling convention, so that an error that the kernel raises passes through to Python.

This module uses numba's private API; import it only where kernels are linked (``jit.LINKED``).
"""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import typeof
from numba.core import cgutils, types
from numba.core.imputils import impl_ret_borrowed
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array
from numpy.typing import NDArray

from .jit import layout_of
from .numba_linking import LinkedKernel

ADDRESS = 0  # column of a table of calls: kernel; then address and shape of each array
_INT = types.int64
_TABLE = types.Array(_INT, 2, "C")
_ADAPTERS: dict[Any, Any] = {}
_KNOWN: dict[Any, tuple[int, int] | None] = {}


def _build_array(context: Any, builder: Any, kind: Any, address: Any, shape: Sequence[Any]) -> Any:
    """LLVM value of a contiguous array that lies at an address; nobody owns it."""
    array = make_array(kind)(context, builder)
    word = context.get_value_type(types.intp)
    size = context.get_abi_sizeof(context.get_data_type(kind.dtype))
    strides = [word(size)]
    for extent in reversed(shape[1:]):
        strides.insert(0, builder.mul(strides[0], extent))
    data = builder.inttoptr(address, array.data.type)
    populate_array(
        array, data=data, shape=cgutils.pack_array(builder, shape, ty=word),
        strides=cgutils.pack_array(builder, strides, ty=word), itemsize=word(size), meminfo=None,
    )  # fmt: skip
    return array._getvalue()


def _array_at(typingctx: Any, like: Any, address: Any, length: Any) -> Any:
    """Array of one dimension at an address; ``like`` is an array of its type."""
    kind = types.Array(like.dtype, 1, "C")

    def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        made = _build_array(context, builder, kind, args[1], [args[2]])
        return impl_ret_borrowed(context, builder, kind, made)

    return kind(like, _INT, _INT), lower


def _table_at(typingctx: Any, like: Any, address: Any, rows: Any, columns: Any) -> Any:
    """Array of two dimensions at an address; ``like`` is an array with its type of numbers."""
    kind = types.Array(like.dtype, 2, "C")

    def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        made = _build_array(context, builder, kind, args[1], [args[2], args[3]])
        return impl_ret_borrowed(context, builder, kind, made)

    return kind(like, _INT, _INT, _INT), lower


def _call(context: Any, builder: Any, result: Any, kinds: Any, address: Any, args: Any) -> Any:
    """Call a function by its address, and pass an error on."""
    convention = context.call_conv
    pointer = convention.get_function_type(result, kinds).as_pointer()
    function = builder.inttoptr(address, pointer)
    status, found = convention.call_function(builder, function, result, kinds, args)
    with cgutils.if_unlikely(builder, status.is_error):
        convention.return_status_propagate(builder, status)
    return found


def _call_adapter(typingctx: Any, address: Any, table: Any, row: Any) -> Any:
    """Call the adapter at an address with a row of the table; returns the kernel's code."""

    def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _call(context, builder, _INT, (_TABLE, _INT), args[0], args[1:])

    return _INT(_INT, _TABLE, _INT), lower


array_at: Any = intrinsic(_array_at)
table_at: Any = intrinsic(_table_at)
call_adapter: Any = intrinsic(_call_adapter)


def _adapter(result: Any, kinds: tuple[Any, ...]) -> Any:
    """Compiled function that calls a kernel with arguments of some types."""

    def calling(typingctx: Any, table: Any, row: Any) -> Any:
        def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            numbers = make_array(_TABLE)(context, builder, args[0])
            first = builder.mul(args[1], cgutils.unpack_tuple(builder, numbers.shape)[1])

            def number(column: int) -> Any:
                at = builder.add(first, first.type(column))
                return builder.load(builder.gep(numbers.data, [at]))

            column = ADDRESS + 1

            def build(kind: Any) -> Any:
                nonlocal column
                if isinstance(kind, types.Array):
                    at, column = column, column + 1 + kind.ndim
                    shape = [number(at + 1 + k) for k in range(kind.ndim)]
                    return _build_array(context, builder, kind, number(at), shape)
                return context.make_tuple(builder, kind, [build(one) for one in kind])

            built = [build(kind) for kind in kinds]
            found = _call(context, builder, result, kinds, number(ADDRESS), built)
            return context.cast(builder, found, result, _INT)

        return _INT(_TABLE, _INT), lower

    call_kernel: Any = intrinsic(calling)

    def call(table: Any, row: Any) -> Any:
        return call_kernel(table, row)

    made = LinkedKernel(call, nogil=True)  # not cached: it takes 80 ms
    made.compile((_TABLE, _INT))
    return made


def native_address(kernel: Any, kinds: tuple[Any, ...]) -> int:
    """Address of a kernel compiled for some types, by numba's own calling convention."""
    made = kernel.overloads[kinds]
    found: int = made.library.get_pointer_to_function(made.fndesc.llvm_func_name)
    return found


def call_addresses(kernel: Any, *arguments: Any) -> tuple[int, int] | None:
    """Addresses of an adapter and of its kernel; None if the kernel does not return integers.

    Arguments are examples: arrays, and tuples of these.
    """
    key = kernel, tuple(map(type, arguments)), layout_of(arguments)
    if key not in _KNOWN:
        _KNOWN[key] = _call_addresses(kernel, tuple(map(typeof, arguments)))
    return _KNOWN[key]


def _call_addresses(kernel: Any, kinds: tuple[Any, ...]) -> tuple[int, int] | None:
    kernel.compile(kinds)
    result = kernel.overloads[kinds].signature.return_type
    if not isinstance(result, types.Integer):
        return None
    if (result, kinds) not in _ADAPTERS:
        _ADAPTERS[result, kinds] = _adapter(result, kinds)
    adapter = _ADAPTERS[result, kinds]
    return native_address(adapter, (_TABLE, _INT)), native_address(kernel, kinds)


def call_row(kernel_address: int, *arguments: Any) -> list[int]:
    """Row of the table of calls: address of the kernel, then address and shape of each array."""
    row = [kernel_address]

    def add(one: Any) -> None:
        if isinstance(one, np.ndarray):
            row.extend((one.ctypes.data, *one.shape))
        else:
            for part in one:
                add(part)

    for one in arguments:
        add(one)
    return row


def table_of_rows(rows: Sequence[Sequence[int]]) -> NDArray[np.int64]:
    """Table of calls from rows of different lengths."""
    found = np.zeros((len(rows), max(map(len, rows), default=1)), np.int64)
    for k, row in enumerate(rows):
        found[k, : len(row)] = row
    return found
