"""GPU memory for a NIC: allocate it, export it as a dma-buf, and register it with the NIC.

Exporting was tried on an H100, registering never; tested with stand-ins for CUDA and pyverbs.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ....sim.errors import DriverFault
from .cuda_library import PAGE, dma_buf_of_range, load_cuda_library

CURE = "a NIC registers GPU memory with Linux 5.12 or later, rdma-core 34 or later, and mlx5 or efa"
FIRST = 0  # GPU


@contextmanager
def exported_gpu_memory(size: int, library: Any = None) -> Iterator[tuple[int, int]]:
    """Context manager that allocates memory on the first GPU and exports it as a dma-buf.

    Yields the file descriptor and the size in whole pages, in B.

    Parameters
    ----------
    size : minimum size, in B
    library : the CUDA driver library; None to load it

    Raises
    ------
    DriverFault
        There is no GPU, or its driver does not export memory. The message says what to do.
    """
    cuda = library or load_cuda_library()
    whole = -(-size // PAGE) * PAGE
    if cuda is None:
        raise DriverFault("missing", "libcuda.so.1 finds no GPU; install NVIDIA's driver")
    context, pointer = ctypes.c_void_p(), ctypes.c_uint64()
    _require(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), FIRST), "its context")
    try:
        _require(cuda.cuCtxSetCurrent(context), "its context")
        room = ctypes.c_size_t(whole + PAGE)
        _require(cuda.cuMemAlloc_v2(ctypes.byref(pointer), room), f"{whole} B of it")
        begin = -(-pointer.value // PAGE) * PAGE
        try:
            file = dma_buf_of_range(cuda, FIRST, begin, whole)
            try:
                yield file, whole
            finally:
                os.close(file)
        finally:
            cuda.cuMemFree_v2(pointer)
    finally:
        cuda.cuDevicePrimaryCtxRelease_v2(FIRST)


def register_gpu_memory(domain: Any, file: int, size: int, rights: int) -> Any:
    """Register exported GPU memory as an RDMA memory region.

    Parameters
    ----------
    domain : protection domain of pyverbs
    file, size : file descriptor and size from ``exported_gpu_memory``
    rights : access flags of the memory region

    Raises
    ------
    DriverFault
        pyverbs or the NIC's driver is too old, or the NIC cannot reach the GPU.
    """
    try:
        from pyverbs.mr import DmaBufMR
    except ImportError as error:
        why = f"this pyverbs does not support dma-buf ({error}); {CURE}"
        raise DriverFault("unsupported", why) from error
    from pyverbs.pyverbs_error import PyverbsRDMAError

    try:
        return DmaBufMR(domain, size, rights, file, 0)
    except PyverbsRDMAError as error:
        raise DriverFault("unsupported", f"the NIC refuses GPU memory ({error}); {CURE}") from error


def _require(code: int, what: str) -> None:
    if code != 0:
        raise DriverFault(
            "broken", f"GPU {FIRST}: CUDA refuses {what} (error {code}); see nvidia-smi"
        )
