"""Limit of the memory for reading a trace."""

from __future__ import annotations

from pathlib import Path

from ...sim.units import Bytes

MEMORY: Bytes = 2 * 2**30


def memory_budget() -> Bytes:
    """Maximum memory for reading a trace, in B: 2 GiB, or less if ``ulimit -v`` leaves less.

    >>> 0 <= memory_budget() <= MEMORY
    True
    """
    try:
        import resource
    except ImportError:  # a system without such limits
        return MEMORY
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    sizes = Path("/proc/self/statm")
    if limit == resource.RLIM_INFINITY or not sizes.is_file():
        return MEMORY
    used = int(sizes.read_text().split()[0]) * resource.getpagesize()
    return min(MEMORY, max(limit - used, 0))
