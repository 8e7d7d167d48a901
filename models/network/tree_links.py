"""Next links in a tree of switches in levels, by arithmetic: up, unless the leaf is below."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from .next_links import Candidates

Ints = NDArray[np.int64]


class TreeLinks:
    """Next links where each switch is above some leaves that follow each other.

    They are those of ``CostTables`` on the same links, without a table for each destination.

    Parameters
    ----------
    source, target : (links,) switches by number; leaves come first
    level : (switches,) 0 for leaves
    low, span : (switches,) the first leaf below each, and how many there are
    leaves : int

    Examples
    --------
    >>> two_leaves_one_spine = np.array([0, 1, 2, 2]), np.array([2, 2, 0, 1])
    >>> facts = np.array([0, 0, 1]), np.array([0, 1, 0]), np.array([1, 1, 2])
    >>> tree = TreeLinks(*two_leaves_one_spine, *facts, 2)
    >>> found = tree.candidates(np.array([0, 2]), np.array([1, 1]))
    >>> tree.links[found.first].tolist(), found.length.tolist()
    ([0, 3], [1, 1])
    """

    def __init__(self, source: Ints, target: Ints, level: Ints, low: Ints, span: Ints, leaves: int):
        self.target, self._low, self._span, self._leaves = target, low, span, leaves
        rises = level[target] > level[source]
        up, down = np.flatnonzero(rises), np.flatnonzero(~rises)
        up = up[np.argsort(source[up], kind="stable")]
        key = source[down] * leaves + low[target[down]]
        order = np.argsort(key, kind="stable")
        self.links = np.concatenate([up, down[order]])
        self._ups = np.bincount(source[up], minlength=len(level))
        self._first_up = np.cumsum(self._ups) - self._ups
        self._below, first, self._downs = np.unique(
            key[order], return_index=True, return_counts=True
        )
        self._first_down = len(up) + first

    def blocks(self, to: Ints) -> Iterator[NDArray[np.bool_] | slice]:
        """All destinations are answered together."""
        yield slice(None)

    def candidates(self, at: Ints, to: Ints) -> Candidates:
        """Links that lead from switches ``at`` towards leaves ``to``."""
        beneath = to - self._low[at]
        below = (beneath >= 0) & (beneath < self._span[at])
        branch = np.searchsorted(self._below, at * self._leaves + to, side="right") - 1
        first = np.where(below, self._first_down[branch], self._first_up[at])
        return Candidates(first, np.where(below, self._downs[branch], self._ups[at]))
