"""One way to compile: cached, without the interpreter lock; plain Python where numba is missing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

Kernel = TypeVar("Kernel", bound=Callable[..., Any])
Int = Any  # a 64-bit integer in a kernel: np.int64 interpreted, a machine word compiled

try:
    import numba
except ImportError:  # no wheel for this platform: the same kernels, interpreted

    def jit(kernel: Kernel) -> Kernel:
        """The kernel as it is."""
        return kernel

else:

    def jit(kernel: Kernel) -> Kernel:
        """The kernel, compiled at its first call."""
        compiled: Any = numba.njit(cache=True, nogil=True)(kernel)
        return cast(Kernel, compiled)
