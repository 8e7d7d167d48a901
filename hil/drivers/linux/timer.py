"""Timing a call: clocks, their overhead, and repeats within one reading."""

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
    """Number of calls within one reading of the clock so that it spans ``LEAST`` ns.

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
    """Overhead of one clock reading, ns: median of 1000, measured once per process.

    >>> ticks = iter(range(0, 10**9, 40))
    >>> clock_overhead(lambda: next(ticks))
    40.0
    """
    stamps = [read() for _ in range(1001)]
    return float(np.median(np.diff(stamps)))


def time_call(
    call: Call, request: Request, clock: str, restore: Call | None = None
) -> tuple[NDArray[np.float64], dict[str, float]]:
    """(n,) ns per call of each repeat, less the clock's overhead, and facts of the timing.

    A short warm op is called several times within a reading; one with a restored context once.
    Facts: ``inner``, calls within one reading, and ``clock_ns``, subtracted from each reading.

    Parameters
    ----------
    call : executes the op
    request : how often, from which context
    clock : ``wall`` or ``cpu``
    restore : restores the context before each repeat, untimed; None for a warm op
    """
    read = READERS[clock]
    own = clock_overhead(read)
    inner = calls_per_reading(call, read) if restore is None else 1
    ns = _time_readings(call, read, request.n, inner, restore)
    return np.maximum(ns - own, 1.0) / inner, {"inner": inner, "clock_ns": own}


def _time_readings(
    call: Call, read: Callable[[], int], n: int, inner: int, restore: Call | None
) -> NDArray[np.float64]:
    """(n,) ns that each reading of ``inner`` calls took, overhead included."""
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
    """Callable that restores a request's context; None for a warm op.

    Parameters
    ----------
    request : names the context
    flush : empties the caches
    calls : execute the preceding ops
    """
    if request.context == COLD:
        return flush
    if not calls:
        return None

    def after() -> None:
        for call in calls:
            call()

    return after
