"""What a host thread did from instant to instant: pieces between launches, waits and hand-overs.

The innermost operator that did most of its work itself (more than half of its time was not its
children's) stands for them.  Where it does the computing (no GPU in the rank) it is an op of its
own; where it only dispatches, consecutive pieces are one host op up to the next launch.  Time in
which nothing was recorded is a gap.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..column_table import Integers
from .call_tree import CallTree

GAP = -1


class Marks(NamedTuple):
    """Instants at which a thread's time is cut, so that another op can wait for it there."""

    line: Integers
    time: Integers


class WaitSpans(NamedTuple):
    """Spans in which a thread did nothing but wait; `until` is when what it waited for ended."""

    line: Integers
    start: Integers
    until: Integers


class CpuSegments(NamedTuple):
    """Consecutive pieces of every thread.

    Parameters
    ----------
    line : (n,) thread
    start, end : (n,) ticks
    owner : (n,) row of the event that was busiest; -1 in a gap
    wait : (n,) number of the wait that ends here, in a piece of no duration; else -1
    """

    line: Integers
    start: Integers
    end: Integers
    owner: Integers
    wait: Integers

    def at(self, marks: Marks) -> Integers:
        """(m,) The last piece that ended at or before each mark; -1 for none."""
        if not len(self.line):
            return np.full(len(marks.line), -1, np.int64)
        key, base = _keyed(self.line, self.end, marks.line, marks.time)
        found = np.searchsorted(key, base, side="right") - 1
        same = (found >= 0) & (self.line[found] == marks.line)
        return np.where(same, found, -1)


def _keyed(
    line: Integers, time: Integers, other: Integers, when: Integers
) -> tuple[Integers, Integers]:
    """(line, time) of two tables as one ascending number."""
    low = min(time.min(initial=0), when.min(initial=0))
    span = max(time.max(initial=0), when.max(initial=0)) - low + 1
    return line * span + (time - low), other * span + (when - low)


def visible(tree: CallTree, operator: NDArray[np.bool_], call: NDArray[np.bool_]) -> CallTree:
    """Only the events that stand for themselves.

    Parameters
    ----------
    operator : (n,) may stand for what ran inside it
    call : (n,) of the GPU's runtime: always kept, because it launches or waits
    """
    stands = operator & (2 * tree.own() > tree.end - tree.start)
    above = np.full(len(stands), -1, np.int64)
    for level in tree.levels():
        p = tree.parent[level]
        above[level] = np.where(above[p] >= 0, above[p], np.where(stands[p], p, -1))
    kept = ((above < 0) | call) & (tree.end > tree.start)
    number = np.cumsum(kept) - 1
    around = np.where(above >= 0, above, tree.parent)[kept]
    parent = np.where(around >= 0, number[around], -1)
    return CallTree(
        tree.row[kept], tree.line[kept], tree.start[kept], tree.end[kept], parent, tree.depth[kept]
    )


class _Borders(NamedTuple):
    """Instants at which something may change on a thread, ascending."""

    line: Integers
    time: Integers
    owner: Integers  # position in the nest of what runs from here on; GAP for nothing
    waiting: NDArray[np.bool_]
    cuts: Integers  # how many marks and waits up to here


_SAME = -2  # the owner stays what it was


def _borders(tree: CallTree, marks: Marks, waits: WaitSpans) -> _Borders:
    n, m, w = len(tree.row), len(marks.line), len(waits.line)
    line = np.concatenate([tree.line, tree.line, marks.line, waits.line, waits.line])
    time = np.concatenate([tree.start, tree.end, marks.time, waits.start, waits.until])
    owner = np.concatenate([np.arange(n), tree.parent, np.full(m + 2 * w, _SAME)])
    # at one instant ends come before starts, inner ends first, outer starts first
    rank = np.concatenate([tree.depth, -tree.depth - 1, np.zeros(m + 2 * w, np.int64)])
    order = np.lexsort((rank, time, line))
    change = np.zeros(len(line), np.int64)
    change[2 * n + m : 2 * n + m + w], change[2 * n + m + w :] = 1, -1
    owner, change = owner[order], change[order]
    known = np.maximum.accumulate(np.where(owner != _SAME, np.arange(len(owner)), 0))
    owner = owner[known] if len(owner) else owner
    return _Borders(
        line[order],
        time[order],
        np.where(owner == _SAME, GAP, owner),
        np.cumsum(change) > 0,
        np.cumsum(order >= 2 * n),
    )


def cpu_segments(
    tree: CallTree, marks: Marks, waits: WaitSpans, alone: NDArray[np.bool_]
) -> CpuSegments:
    """Cut every thread's time.

    Parameters
    ----------
    tree : what is :func:`visible`
    alone : (n,) events that are ops of their own, never merged with their neighbours
    """
    b = _borders(tree, marks, waits)
    here = np.flatnonzero(
        (b.line[:-1] == b.line[1:]) & (b.time[:-1] < b.time[1:]) & ~b.waiting[:-1]
    )
    line, start, end, owner = b.line[here], b.time[here], b.time[here + 1], b.owner[here]
    own = (owner >= 0) & alone[owner] if len(alone) else owner >= 0
    joins = (
        (line[1:] == line[:-1])
        & (start[1:] == end[:-1])
        & ((owner[1:] >= 0) == (owner[:-1] >= 0))
        & ~(own[1:] | own[:-1])
        & (b.cuts[here[1:]] == b.cuts[here[:-1]])
    )
    first = np.flatnonzero(np.concatenate([[True], ~joins])[: len(here)])
    last = np.append(first[1:], len(here)) - 1 if len(first) else first
    busiest = _busiest(end - start, first)
    row = np.where(owner >= 0, tree.row[owner], GAP) if len(tree.row) else owner
    found = CpuSegments(
        line[first], start[first], end[last], row[busiest], np.full(len(first), -1, np.int64)
    )
    return _with_waits(found, waits)


def _busiest(lasts: Integers, first: Integers) -> Integers:
    """The longest of each run of pieces."""
    if not len(lasts):
        return first
    group = np.repeat(np.arange(len(first)), np.diff(np.append(first, len(lasts))))
    order = np.lexsort((lasts, group))
    found: Integers = order[np.append(first[1:], len(lasts)) - 1]
    return found


def _with_waits(found: CpuSegments, waits: WaitSpans) -> CpuSegments:
    """Add a piece of no duration where each wait ends."""
    w = len(waits.line)
    line = np.concatenate([found.line, waits.line])
    start = np.concatenate([found.start, waits.until])
    end = np.concatenate([found.end, waits.until])
    order = np.lexsort((end, start, line))
    owner = np.concatenate([found.owner, np.full(w, GAP)])[order]
    wait = np.concatenate([found.wait, np.arange(w)])[order]
    return CpuSegments(line[order], start[order], end[order], owner, wait)
