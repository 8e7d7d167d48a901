"""How kernels are compiled: cached, without the interpreter lock; plain Python without numba."""

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

    lean = jit

else:

    def jit(kernel: Kernel) -> Kernel:
        """The kernel, compiled at its first call."""
        return cast(Kernel, numba.njit(cache=True, nogil=True)(kernel))

    def lean(kernel: Kernel) -> Kernel:
        """The same for a kernel that makes no array: references to arrays are not counted.

        A small kernel spends a quarter of its time on that count.
        """
        options: dict[str, Any] = {"cache": True, "nogil": True, "_nrt": False}
        return cast(Kernel, numba.njit(**options)(kernel))
