"""Call trees of host threads: the event inside which each event ran."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...column_table import Ints


class CallTree(NamedTuple):
    """Events of host threads as a forest; a parent comes before its children.

    Parameters
    ----------
    row : row of the event in the trace, shape (n,); sorted by thread and start, outermost first
    lane : host thread of the event, shape (n,)
    start, end : times in ticks, shape (n,); a child that ends after its parent is cut to the
        parent's end
    parent : index of the enclosing event, shape (n,); -1 if there is none
    depth : nesting depth, shape (n,); 0 for the outermost event
    """

    row: Ints
    lane: Ints
    start: Ints
    end: Ints
    parent: Ints
    depth: Ints

    def self_ticks(self) -> Ints:
        """Self time of each event in ticks, shape (n,): the time not spent in its children."""
        lasts = self.end - self.start
        inner = self.parent >= 0
        children = np.bincount(self.parent[inner], lasts[inner], len(lasts))
        return lasts - children.astype(np.int64)

    def is_mostly_self_time(self) -> NDArray[np.bool_]:
        """True where more than half of an event's time is self time, shape (n,)."""
        return np.asarray(2 * self.self_ticks() > self.end - self.start)

    def positions_by_depth(self) -> Iterator[Ints]:
        """Yield the indices of the events of depth 1, then those of depth 2, and so on."""
        order = np.argsort(self.depth, kind="stable")
        bounds = np.searchsorted(self.depth[order], np.arange(1, self.depth.max(initial=0) + 2))
        for low, high in pairwise(bounds.tolist()):
            yield order[low:high]


def call_tree(row: Ints, lane: Ints, start: Ints, end: Ints) -> CallTree:
    """Build the call tree of events from their lanes, starts and ends.

    Examples
    --------
    >>> import numpy as np
    >>> tree = call_tree(np.arange(3), np.zeros(3, int), np.array([0, 1, 4]), np.array([9, 3, 5]))
    >>> tree.parent.tolist(), tree.self_ticks().tolist()
    ([-1, 0, 0], [6, 2, 1])
    """
    order = np.lexsort((row, -end, start, lane))
    row, lane, start, end = row[order], lane[order], start[order], end[order]
    columns = _nest_events(lane.tolist(), start.tolist(), end.tolist())
    return CallTree(row, lane, start, *(np.array(c, np.int64) for c in columns))


def _nest_events(
    lanes: list[int], starts: list[int], ends: list[int]
) -> tuple[list[int], list[int], list[int]]:
    """End, parent and depth of each event.

    Events must be sorted by lane and start, outermost first.
    """
    parents, depths, clipped = [-1] * len(ends), [0] * len(ends), [*ends]
    current = around = -1
    for i, (lane, start) in enumerate(zip(lanes, starts, strict=True)):
        if lane != current:
            around, current = -1, lane
        while around >= 0 and clipped[around] <= start:
            around = parents[around]
        if around >= 0:
            parents[i], depths[i] = around, depths[around] + 1
            if clipped[i] > (outer := clipped[around]):
                clipped[i] = outer
        around = i
    return clipped, parents, depths
