"""Timing a call: which clock, and how often to repeat it within one reading."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import NDArray

from ..sample import COLD, Request

LEAST = 100_000  # ns that one reading should take, so that reading the clock is below 1 %
MOST = 10_000  # repeats within one reading
READERS: dict[str, Callable[[], int]] = {
    "wall": time.perf_counter_ns,
    "cpu": time.process_time_ns,
}
Call = Callable[[], object]


def repeats(call: Call, read: Callable[[], int]) -> int:
    """How often to repeat a call so that one reading of the clock sees ``LEAST`` ns.

    >>> ticks = iter(range(0, 10**9, 1000))
    >>> repeats(lambda: None, lambda: next(ticks))  # a call that seems to take 1000 ns
    100
    """
    begin = read()
    call()
    took = read() - begin
    return 1 if took >= LEAST else min(MOST, max(1, round(LEAST / max(took, LEAST / MOST))))


@cache
def cost(read: Callable[[], int]) -> float:
    """What one reading of the clock takes, ns: the median of many, taken once a process.

    >>> ticks = iter(range(0, 10**9, 40))
    >>> cost(lambda: next(ticks))
    40.0
    """
    stamps = [read() for _ in range(1001)]
    return float(np.median(np.diff(stamps)))


def timed(
    call: Call, request: Request, clock: str, restore: Call | None = None
) -> tuple[NDArray[np.float64], dict[str, float]]:
    """Nanoseconds of each repeat without what reading the clock takes; and what was done for it.

    A warm op is repeated within a reading where it is short; one that needs its context restored
    is not, since only the first would have it.  Facts: ``inner`` calls in one reading, and
    ``clock_ns`` that were taken off each reading.

    Parameters
    ----------
    call : does the op
    request : how often, from which context
    clock : ``wall`` or ``cpu``
    restore : brings the context about, outside of what is timed; None for a warm op
    """
    read = READERS[clock]
    own = cost(read)
    inner = repeats(call, read) if restore is None else 1
    ns = _readings(call, read, request.n, inner, restore)
    return np.maximum(ns - own, 1.0) / inner, {"inner": inner, "clock_ns": own}


def _readings(
    call: Call, read: Callable[[], int], n: int, inner: int, restore: Call | None
) -> NDArray[np.float64]:
    """What the clock moved by around ``inner`` calls."""
    ns = np.empty(n)
    turns = range(inner)
    for i in range(n):
        if restore is not None:
            restore()
        begin = read()
        for _ in turns:
            call()
        ns[i] = read() - begin
    return ns


def restorer(request: Request, flush: Call, calls: list[Call]) -> Call | None:
    """What brings a request's context about.

    Parameters
    ----------
    request : whose context
    flush : empties the caches
    calls : the preceding ops
    """
    if request.context == COLD:
        return flush
    if not calls:
        return None

    def after() -> None:
        for call in calls:
            call()

    return after
