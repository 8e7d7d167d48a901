"""NVIDIA's CUDA driver library (``libcuda``): GPU attributes, and GPU memory exported as a dma-buf.

Attribute numbers are those of ``cuda.h`` (CUdevice_attribute). Tried on an H100; tested with a
stand-in for the library.
"""

from __future__ import annotations

import ctypes
from typing import Any

from ....sim.errors import DriverFault

ATTRIBUTES = {
    "gpu_khz": 13, "gpu_processors": 16, "gpu_memory_khz": 36, "gpu_bus_bits": 37,
    "gpu_cache": 38, "gpu_copy_engines": 40, "gpu_major": 75, "gpu_minor": 76,
}  # fmt: skip
DMA_BUF_SUPPORTED = 124
DMA_BUF_FD = 1  # CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD
PAGE = 1 << 16  # B: ranges begin and end at pages of the device
CURE = (
    "dma-buf needs NVIDIA's open kernel modules (nvidia-open, 515 or later) on Linux 5.12 or later"
)


def load_cuda_library() -> Any:
    """Load and initialise the CUDA driver library; None if it is missing or finds no GPU."""
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    return library if library.cuInit(0) == 0 else None


def device_attributes(library: Any, number: int) -> dict[str, str]:
    """Attributes of a GPU by name; attributes that it does not report are omitted.

    >>> device_attributes(None, 0)
    {}
    """
    if library is None:
        return {}
    found = {}
    for name, code in ATTRIBUTES.items():
        value = ctypes.c_int(0)
        if library.cuDeviceGetAttribute(ctypes.byref(value), code, number) == 0:
            found[name] = str(value.value)
    return found


def dma_buf_of_range(library: Any, number: int, pointer: int, size: int) -> int:
    """Export a range of GPU memory as a dma-buf, which a NIC can register.

    Returns its file descriptor.

    Parameters
    ----------
    library : the CUDA driver library
    number : index of the GPU
    pointer, size : start address and length in B of the range; whole pages of the device

    Raises
    ------
    DriverFault
        There is no CUDA, or its driver does not export memory.
    """
    if library is None:
        raise DriverFault("missing", "libcuda.so.1 finds no GPU; install NVIDIA's driver")
    able = ctypes.c_int(0)
    told = library.cuDeviceGetAttribute(ctypes.byref(able), DMA_BUF_SUPPORTED, number)
    if told != 0 or not able.value:
        raise DriverFault("unsupported", f"GPU {number}: its driver does not export memory; {CURE}")
    if pointer % PAGE or size % PAGE:
        raise DriverFault(
            "unsupported", f"{size} B at {pointer:#x}: ask for whole pages of {PAGE} B"
        )
    file = ctypes.c_int(-1)
    code = library.cuMemGetHandleForAddressRange(
        ctypes.byref(file), ctypes.c_uint64(pointer), ctypes.c_size_t(size), DMA_BUF_FD, 0
    )
    if code != 0 or file.value < 0:
        raise DriverFault("unsupported", f"GPU {number}: CUDA says error {code}; {CURE}")
    return file.value
