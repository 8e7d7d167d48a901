"""Waits of host threads for collectives on a library's own threads (gloo on CPUs).

DistributedDataParallel waits for its buckets in the order in which it issued them, each just before
it copies that bucket's gradients back. Sizes tell which copy belongs to which bucket. For any other
collective, the issuing thread waited in the pause during which the collective ended.
"""

from __future__ import annotations

import re
from collections import deque
from math import prod
from typing import NamedTuple

import numpy as np

from ...column_table import Ints
from ...event_columns import Event
from ..events.cpu_segments import WaitSpans
from ..events.rank_trace import RankTrace
from .launches import Launches
from .thread_waits import busy_spans

COPY_BACK = re.compile(r"torch\.distributed\.ddp\.reducer::copy_bucket_to_grad")


class NetworkWaits(NamedTuple):
    """Waits of host threads for gloo collectives, one row per wait.

    Parameters
    ----------
    waits : thread and time span of each wait, shape (w,)
    work : index of the collective that each wait is for, shape (w,)
    end : end of each launched work in ticks, cut to the time when the waiting thread resumed, shape
        (work,)
    unresolved : number of collectives for which no waiting thread was found
    """

    waits: WaitSpans
    work: Ints
    end: Ints
    unresolved: int


def network_waits(events: RankTrace, work: Launches) -> NetworkWaits:
    """Find the waits of host threads for gloo's collectives."""
    rows = np.flatnonzero(events.is_gloo_collective[work.row] & (work.call >= 0))
    issued = rows[np.argsort(events.start[work.call[rows]], kind="stable")]
    lanes = events.lane_of_event[work.call[issued]]
    spans: list[tuple[int, int, int, int]] = []  # lane, start, until, work
    for lane in np.unique(lanes).tolist():
        spans += _waits_of_thread(events, work, lane, issued[lanes == lane].tolist())
    end = work.end.copy()
    for _, _, until, k in spans:
        end[k] = min(end[k], until)
    table = np.array(spans, np.int64).reshape(-1, 4)
    waits = WaitSpans(table[:, 0], table[:, 1], table[:, 2])
    return NetworkWaits(waits, table[:, 3], end, len(issued) - len(set(table[:, 3].tolist())))


def _waits_of_thread(
    events: RankTrace, work: Launches, lane: int, issued: list[int]
) -> list[tuple[int, int, int, int]]:
    """Waits (lane, start, until, work) of one thread for the collectives that it issued."""
    own = busy_spans(events, lane)
    resumed = _copy_back_starts(events, work, lane, issued)
    waits = []
    for k in issued:
        if k in resumed:
            at = int(np.searchsorted(own.start, resumed[k], side="right")) - 1
        else:  # the pause in which it ended
            at = int(np.searchsorted(own.start, work.end[k]))
        if not 0 < at < len(own.start):
            continue
        before, after = int(own.end[at - 1]), int(own.start[at])
        if k in resumed or before < work.end[k] <= after:
            waits.append((lane, before, min(max(int(work.end[k]), before), after), k))
    return waits


def _copy_back_starts(
    events: RankTrace, work: Launches, lane: int, issued: list[int]
) -> dict[int, int]:
    """Tick at which the copy of each bucket's gradients back began, by the bucket's all-reduce."""
    copies = np.flatnonzero(
        (events.kind == Event.OP) & (events.lane_of_event == lane) & events.name_matches(COPY_BACK)
    )
    calls = [(int(events.start[work.call[k]]), 0, k) for k in issued]
    calls += [(int(events.start[c]), 1, c) for c in copies.tolist()]
    waiting: deque[int] = deque()
    left, times = 0, {}
    for time, copy, row in sorted(calls):
        if not copy:
            waiting.append(row)
            continue
        if left <= 0 and waiting:
            bucket = waiting.popleft()
            times[bucket], left = time, largest_input_elements(events, int(work.row[bucket]))
        left -= largest_input_elements(events, row)
    return times


def largest_input_elements(events: RankTrace, row: int) -> int:
    """Number of elements of the largest input of an event; 0 if shapes were not recorded."""
    text = int(events.table["shapes"][row])
    if text < 0:
        return 0
    shapes = re.findall(r"\[([\d, ]+)\]", events.trace.strings[text])
    return max((prod(int(s) for s in shape.split(",")) for shape in shapes), default=0)
