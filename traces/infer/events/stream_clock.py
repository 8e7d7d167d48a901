"""Times on GPU streams that the clock of the recording cannot explain: zero durations and overlaps.

A stream executes one op after another, and no work on a GPU takes zero time. A clock of whole
microseconds can hide short kernels and make neighbours overlap slightly; a finer clock cannot.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ....sim.errors import TraceError
from ....sim.units import Seconds
from ...column_table import Ints
from .rank_trace import RankTrace, rows_by_lane_and_start

SHORTEST: Seconds = 0.5e-6
"""No kernel is shorter: of 18,000 that were recorded to the nanosecond, on V100, A100, H100 and
MI300X, the shortest took 0.64 us."""
MOST = 0.01
"""Share of a stream's time that drift of the clock explains; a DLRM on V100s has 0.01 %."""
CURE = "accept that each lasts from the end of the one before it (serialise: true)"


def refuse_unexplained_times(events: RankTrace, overlapping: bool = False) -> None:
    """Refuse a trace whose times on GPU streams its clock cannot explain.

    Parameters
    ----------
    overlapping : True if work of a stream may overlap

    Raises
    ------
    TraceError
        Work has zero duration, or overlaps with earlier work of its stream.
    """
    place = events.process.file or f"rank {events.rank}"
    if told := unexplained_times(events, overlapping):
        raise TraceError(f"{place}: {told}")


def unexplained_times(events: RankTrace, overlapping: bool = False) -> str:
    """Message about times that the recording's clock cannot explain, with advice.

    "" if all is well.
    """
    row = rows_by_lane_and_start(events, events.is_gpu_work)
    if not len(row) or not events.trace.timed:
        return ""
    start, took = events.start[row], events.dur[row]
    grain = clock_resolution(start, took)
    second = float(events.trace.resolution)
    none = int((took == 0).sum())
    if none and grain < SHORTEST * second:
        return (
            f"{none} of {len(row)} pieces of GPU work take no time, although the clock has a "
            f"resolution of {grain / second * 1e9:.3g} ns; record it again"
        )
    if overlapping:
        return ""
    return _overlaps(events, row, grain)


def _overlaps(events: RankTrace, row: Ints, grain: int) -> str:
    lane, start, took = events.lane_of_event[row], events.start[row], events.dur[row]
    over = overlap_ticks(lane, start, start + took)
    over[over <= grain] = 0
    for each in np.unique(lane[over > 0]):
        own = lane == each
        share = over[own].sum() / max(int(took[own].sum()), 1)
        if share > MOST:
            at = row[own][np.argmax(over[own])]
            return (
                f"{int((over[own] > 0).sum())} of {int(own.sum())} pieces of work on stream "
                f"{int(events.table['stream'][at])} begin before the previous one has ended, "
                f"for a fraction {share:.2g} of the stream's time (longest: {events.text(at)!r}); "
                f"record it again, or, if kernels overlap on purpose, {CURE}"
            )
    return ""


def clock_resolution(start: Ints, took: Ints) -> int:
    """Largest number of ticks that divides all starts and durations: the resolution of the clock.

    >>> clock_resolution(np.array([1000, 3000, 8000]), np.array([1000, 0, 2000]))
    1000
    """
    return int(np.gcd.reduce(np.concatenate([took, start - start[:1]]))) or 1


def overlap_ticks(lane: Ints, start: Ints, end: Ints) -> Ints:
    """Ticks by which each event starts before the end of all earlier ones on its lane, shape (n,).

    Parameters
    ----------
    lane, start, end : columns of shape (n,), sorted by lane, then by start

    Examples
    --------
    >>> lane = np.array([0, 0, 0, 1])
    >>> overlap_ticks(lane, np.array([0, 4, 6, 0]), np.array([10, 5, 20, 9])).tolist()
    [0, 6, 4, 0]
    """
    found: NDArray[np.int64] = np.zeros(len(lane), np.int64)
    for each in np.unique(lane):
        own = np.flatnonzero(lane == each)
        reach = np.maximum.accumulate(end[own])
        found[own[1:]] = np.maximum(reach[:-1] - start[own[1:]], 0)
    return found
