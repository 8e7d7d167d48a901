"""One thread waits for another: ``backward()`` for the autograd thread, and that for more work.

The profiler records no such wait.  A thread that resumes after a pause in which the other worked
is taken to have waited for it if the other paused in turn: the two never work at once.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from ..column_table import Integers
from ..event_columns import Event
from .cpu_segments import Marks, WaitSpans
from .rank_trace import RankTrace

BACKWARD = re.compile(r"autograd::engine::")


class ThreadWaits(NamedTuple):
    """Waits of threads for each other: wait k is for what thread `marks.line[k]` had done."""

    waits: WaitSpans
    marks: Marks


class BusySpans(NamedTuple):
    """Times in which a thread ran something, ascending and apart."""

    start: Integers
    end: Integers


def busy(view: RankTrace, line: int) -> BusySpans:
    """When a thread ran operators or runtime calls; annotations and Python are no evidence."""
    work = np.isin(view.kind, (Event.OP, Event.RUNTIME)) & (view.lines == line)
    rows = np.flatnonzero(work & view.on_host)
    return union(view.start[rows], view.end[rows])


def union(start: Integers, end: Integers) -> BusySpans:
    """Overlapping spans as one.

    >>> import numpy as np
    >>> union(np.array([5, 0, 1]), np.array([6, 2, 3]))
    BusySpans(start=array([0, 5]), end=array([3, 6]))
    """
    order = np.argsort(start, kind="stable")
    start, reach = start[order], np.maximum.accumulate(end[order])
    new = np.concatenate([[True], start[1:] > reach[:-1]])[: len(start)]
    last = np.append(np.flatnonzero(new)[1:], len(start)) - 1 if len(start) else new
    return BusySpans(start[new], reach[last])


def thread_waits(view: RankTrace) -> ThreadWaits:
    """Waits between the main thread and autograd's threads."""
    backward = view.named(BACKWARD) | (view.events["forward"] >= 0)
    engine = np.unique(view.lines[(view.kind == Event.OP) & backward])
    main = busy(view, 0)
    parts = []
    for line in engine[engine > 0].tolist():
        other = busy(view, line)
        if not len(main.start) or not len(other.start):
            continue
        parts += [_resumes(0, main, line, other), _resumes(line, other, 0, main)]
    if not parts:
        empty = np.empty(0, np.int64)
        return ThreadWaits(WaitSpans(empty, empty, empty), Marks(empty, empty))
    line, start, until, to = (np.concatenate(c) for c in zip(*parts, strict=True))
    return ThreadWaits(WaitSpans(line, start, until), Marks(to, until))


def _resumes(
    line: int, own: BusySpans, to: int, other: BusySpans
) -> tuple[Integers, Integers, Integers, Integers]:
    """Waits of a thread: (line, start, until, thread waited for)."""
    starts = own.start[1:]
    before = own.end[:-1]
    at = np.searchsorted(other.start, starts) - 1
    until = np.where(at >= 0, other.end[at], np.iinfo(np.int64).min)
    k = np.flatnonzero((until > before) & (until <= starts))
    first = _first(own, other)
    start, until = np.concatenate([first[0], before[k]]), np.concatenate([first[1], until[k]])
    return np.full(len(start), line), start, until, np.full(len(start), to)


def _first(own: BusySpans, other: BusySpans) -> tuple[Integers, Integers]:
    """The wait before the first work of a thread, if the other had begun before."""
    empty = np.empty(0, np.int64)
    at = int(np.searchsorted(other.start, own.start[0])) - 1
    if at < 0 or other.end[at] > own.start[0]:
        return empty, empty
    until = other.end[at : at + 1]
    return until, until
