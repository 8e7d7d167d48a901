"""Linking of numba kernels: code is optimised once per entry point that Python calls.

By itself, numba optimises every kernel together with all kernels that it calls, so that a kernel
ten calls deep is optimised ten times. Here, a called kernel is a *part*: it is typed and
translated once, and linked into the *whole*, the kernel that Python calls. Only the whole is
optimised. Results are the same; a cold start takes half the time.

Array indices do not wrap around: numba would test the sign of each index and add the length to
negative ones. Without this test, kernels take a fifth less time.

Most of a cold start is numba's own Python code. So each operator is typed once per combination of
types, registries are read once per kernel, and garbage collection is off during compilation.
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
    """Kernel that is compiled as a whole for Python, and linked as a part into other kernels.

    Parameters
    ----------
    function : Python function of the kernel
    passed : True if it may be an argument of other kernels, see `KernelArgument`
    options : options of ``numba.njit``
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
    """Kernel as called by other kernels: translated once for all constants of one type."""

    def get_call_template(self, args: Any, kws: Any) -> Any:
        return super().get_call_template(tuple(map(types.unliteral, args)), kws)


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Context without garbage collection, which would rescan a compilation's objects."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class KernelArgument(types.WrapperAddressProtocol):
    """Kernel as an argument of another kernel, which calls it by its address.

    The calling kernel is compiled once for all arguments of one signature.

    Parameters
    ----------
    kernel : kernel to pass, compiled with ``passed=True``
    arguments : example arguments, which set the types; the kernel must return an integer
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
            raise TypeError(
                f"{kernel.py_func.__qualname__}: it is an argument of another kernel; decorate it "
                "with jit_as_argument"
            )
        self._address = made.library.get_pointer_to_function(made.fndesc.llvm_cfunc_wrapper_name)

    def signature(self) -> Any:
        """Signature of the kernel, in numba's types."""
        return self._signature

    def __wrapper_address__(self) -> int:
        return int(self._address)


class _PartLibrary(JITCodeLibrary):
    """LLVM code of a part: translated, but neither optimised nor compiled to machine code."""

    def _optimize_functions(self, module: Any) -> None:
        module.data_layout = self._codegen._data_layout

    def finalize(self) -> None:
        self._raise_if_finalized()
        self._finalized = True


class _WholeLibrary(JITCodeLibrary):
    """LLVM code of a whole: a kernel together with all its parts, recursively."""

    def add_linking_library(self, library: JITCodeLibrary) -> None:
        if library not in self._linking_libraries:
            super().add_linking_library(library)
            if isinstance(library, _PartLibrary):
                for other in library._linking_libraries:
                    self.add_linking_library(other)

    def _optimize_final_module(self) -> None:
        """Make linked parts internal to the module, so that LLVM can inline or drop them."""
        for function in self._final_module.functions:
            if function.linkage == Linkage.linkonce_odr:
                function.linkage = Linkage.internal
        super()._optimize_final_module()


def _prepare_lowering(state: Any) -> None:
    """Make array indices unsigned; read numba's registries here, not at each array access."""
    state.calltypes = _without_wraparound(state.calltypes)
    state.targetctx.refresh()
    state.targetctx.refresh = lambda: None  # otherwise it is repeated at each array access


def _without_wraparound(call_types: dict[Any, Any]) -> dict[Any, Any]:
    """Call types with unsigned array indices, so that numba adds no code for negative ones."""
    return {call: _with_unsigned_index(call, made) for call, made in call_types.items()}


def _with_unsigned_index(call: Any, made: Any) -> Any:
    is_load = isinstance(call, ir.Expr) and call.op == "getitem"
    if (is_load or isinstance(call, ir.SetItem)) and isinstance(made.args[0], types.Array):
        array, index, *value = made.args
        return made.replace(args=(array, _unsigned_index(index), *value))
    return made


def _unsigned_index(index: Any) -> Any:
    """Unsigned type of an index or a tuple of indices; constants keep their type."""
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
    """Numba typing context that caches the signatures of functions other than kernels.

    Numba would try about ten templates for each ``+`` in a kernel.
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
    """Numba's compiler pipeline with another translation step to LLVM."""

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
