"""Kernels that call kernels, optimised once per entry point that Python calls.

Left alone, numba optimises every kernel and makes machine code of it together with all that it
calls, so that a kernel ten calls deep goes through LLVM ten times.  Here a kernel that another
one calls is a *part*: typed and translated once, then linked into the *whole*, the kernel that
Python calls, and only that is optimised.  Kernels are the same; a cold start takes half the time.

Nor does an index wrap around: numba looks at the sign of each and adds the length to those below
zero, on the way of every load that waits for another; kernels take a fifth less time without.

Most of a cold start is numba's own Python.  The same operator on the same types is typed once,
registries are read once a kernel, and Python's garbage collector waits until the whole is done.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from llvmlite.binding import Linkage
from numba import typeof
from numba.core import ir, types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.registry import CPUDispatcher
from numba.core.typed_passes import NativeLowering, NativeParforLowering
from numba.core.typing.context import Context

WRAPPERS = ("no_cpython_wrapper", "no_cfunc_wrapper")


class LinkedKernel(CPUDispatcher):
    """Kernel that is compiled whole when Python calls it, and linked as a part into its callers.

    Parameters
    ----------
    function : the kernel
    passed : whether it may be an argument of other kernels: see `KernelArgument`
    options : of ``numba.njit``
    """

    def __init__(self, function: Callable[..., Any], passed: bool = False, **options: Any):
        options["nopython"] = True
        alone = dict(options, no_cfunc_wrapper=not passed)
        super().__init__(function, {}, alone, pipeline_class=_WholeCompiler)
        linked = dict(options, **dict.fromkeys(WRAPPERS, True))
        self.part = _Part(function, {}, linked, pipeline_class=_PartCompiler)

    def compile(self, sig: Any) -> Any:
        """Compiled kernel for these argument types."""
        with _without_garbage_collection():
            return super().compile(sig)

    @property
    def _numba_type_(self) -> types.Dispatcher:
        """Numba type by which other kernels call this one."""
        return types.Dispatcher(self.part)


class _Part(CPUDispatcher):
    """Kernel as other kernels call it: translated once for all constants of one type."""

    def get_call_template(self, args: Any, kws: Any) -> Any:
        return super().get_call_template(tuple(map(types.unliteral, args)), kws)


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Keep the garbage collector from going through what a compilation makes, again and again."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class KernelArgument(types.WrapperAddressProtocol):
    """Kernel as an argument of another one, which calls it by its address.

    Whoever calls it is compiled once for all kernels of one signature.

    Parameters
    ----------
    kernel : made with ``passed=True``
    arguments : like those that it will be given; it returns an integer
    """

    def __init__(self, kernel: LinkedKernel, arguments: tuple[object, ...]):
        given = tuple(map(typeof, arguments))
        kernel.compile(given)
        made: Any = kernel.overloads[given]
        self._signature = made.signature
        if self._signature.return_type != types.int64:
            raise TypeError(
                f"{kernel.py_func.__qualname__}: returns {self._signature.return_type}; return an "
                "int64 on every path, by np.int64(...) where it is a constant"
            )
        if kernel.targetoptions.get("no_cfunc_wrapper", False):
            raise TypeError(f"{kernel.py_func.__qualname__}: decorate it with jit_as_argument")
        self._address = made.library.get_pointer_to_function(made.fndesc.llvm_cfunc_wrapper_name)

    def signature(self) -> Any:
        """Numba's signature of the kernel."""
        return self._signature

    def __wrapper_address__(self) -> int:
        return int(self._address)


class _PartLibrary(JITCodeLibrary):
    """Code as translated to LLVM: neither optimised nor compiled to machine code."""

    def _optimize_functions(self, module: Any) -> None:
        module.data_layout = self._codegen._data_layout

    def finalize(self) -> None:
        self._raise_if_finalized()
        self._finalized = True


class _WholeLibrary(JITCodeLibrary):
    """Code together with all its parts, and with theirs."""

    def add_linking_library(self, library: JITCodeLibrary) -> None:
        if library not in self._linking_libraries:
            super().add_linking_library(library)
            if isinstance(library, _PartLibrary):
                for other in library._linking_libraries:
                    self.add_linking_library(other)

    def _optimize_final_module(self) -> None:
        """Make linked parts internal to the module, so that LLVM may inline and drop them."""
        for function in self._final_module.functions:
            if function.linkage == Linkage.linkonce_odr:
                function.linkage = Linkage.internal
        super()._optimize_final_module()


def _prepare_lowering(state: Any) -> None:
    """Make indices unsigned, and read numba's registries for the last time."""
    state.calltypes = _without_wraparound(state.calltypes)
    state.targetctx.refresh()
    state.targetctx.refresh = lambda: None  # otherwise it is repeated at each array access


def _without_wraparound(call_types: dict[Any, Any]) -> dict[Any, Any]:
    """Types of calls in which indices of arrays are unsigned, which numba takes as they are."""
    return {call: _with_unsigned_index(call, made) for call, made in call_types.items()}


def _with_unsigned_index(call: Any, made: Any) -> Any:
    is_load = isinstance(call, ir.Expr) and call.op == "getitem"
    if (is_load or isinstance(call, ir.SetItem)) and isinstance(made.args[0], types.Array):
        array, index, *value = made.args
        return made.replace(args=(array, _unsigned_index(index), *value))
    return made


def _unsigned_index(index: Any) -> Any:
    """Unsigned type of an index or a tuple of them; of constants the sign is known."""
    if isinstance(index, types.BaseTuple):
        members: Any = index
        return types.Tuple([_unsigned_index(one) for one in members])
    is_constant = isinstance(index, types.Literal)
    return types.uint64 if isinstance(index, types.Integer) and not is_constant else index


@register_pass(mutates_CFG=True, analysis_only=False)
class _LowerPart(NativeLowering):
    _name = "foretrace_lower_part"

    def run_pass(self, state: Any) -> bool:
        _prepare_lowering(state)
        state.library = _PartLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags.no_compile = True
        super().run_pass(state)
        lowered = state["cr"]
        key = [].clear  # numba keys compiled functions by a built-in; this one is never called
        state.targetctx.insert_user_function(key, lowered.fndesc, [state.library])
        state["cr"] = lowered._replace(cfunc=key)
        return True


@register_pass(mutates_CFG=True, analysis_only=False)
class _LowerWhole(NativeLowering):
    _name = "foretrace_lower_whole"

    def run_pass(self, state: Any) -> bool:
        _prepare_lowering(state)
        state.library = _WholeLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        super().run_pass(state)
        return True


class _CachingContext(Context):
    """Numba's typing context, which remembers the signatures of functions other than kernels.

    Numba tries some ten templates for each ``+`` of a kernel.
    """

    _known: ClassVar[dict[Any, Any]] = {}

    def __init__(self, context: Context):
        self.__dict__ = context.__dict__

    def resolve_function_type(self, func: Any, args: Any, kws: Any) -> Any:
        is_plain = all(isinstance(one, types.Type) for one in args)  # else a slice of constants
        if kws or not is_plain or isinstance(func, types.Dispatcher):
            return super().resolve_function_type(func, args, kws)
        call = func, tuple(args)
        if call not in self._known:
            made = super().resolve_function_type(func, args, kws)
            if made is None:
                return None
            self._known[call] = made
        return self._known[call]


class _Compiler(CompilerBase):
    """Compiler pipeline of numba with its translation to LLVM replaced."""

    lowering: type[NativeLowering]

    def define_pipelines(self) -> list[Any]:
        self.state.typingctx = _CachingContext(self.state.typingctx)
        made = DefaultPassBuilder.define_nopython_pipeline(self.state)
        theirs = (NativeLowering, NativeParforLowering)
        made.passes = [(self.lowering if p in theirs else p, text) for p, text in made.passes]
        made.finalize()
        return [made]


class _PartCompiler(_Compiler):
    lowering = _LowerPart


class _WholeCompiler(_Compiler):
    lowering = _LowerWhole
