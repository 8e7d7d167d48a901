"""Timing of calls: clocks, clock overhead, and the number of calls per clock reading."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import NDArray

from ...sample import COLD, Request

LEAST = 100_000  # ns that one reading should take, so that reading the clock is below 1 %
MOST = 10_000  # repeats within one reading
READERS: dict[str, Callable[[], int]] = {
    "wall": time.perf_counter_ns,
    "cpu": time.process_time_ns,
}
Call = Callable[[], object]


def calls_per_reading(call: Call, read: Callable[[], int]) -> int:
    """Number of calls between two clock readings, so that these are at least ``LEAST`` ns apart.

    >>> ticks = iter(range(0, 10**9, 1000))
    >>> calls_per_reading(lambda: None, lambda: next(ticks))  # a call that seems to take 1000 ns
    100
    """
    begin = read()
    call()
    took = read() - begin
    return 1 if took >= LEAST else min(MOST, max(1, round(LEAST / max(took, LEAST / MOST))))


@cache
def clock_overhead(read: Callable[[], int]) -> float:
    """Time of one clock reading in ns: median of 1000, measured once per process.

    >>> ticks = iter(range(0, 10**9, 40))
    >>> clock_overhead(lambda: next(ticks))
    40.0
    """
    stamps = [read() for _ in range(1001)]
    return float(np.median(np.diff(stamps)))


def time_call(
    call: Call, request: Request, clock: str, restore: Call | None = None
) -> tuple[NDArray[np.float64], dict[str, float]]:
    """Time per call in ns of each repeat, shape (n,), and facts of the timing.

    The overhead of the clock is subtracted. A short warm op is called several times between two
    clock readings; an op with a restored context is called once. The facts are ``inner``, the
    number of calls between two readings, and ``clock_ns``, the subtracted overhead.

    Parameters
    ----------
    call : executes the op
    request : number of repeats, and context
    clock : ``wall`` or ``cpu``
    restore : restores the context before each repeat, outside the timed part; None for a warm op
    """
    read = READERS[clock]
    own = clock_overhead(read)
    inner = calls_per_reading(call, read) if restore is None else 1
    ns = _time_readings(call, read, request.n, inner, restore)
    return np.maximum(ns - own, 1.0) / inner, {"inner": inner, "clock_ns": own}


def _time_readings(
    call: Call, read: Callable[[], int], n: int, inner: int, restore: Call | None
) -> NDArray[np.float64]:
    """Time of ``inner`` calls in ns for each repeat, shape (n,), clock overhead included."""
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


def context_restorer(request: Request, flush: Call, calls: list[Call]) -> Call | None:
    """Function that restores the context of a request; None for a warm op.

    Parameters
    ----------
    request : request that names the context
    flush : empties the caches
    calls : functions that execute the preceding ops
    """
    if request.context == COLD:
        return flush
    if not calls:
        return None

    def after() -> None:
        for call in calls:
            call()

    return after
