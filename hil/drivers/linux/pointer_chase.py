"""Pointer chasing: each load depends on the one before, so that the time is pure memory latency.

The loop is 12 to 16 bytes of machine code, because an interpreter is slower than the memory and a
compiler may be missing. One step is a load, a decrement and a branch.
"""

from __future__ import annotations

import ctypes
import mmap
import platform
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ....sim.errors import DriverFault

LINE = 64  # bytes of a cache line
LOOP = {  # void *chase(void *first, long steps)
    # 1: mov (%rdi),%rdi; dec %rsi; jnz 1b; mov %rdi,%rax; ret   (Intel SDM vol. 2)
    "x86_64": bytes.fromhex("488b3f48ffce75f84889f8c3"),
    # 1: ldr x0,[x0]; subs x1,x1,#1; b.ne 1b; ret                (Arm ARM, A64 base)
    "aarch64": bytes.fromhex("000040f9210400f1c1ffff54c0035fd6"),
}
Chase = Callable[[int, int], int]


def machine_code_loop() -> Chase:
    """Function in machine code that follows a chain of pointers.

    It takes the address of the first pointer and a number of steps, and returns the last address.

    Raises
    ------
    DriverFault
        ``unsupported`` on other processors; ``denied`` if executable memory is not permitted.

    Examples
    --------
    >>> first = pointer_ring(4096, seed=1)
    >>> machine_code_loop()(first.ctypes.data, 64) == first.ctypes.data  # 64 lines: once around
    True
    """
    code = LOOP.get(platform.machine())
    if code is None:
        raise DriverFault(
            "unsupported",
            f"no pointer chase for {platform.machine()}; "
            "add its loop to hil/drivers/linux/pointer_chase.py",
        )
    try:
        page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    except OSError as error:
        raise DriverFault(
            "denied", f"memory that is writable and executable: {error.strerror}; allow execmem"
        ) from error
    page.write(code)
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    call = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long)(address)

    def chase(first: int, steps: int, _keep: mmap.mmap = page) -> int:
        return int(call(first, steps) or 0)

    return chase


def pointer_ring(size: int, seed: int, at: NDArray[np.uint8] | None = None) -> NDArray[np.int64]:
    """Buffer in which each cache line points to the next of one random cycle through all lines.

    Parameters
    ----------
    size : size in B, a multiple of 64
    seed : random seed of the order
    at : buffer to fill; None for a new one
    """
    words = np.zeros(size // 8, np.int64) if at is None else at[:size].view(np.int64)
    order = np.random.default_rng(seed).permutation(size // LINE)
    lines = words.reshape(-1, LINE // 8)
    base = words.ctypes.data
    lines[order, 0] = base + LINE * np.roll(order, -1)
    return words
