"""Waits of host threads in calls that do no work: locks, conditions, queues, sleeps, and polls.

The cause of a wait is inferred from what ended just before the thread continued: work of another
thread or of the GPU. Such ends must be rare enough that a coincidence is unlikely. If nothing
recorded ended then, the cause is unknown: a worker process, a timer, the network.
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
    """Time spans in which a host thread waited in a call, or polled.

    Parameters
    ----------
    lane, start, end : thread, and times in ticks, shape (n,)
    row : row of the event that shows the wait, shape (n,); for polling, the first query
    until : end of what was waited for in ticks, shape (n,); `end` if unknown
    work : index of the launched work that was waited for, shape (n,); -1 if none
    thread : lane of the thread that was waited for, shape (n,); -1 if none
    poll : 1 for a poll, else 0, shape (n,)
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
        """True where the cause of the wait is known, shape (n,)."""
        return np.asarray((self.work >= 0) | (self.thread >= 0))

    def take(self, which: NDArray[Any]) -> IdleCalls:
        """Selected rows of the table, by index or mask."""
        return IdleCalls(*(column[which] for column in self))


def idle_calls(events: RankTrace, work: Launches) -> IdleCalls:
    """Find the time spans in which host threads waited in calls or polled, with their causes."""
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
    """Spans (lane, start, end, row) of a thread in waiting calls, without operators inside them."""
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
    """Polling spans (lane, start, end, row) of a thread: consecutive queries without other work."""
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
    """Index of the last of the sorted `ends` that is just before `end`, unless by coincidence.

    Else -1.
    """
    low, high = np.searchsorted(ends, (start, end), side="right").tolist()
    if high == low or end - ends[high - 1] > near:
        return -1
    accident = (high - low - 1) * near / (end - start)
    return high - 1 if accident < ACCIDENT else -1
