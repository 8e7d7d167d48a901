"""Compilation of kernels: linked and cached, by plain ``njit``, or none if numba is missing.

``numba_linking`` and ``prefetch`` use numba's private API, and only with versions where it is
known. Other versions compile with plain ``njit``: same results, but compiled in every process.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np

Kernel = TypeVar("Kernel", bound=Callable[..., Any])
Int = Any  # 64-bit integer in a kernel: np.int64 if interpreted, a machine word if compiled

log = logging.getLogger(__name__)

OLDEST, AFTER = (0, 61), (0, 69)  # numba's versions whose private API is known; AFTER is not
KNOWN = "numba>={}.{},<{}.{}".format(*OLDEST, *AFTER)  # as in setup.cfg

try:
    import numba
except ImportError:  # no wheel for this platform: kernels are interpreted
    INTERPRETED = True  # then unsigned overflow gives a warning
else:
    INTERPRETED = bool(numba.config.DISABLE_JIT)  # type: ignore[attr-defined]


def _is_linking_available() -> bool:
    """True if the installed numba has the private API that linked kernels need."""
    if INTERPRETED or os.environ.get("FORETRACE_PLAIN_NJIT") == "1":
        return False
    known: bool = OLDEST <= numba.version_info.short < AFTER
    if not known:
        log.warning(
            "numba %s: this version is untested, so the engine compiles for a minute in each "
            "process; pip install '%s'",
            numba.__version__,
            KNOWN,
        )
    return known


LINKED = _is_linking_available()

if not LINKED:

    def jit(kernel: Kernel) -> Kernel:
        """Decorator: compile a kernel at its first call; without numba, leave it unchanged."""
        return kernel if INTERPRETED else cast(Kernel, numba.njit(nogil=True)(kernel))

    jit_without_refcounts = jit_as_argument = jit

else:
    from numba.core import event

    from .numba_linking import KernelArgument, LinkedKernel

    _SIM = Path(__file__).parents[1]
    # All sources of kernels, and the modules that they read
    _ROOMS = ("kernel", "core", "media", "items")
    _READ = (
        "engine_api/interface.py",
        "engine_api/store_interface.py",
        "facts/sampling.py",
        "facts/spmd/program_encoding.py",
        "facts/items/layout.py",
        "facts/items/arrival_process.py",
    )
    _SOURCES = [f for room in _ROOMS for f in (_SIM / room).rglob("*.py")]
    _SOURCES += [_SIM / name for name in _READ]
    _STATS = [source.stat() for source in _SOURCES]

    def _compile_kernel(kernel: Kernel, **options: Any) -> Kernel:
        """Compiled kernel whose cache becomes invalid when any of the kernel sources changes.

        By itself, numba checks only the kernel's own file, and would keep outdated code of the
        kernels that it calls. The cache key also contains the module name, since a plug-in's
        module may change. A cache of other sources is not loaded: its types may have been renamed.
        """
        made: Any = LinkedKernel(kernel, nogil=True, **options)
        own = Path(kernel.__code__.co_filename)
        if own.exists():  # otherwise it has no file, and no cache
            stats = _STATS if own in _SOURCES else [*_STATS, own.stat()]
            made.enable_caching()
            stamp, file = (*_stamp(stats), kernel.__module__), made._cache._cache_file
            file._source_stamp = stamp
            file._version = numba.__version__, stamp  # is compared before types are loaded
        return cast(Kernel, made)

    def _stamp(stats: list[os.stat_result]) -> tuple[float, int]:
        return max(s.st_mtime for s in stats), sum(s.st_size for s in stats)

    def jit(kernel: Kernel) -> Kernel:
        """Decorator: compile a kernel at its first call.

        A computed index must not be negative: it would not count from the end, and only
        ``NUMBA_BOUNDSCHECK=1`` detects it.
        """
        return _compile_kernel(kernel)

    def jit_without_refcounts(kernel: Kernel) -> Kernel:
        """Decorator: compile a kernel that creates no array, without reference counting of arrays.

        Reference counting would take a quarter of a small kernel's time.
        """
        return _compile_kernel(kernel, _nrt=False)

    def jit_as_argument(kernel: Kernel) -> Kernel:
        """Decorator: compile a kernel that may be an argument of others; see `as_argument`."""
        return _compile_kernel(kernel, passed=True, _nrt=False)

    class _CompileAnnouncement(event.Listener):
        """Listener that logs once that kernels are being compiled."""

        said = False

        def on_start(self, event: Any) -> None:
            kernel = event.data["dispatcher"].py_func
            if not self.said and kernel.__module__.startswith(__name__.removesuffix("kernel.jit")):
                self.said = True
                log.info("compiling the engine, some 10 s; done once for this machine and version")

        def on_end(self, event: Any) -> None:
            pass

    event.register("numba:compile", _CompileAnnouncement())  # type: ignore[no-untyped-call]


def compiled_for_argument_types(kernel: Kernel, *arguments: object) -> Kernel:
    """Kernel compiled for exactly these argument types, which calls do not check.

    For a short kernel, the check would take longer than the call.
    """
    if not LINKED:
        return kernel
    made: Any = kernel
    return cast(Kernel, made.compile(tuple(map(numba.typeof, arguments))))


def compiled_for_arrays(kernel: Kernel, *arguments: object) -> Kernel:
    """Like :func:`compiled_for_argument_types`, and cached: naming the types takes numba 0.4 ms.

    Arguments are arrays, integers and tuples of these.
    """
    key = kernel, tuple(map(layout_of, arguments))
    if key not in _COMPILED:
        _COMPILED[key] = compiled_for_argument_types(kernel, *arguments)
    return cast(Kernel, _COMPILED[key])


_COMPILED: dict[object, object] = {}


def layout_of(argument: object) -> object:
    """What determines the compiled type of an argument."""
    if isinstance(argument, tuple):
        return tuple(map(layout_of, argument))
    if isinstance(argument, np.ndarray):
        flags = argument.flags
        order = flags.c_contiguous, flags.f_contiguous, flags.aligned, flags.writeable
        return argument.dtype, argument.ndim, order
    return type(argument)


def as_argument(kernel: Callable[..., Any], *arguments: object) -> object:
    """Wrap a kernel to pass it to another; ``arguments`` are examples of its own arguments."""
    return KernelArgument(cast(LinkedKernel, kernel), arguments) if LINKED else kernel
