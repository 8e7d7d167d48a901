"""Which event runs inside which, on every host thread: a forest, found in one pass."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ..column_table import Integers


class CallTree(NamedTuple):
    """Events of host threads as a forest; a parent stands before its children.

    Parameters
    ----------
    row : (n,) row of the event in the trace, by thread, start, and outermost first
    line : (n,) thread
    start, end : (n,) ticks; a child that ends after its parent is cut there
    parent : (n,) position of the event around it; -1 for none
    depth : (n,) 0 for the outermost
    """

    row: Integers
    line: Integers
    start: Integers
    end: Integers
    parent: Integers
    depth: Integers

    def own(self) -> Integers:
        """(n,) Ticks of each event in which none of its children ran."""
        lasts = self.end - self.start
        inner = self.parent >= 0
        children = np.bincount(self.parent[inner], lasts[inner], len(lasts))
        return lasts - children.astype(np.int64)

    def levels(self) -> Iterator[Integers]:
        """Positions one level below the outermost, then the next level, and so on."""
        order = np.argsort(self.depth, kind="stable")
        bounds = np.searchsorted(self.depth[order], np.arange(1, self.depth.max(initial=0) + 2))
        for low, high in pairwise(bounds.tolist()):
            yield order[low:high]


def call_tree(row: Integers, line: Integers, start: Integers, end: Integers) -> CallTree:
    """Find the forest.

    Examples
    --------
    >>> import numpy as np
    >>> tree = call_tree(np.arange(3), np.zeros(3, int), np.array([0, 1, 4]), np.array([9, 3, 5]))
    >>> tree.parent.tolist(), tree.own().tolist()
    ([-1, 0, 0], [6, 2, 1])
    """
    order = np.lexsort((row, -end, start, line))
    row, line, start, end = row[order], line[order], start[order], end[order]
    parent, depth, ends = _stack(line.tolist(), start.tolist(), end.tolist())
    found = (np.array(c, np.int64) for c in (ends, parent, depth))
    return CallTree(row, line, start, *found)


def _stack(
    lines: list[int], starts: list[int], ends: list[int]
) -> tuple[list[int], list[int], list[int]]:
    parents, depths, clipped = [-1] * len(ends), [0] * len(ends), [*ends]
    current = around = -1
    for i, (line, start) in enumerate(zip(lines, starts, strict=True)):
        if line != current:
            around, current = -1, line
        while around >= 0 and clipped[around] <= start:
            around = parents[around]
        if around >= 0:
            parents[i], depths[i] = around, depths[around] + 1
            if clipped[i] > (outer := clipped[around]):
                clipped[i] = outer
        around = i
    return parents, depths, clipped
