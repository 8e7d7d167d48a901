"""Waits of host threads for each other: ``backward()`` for autograd's thread, and back.

The profiler records no such wait. A thread that resumes after a pause, during which another thread
worked, is assumed to have waited for it if the other thread then paused. So the two never work at
the same time. Other threads that launch GPU work are assumed to wait for the main thread only.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...column_table import Ints
from ...event_columns import Event
from ..events.cpu_segments import CutPoints, WaitSpans
from ..events.device_use import is_launch
from ..events.rank_trace import RankTrace


class ThreadWaits(NamedTuple):
    """Waits of host threads: wait k is for thread `cuts.lane[k]` until time `cuts.time[k]`."""

    waits: WaitSpans
    cuts: CutPoints


class BusySpans(NamedTuple):
    """Time spans (ticks) in which a thread was busy, ascending and without overlap."""

    start: Ints
    end: Ints


def busy_spans(events: RankTrace, lane: int) -> BusySpans:
    """Time spans in which a thread ran operators or runtime calls.

    Annotations and Python do not count.
    """
    work = np.isin(events.kind, (Event.OP, Event.RUNTIME)) & (events.lane_of_event == lane)
    rows = np.flatnonzero(work & events.is_host_work)
    return union_of_spans(events.start[rows], events.end[rows])


def union_of_spans(start: Ints, end: Ints) -> BusySpans:
    """Union of spans: those that overlap or touch become one.

    >>> import numpy as np
    >>> union_of_spans(np.array([5, 0, 1]), np.array([6, 2, 3]))
    BusySpans(start=array([0, 5]), end=array([3, 6]))
    """
    order = np.argsort(start, kind="stable")
    start, reach = start[order], np.maximum.accumulate(end[order])
    new = np.concatenate([[True], start[1:] > reach[:-1]])[: len(start)]
    last = np.append(np.flatnonzero(new)[1:], len(start)) - 1 if len(start) else new
    return BusySpans(start[new], reach[last])


def thread_waits(events: RankTrace) -> ThreadWaits:
    """Find the waits between the main thread, autograd's threads, and others that launch work."""
    engine = np.unique(events.lane_of_event[events.is_autograd_operator])
    launching = np.unique(events.lane_of_event[is_launch(events, all_kinds=True)])
    main = busy_spans(events, 0)
    waits = []
    for lane in np.union1d(engine, launching).tolist():
        other = busy_spans(events, lane)
        if lane <= 0 or not len(main.start) or not len(other.start):
            continue
        waits.append(_waits_between_threads(lane, other, 0, main))
        if lane in engine:
            waits.append(_waits_between_threads(0, main, lane, other))
    if not waits:
        empty = np.empty(0, np.int64)
        return ThreadWaits(WaitSpans(empty, empty, empty), CutPoints(empty, empty))
    lane, start, until, to = (np.concatenate(c) for c in zip(*waits, strict=True))
    return ThreadWaits(WaitSpans(lane, start, until), CutPoints(to, until))


def _waits_between_threads(
    lane: int, own: BusySpans, to: int, other: BusySpans
) -> tuple[Ints, Ints, Ints, Ints]:
    """Waits of thread `lane` for thread `to`: (lane, start, until, awaited thread)."""
    starts = own.start[1:]
    before = own.end[:-1]
    at = np.searchsorted(other.start, starts) - 1
    until = np.where(at >= 0, other.end[at], np.iinfo(np.int64).min)
    k = np.flatnonzero((until > before) & (until <= starts))
    first = _first_wait(own, other)
    start, until = np.concatenate([first[0], before[k]]), np.concatenate([first[1], until[k]])
    return np.full(len(start), lane), start, until, np.full(len(start), to)


def _first_wait(own: BusySpans, other: BusySpans) -> tuple[Ints, Ints]:
    """Wait (start, until) before a thread's first work, if the other thread had started before."""
    empty = np.empty(0, np.int64)
    at = int(np.searchsorted(other.start, own.start[0])) - 1
    if at < 0 or other.end[at] > own.start[0]:
        return empty, empty
    until = other.end[at : at + 1]
    return until, until
