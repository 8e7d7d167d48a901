"""Memory pages by NUMA node: placing, locating and migrating them (mbind, move_pages)."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import platform
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ....sim.errors import DriverFault

PAGE = mmap.PAGESIZE
CALLS = {"x86_64": (237, 279), "aarch64": (235, 239)}  # mbind, move_pages (asm/unistd.h)
BIND, INTERLEAVE, MOVE = 2, 3, 2  # MPOL_BIND, MPOL_INTERLEAVE, MPOL_MF_MOVE
KINDS = {errno.EPERM: "denied", errno.EACCES: "denied", errno.ENODEV: "missing",
         errno.EINVAL: "missing", errno.ENOSYS: "unsupported"}  # fmt: skip
CURE = "look at numactl -H; a CXL region becomes a node by daxctl reconfigure-device"
TRIES = 1000  # that a page may be busy
NODES = Path("/sys/devices/system/node")
Bytes = NDArray[np.uint8]


def numa_nodes_with_memory() -> dict[int, tuple[int, bool]]:
    """NUMA nodes that have memory, by number: bytes, and True if the node also has processors.

    >>> all(size > 0 for size, _ in numa_nodes_with_memory().values())
    True
    """
    nodes_found = {}
    for path in sorted(NODES.glob("node[0-9]*")):
        size = int((path / "meminfo").read_text().split("MemTotal:")[1].split()[0]) << 10
        if size:
            nodes_found[int(path.name[4:])] = (size, bool((path / "cpulist").read_text().strip()))
    return nodes_found


class PageBlock:
    """Block of anonymous pages that are bound to NUMA nodes and already allocated.

    Parameters
    ----------
    size : size, in B
    node : NUMA node, or several nodes over which pages are interleaved; None to let Linux choose
    """

    def __init__(self, size: int, node: int | tuple[int, ...] | None):
        self.map = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.bytes: Bytes = np.frombuffer(self.map, np.uint8)
        if node is not None:
            nodes = (node,) if isinstance(node, int) else node
            mask = ctypes.c_ulong(sum(1 << n for n in set(nodes)))
            way = BIND if len(set(nodes)) == 1 else INTERLEAVE
            _call(0, self.address, size, way, ctypes.byref(mask), 64, 0)
        self.bytes[::PAGE] = 1

    @property
    def address(self) -> int:
        """Address of the first byte."""
        return int(self.bytes.ctypes.data)

    @property
    def pages(self) -> int:
        """Number of pages."""
        return len(self.bytes) // PAGE

    def node_of_each_page(self) -> NDArray[np.int32]:
        """NUMA node of each page, shape (pages,)."""
        return self._move_pages(None)

    def move(self, node: int) -> tuple[int, int]:
        """Migrate all pages to a NUMA node; returns the time in ns and the number of retried pages.

        Raises
        ------
        DriverFault
            ``broken``: a page stayed busy. Other kinds as the kernel reports.
        """
        again, since = 0, time.perf_counter_ns()
        for _ in range(TRIES):
            stay = int((self._move_pages(node) == -errno.EBUSY).sum())
            if not stay:
                return time.perf_counter_ns() - since, again
            again += stay
        raise DriverFault(
            "broken", f"{stay} pages are still busy after {TRIES} tries; use a smaller op"
        )

    def _move_pages(self, node: int | None) -> NDArray[np.int32]:
        n = self.pages
        at = self.address + PAGE * np.arange(n, dtype=np.uint64)
        status = np.full(n, -1, np.int32)
        to = None if node is None else np.full(n, node, np.int32)
        _call(1, 0, n, at.ctypes.data, None if to is None else to.ctypes.data,
              status.ctypes.data, MOVE)  # fmt: skip
        return status


def _call(which: int, *arguments: object) -> None:
    numbers = CALLS.get(platform.machine())
    if numbers is None:
        raise DriverFault(
            "unsupported",
            f"pages cannot be placed on {platform.machine()}; use {' or '.join(CALLS)}",
        )
    libc = ctypes.CDLL(None, use_errno=True)
    passed = [ctypes.c_void_p(a) if isinstance(a, int) else a for a in arguments]
    if libc.syscall(numbers[which], *passed) < 0:
        error = ctypes.get_errno()
        name = ("mbind", "move_pages")[which]
        raise DriverFault(KINDS.get(error, "broken"), f"{name}: {os.strerror(error)}; {CURE}")
