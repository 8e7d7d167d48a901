"""CPU segments: the time of each host thread, cut at launches, waits and ends of operators.

A segment is named after the innermost operator whose time is mostly self time. On a rank without a
GPU such an operator is a segment of its own, because it computes. On a rank with a GPU it only
dispatches, so consecutive operators form one segment up to the next cut. Time without recorded
events is a gap.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...column_table import Ints
from .call_tree import CallTree

NO_EVENT = -1
"""Event of a gap."""


class CutPoints(NamedTuple):
    """Instants in ticks at which a thread is cut into segments, so that ops can wait for these."""

    lane: Ints
    time: Ints


class WaitSpans(NamedTuple):
    """Time spans in which a host thread only waited, as columns of shape (n,).

    `lane` is the thread, `start` the tick at which it began to wait, and `until` the tick at which
    the awaited work or thread ended.
    """

    lane: Ints
    start: Ints
    until: Ints


class CpuSegments(NamedTuple):
    """Consecutive segments of every host thread, sorted by thread and start.

    Parameters
    ----------
    lane : host thread, shape (n,)
    start, end : times in ticks, shape (n,)
    event : row of the event that took most of the segment's time, shape (n,); -1 in a gap
    wait : number of the wait that ends here, in a segment of zero duration, shape (n,); otherwise
        -1
    """

    lane: Ints
    start: Ints
    end: Ints
    event: Ints
    wait: Ints

    def last_segment_before(self, cuts: CutPoints) -> Ints:
        """Index of the last segment that ended at or before each cut point, shape (cuts,).

        -1 if none did.
        """
        if not len(self.lane):
            return np.full(len(cuts.lane), -1, np.int64)
        ends, instants = lane_time_keys(self.lane, self.end, cuts.lane, cuts.time)
        last = np.searchsorted(ends, instants, side="right") - 1
        same = (last >= 0) & (self.lane[last] == cuts.lane)
        return np.where(same, last, -1)


def lane_time_keys(lane: Ints, time: Ints, other: Ints, when: Ints) -> tuple[Ints, Ints]:
    """Encode (lane, time) pairs as single integers that sort in the same order.

    The two tables are (`lane`, `time`) and (`other`, `when`); their keys can be compared.
    """
    low = min(time.min(initial=0), when.min(initial=0))
    span = max(time.max(initial=0), when.max(initial=0)) - low + 1
    return lane * span + (time - low), other * span + (when - low)


def segment_naming_tree(
    tree: CallTree, operator: NDArray[np.bool_], call: NDArray[np.bool_]
) -> CallTree:
    """Call tree of only those events that can name a CPU segment.

    Other events merge into their parents.

    Parameters
    ----------
    operator : True where an event may name a segment if most of its time is self time, shape (n,)
    call : True for calls of the GPU runtime, shape (n,); these are always kept, because they launch
        or wait
    """
    stands = operator & tree.is_mostly_self_time()
    above = np.full(len(stands), -1, np.int64)
    for level in tree.positions_by_depth():
        p = tree.parent[level]
        above[level] = np.where(above[p] >= 0, above[p], np.where(stands[p], p, -1))
    kept = ((above < 0) | call) & (tree.end > tree.start)
    number = np.cumsum(kept) - 1
    around = np.where(above >= 0, above, tree.parent)[kept]
    parent = np.where(around >= 0, number[around], -1)
    return CallTree(
        tree.row[kept], tree.lane[kept], tree.start[kept], tree.end[kept], parent, tree.depth[kept]
    )


class _SegmentBorders(NamedTuple):
    """Instants at which the current event of a thread may change, sorted by thread and time."""

    lane: Ints
    time: Ints
    running: Ints  # position in the tree of what runs from here on; NO_EVENT for nothing
    waiting: NDArray[np.bool_]
    cut_count: Ints  # how many cuts and waits up to here


_SAME = -2  # what runs stays what it was


def _segment_borders(tree: CallTree, cuts: CutPoints, waits: WaitSpans) -> _SegmentBorders:
    """Starts and ends of calls, waits and cut points, sorted by time on each lane."""
    n, m, w = len(tree.row), len(cuts.lane), len(waits.lane)
    lane = np.concatenate([tree.lane, tree.lane, cuts.lane, waits.lane, waits.lane])
    time = np.concatenate([tree.start, tree.end, cuts.time, waits.start, waits.until])
    running = np.concatenate([np.arange(n), tree.parent, np.full(m + 2 * w, _SAME)])
    # at one instant ends come before starts, inner ends first, outer starts first
    rank = np.concatenate([tree.depth, -tree.depth - 1, np.zeros(m + 2 * w, np.int64)])
    order = np.lexsort((rank, time, lane))
    change = np.zeros(len(lane), np.int64)
    change[2 * n + m : 2 * n + m + w], change[2 * n + m + w :] = 1, -1
    running, change = running[order], change[order]
    known = np.maximum.accumulate(np.where(running != _SAME, np.arange(len(running)), 0))
    running = running[known] if len(running) else running
    return _SegmentBorders(
        lane[order],
        time[order],
        np.where(running == _SAME, NO_EVENT, running),
        np.cumsum(change) > 0,
        np.cumsum(order >= 2 * n),
    )


def cpu_segments(
    tree: CallTree, cuts: CutPoints, waits: WaitSpans, alone: NDArray[np.bool_]
) -> CpuSegments:
    """Cut the time of every host thread into segments.

    Parameters
    ----------
    tree : call tree of the events that can name a segment, see :func:`segment_naming_tree`
    alone : True where an event is a segment of its own, never merged with neighbours, shape (n,)
    """
    b = _segment_borders(tree, cuts, waits)
    here = np.flatnonzero(
        (b.lane[:-1] == b.lane[1:]) & (b.time[:-1] < b.time[1:]) & ~b.waiting[:-1]
    )
    lane, start, end, running = b.lane[here], b.time[here], b.time[here + 1], b.running[here]
    own = (running >= 0) & alone[running] if len(alone) else running >= 0
    joins = (
        (lane[1:] == lane[:-1])
        & (start[1:] == end[:-1])
        & ((running[1:] >= 0) == (running[:-1] >= 0))
        & ~(own[1:] | own[:-1])
        & (b.cut_count[here[1:]] == b.cut_count[here[:-1]])
    )
    first = np.flatnonzero(np.concatenate([[True], ~joins])[: len(here)])
    last = np.append(first[1:], len(here)) - 1 if len(first) else first
    busiest = _longest_span_of_segments(end - start, first)
    row = np.where(running >= 0, tree.row[running], NO_EVENT) if len(tree.row) else running
    segments = CpuSegments(
        lane[first], start[first], end[last], row[busiest], np.full(len(first), -1, np.int64)
    )
    return _add_wait_segments(segments, waits)


def _longest_span_of_segments(lasts: Ints, first: Ints) -> Ints:
    """Index of the longest of the time spans that make up each segment.

    `lasts` is the length of each span, and `first` the index of the first span of each segment.
    """
    if not len(lasts):
        return first
    group = np.repeat(np.arange(len(first)), np.diff(np.append(first, len(lasts))))
    order = np.lexsort((lasts, group))
    longest: Ints = order[np.append(first[1:], len(lasts)) - 1]
    return longest


def _add_wait_segments(segments: CpuSegments, waits: WaitSpans) -> CpuSegments:
    """Add a segment of zero duration at the end of each wait."""
    w = len(waits.lane)
    lane = np.concatenate([segments.lane, waits.lane])
    start = np.concatenate([segments.start, waits.until])
    end = np.concatenate([segments.end, waits.until])
    order = np.lexsort((end, start, lane))
    event = np.concatenate([segments.event, np.full(w, NO_EVENT)])[order]
    wait = np.concatenate([segments.wait, np.arange(w)])[order]
    return CpuSegments(lane[order], start[order], end[order], event, wait)
