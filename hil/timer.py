"""Timing a call: which clock, and how often to repeat it within one reading."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from .sample import COLD, Request

LEAST = 100_000  # ns that one reading should take, so that reading the clock is below 1 %
MOST = 10_000  # repeats within one reading
READERS: dict[str, Callable[[], int]] = {
    "wall": time.perf_counter_ns,
    "cpu": time.process_time_ns,
}
Call = Callable[[], object]


def repeats(call: Call, read: Callable[[], int], least: int = LEAST) -> int:
    """How often to repeat a call so that one reading of the clock sees ``least`` ns.

    >>> ticks = iter(range(0, 10**9, 1000))
    >>> repeats(lambda: None, lambda: next(ticks))  # a call that seems to take 1000 ns
    100
    """
    begin = read()
    call()
    took = read() - begin
    return 1 if took >= least else min(MOST, max(1, round(least / max(took, least / MOST))))


def timed(
    call: Call, request: Request, clock: str, restore: Call | None = None
) -> tuple[NDArray[np.float64], int]:
    """Nanoseconds of each repeat, and how many calls one reading holds.

    A warm op is repeated within a reading where it is short; one that needs its context restored
    is not, since only the first would have it.

    Parameters
    ----------
    call : does the op
    request : how often, from which context
    clock : ``wall`` or ``cpu``
    restore : brings the context about, outside of what is timed; None for a warm op
    """
    read = READERS[clock]
    if restore is None:
        inner = repeats(call, read)
        return _readings(call, read, request.n, inner), inner
    ns = np.empty(request.n)
    for i in range(request.n):
        restore()
        begin = read()
        call()
        ns[i] = read() - begin
    return ns, 1


def _readings(call: Call, read: Callable[[], int], n: int, inner: int) -> NDArray[np.float64]:
    ns = np.empty(n)
    turns = range(inner)
    for i in range(n):
        begin = read()
        for _ in turns:
            call()
        ns[i] = (read() - begin) / inner
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
