"""Waits of host threads in calls that do nothing: locks, conditions, queues, sleeps, and polls.

A wait is told from work by what ends with it: work of another thread, or of the GPU, that ended
just before the thread went on, and seldom enough for that to be no accident.  A call that ends with
nothing recorded is a wait of unknown cause: a worker process, a timer, the network.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...column_table import Ints
from ...event_columns import Event
from ..events.rank_trace import RankTrace
from .host_waits import SHORT
from .launches import Launches
from .thread_waits import BusySpans, busy_spans, union_of_spans

IDLE = re.compile(
    r"(.*/)?threading\.py\(\d+\): (wait|wait_for|join|acquire|_wait_for_tstate_lock)$"
    r"|(.*/)?(queue|queues|connection|synchronize|popen_fork|_base|selectors|subprocess)\.py"
    r"\(\d+\): (get|put|join|wait|poll|_poll|recv|recv_bytes|acquire|result|select)$"
    r"|<built-in (function|method) (acquire|sleep|select|poll|recv|accept|wait|join)\b"
    r"(?! of (Event|Stream))"
    r"|(.*#)?_MultiProcessingDataLoaderIter\."
    r"|pthread_(cond_(timed)?wait|join|mutex_lock)|sem_(timed)?wait|futex|epoll_wait|(nano|u)?sleep$"
)
QUERY = re.compile(r"(cuda|hip|cu)(Event|Stream)Query")
QUERIES = 8  # one after the other, before they are a poll
NEAR = 2e-4  # s: a thread goes on this soon after what it waited for has ended
ACCIDENT = 0.2  # ends that would lie that near by accident


class IdleCalls(NamedTuple):
    """Spans in which a host thread waited in a call, or polled.

    Parameters
    ----------
    lane, start, end : (n,) thread, and ticks
    row : (n,) row of the event that says so, the first of a poll
    until : (n,) ticks; end of what was waited for, `end` where that is unknown
    work : (n,) position of the launched work that was waited for; -1 for none
    thread : (n,) lane of the thread that was waited for; -1 for none
    poll : (n,) 1 for a poll
    """

    lane: Ints
    start: Ints
    end: Ints
    row: Ints
    until: Ints
    work: Ints
    thread: Ints
    poll: Ints

    @property
    def is_cause_known(self) -> NDArray[np.bool_]:
        """(n,) Whether it is known what each waited for."""
        return np.asarray((self.work >= 0) | (self.thread >= 0))

    def take(self, which: NDArray[Any]) -> IdleCalls:
        """Some of them, by position or mask."""
        return IdleCalls(*(column[which] for column in self))


def idle_calls(events: RankTrace, work: Launches) -> IdleCalls:
    """Find the spans in which host threads waited in calls or polled, and what for."""
    threads = {lane: busy_spans(events, lane) for lane in range(events.host_lane_count)}
    idle, asks = events.is_host_work & events.name_matches(IDLE), events.name_matches(QUERY)
    spans = [
        (*span, 0) for lane in threads for span in _waiting_spans(events, lane, threads[lane], idle)
    ]
    spans += [(*span, 1) for lane in threads for span in _polling_spans(events, lane, asks)]
    gpu = np.flatnonzero(events.is_gpu_work[work.row])
    gpu = gpu[np.argsort(work.end[gpu], kind="stable")]
    near = int(NEAR * events.trace.resolution)
    rows = []
    for lane, start, end, row, poll in spans:
        k, other, until = -1, -1, end
        if (at := _matching_end(work.end[gpu], start, end, near)) >= 0:
            k, until = int(gpu[at]), int(work.end[gpu[at]])
        for thread, busy in threads.items() if k < 0 else ():
            if thread != lane and (at := _matching_end(busy.end, start, end, near)) >= 0:
                other, until = thread, int(busy.end[at])
        rows.append((lane, start, end, row, until, k, other, poll))
    return IdleCalls(*np.array(rows, np.int64).reshape(-1, 8).T)


def _waiting_spans(
    events: RankTrace, lane: int, busy: BusySpans, idle: NDArray[np.bool_]
) -> list[tuple[int, int, int, int]]:
    """(lane, start, end, row) of a thread's spans in waiting calls, operators in them aside."""
    rows = np.flatnonzero(idle & (events.lane_of_event == lane))
    if not len(rows):
        return []
    calls = union_of_spans(events.start[rows], events.end[rows])
    spans, short = [], SHORT * events.trace.resolution
    for start, end in zip(calls.start.tolist(), calls.end.tolist(), strict=True):
        row = int(rows[np.argmax(events.start[rows] == start)])
        low, high = np.searchsorted(busy.end, start, "right"), np.searchsorted(busy.start, end)
        begins = [start, *busy.end[low:high].tolist()]
        ends = [*busy.start[low:high].tolist(), end]
        spans += [(lane, b, e, row) for b, e in zip(begins, ends, strict=True) if e - b > short]
    return spans


def _polling_spans(
    events: RankTrace, lane: int, asks: NDArray[np.bool_]
) -> list[tuple[int, int, int, int]]:
    """(lane, start, end, row) of the polls of a thread: queries with nothing between them."""
    mine = np.isin(events.kind, (Event.OP, Event.RUNTIME)) & (events.lane_of_event == lane)
    rows = np.flatnonzero(mine)
    rows = rows[np.argsort(events.start[rows], kind="stable")]
    asking = asks[rows] & (events.kind[rows] == Event.RUNTIME)
    edges = np.flatnonzero(np.diff(np.concatenate([[0], asking, [0]])))
    spans, short = [], SHORT * events.trace.resolution
    for first, after in edges.reshape(-1, 2).tolist():
        start, end = int(events.start[rows[first]]), int(events.end[rows[after - 1]])
        if after - first >= QUERIES and end - start > short:
            spans.append((lane, start, end, int(rows[first])))
    return spans


def _matching_end(ends: Ints, start: int, end: int, near: int) -> int:
    """The last of ascending ends that lies just before `end`, if that is no accident; else -1."""
    low, high = np.searchsorted(ends, (start, end), side="right").tolist()
    if high == low or end - ends[high - 1] > near:
        return -1
    accident = (high - low - 1) * near / (end - start)
    return high - 1 if accident < ACCIDENT else -1
