"""Next links in a tree of switch levels, by arithmetic: up, unless the leaf is below."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from .next_links import Candidates

Ints = NDArray[np.int64]


class TreeLinks:
    """Next-link lookup for trees in which each switch is above a range of consecutive leaves.

    Gives the same result as ``CostTables`` on the same links, without a table per destination.

    Parameters
    ----------
    source, target : (links,) switch indices; leaves come first
    level : (switches,) level of each switch, 0 for leaves
    low, span : (switches,) first leaf below each switch, and number of leaves below it; the
        children of one switch all have the same number, except the last
    leaves : number of leaves

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
        self.target, self._low, self._span = target, low, span
        rises = level[target] > level[source]
        up, down = np.flatnonzero(rises), np.flatnonzero(~rises)
        up = up[np.argsort(source[up], kind="stable")]
        self._ups = np.bincount(source[up], minlength=len(level))
        self._first_up = np.cumsum(self._ups) - self._ups
        branch = source[down] * leaves + low[target[down]]
        down = down[np.argsort(branch, kind="stable")]
        self.links = np.concatenate([up, down])
        branch, first, self._downs = np.unique(
            np.sort(branch), return_index=True, return_counts=True
        )
        self._first_down = len(up) + first
        branches = np.bincount(branch // leaves, minlength=len(level))
        self._first_branch = np.cumsum(branches) - branches
        self._branch_span = np.ones(len(level), np.int64)  # leaves below each switch beneath
        self._branch_span[source[down]] = span[target[down]]

    def blocks(self, to: Ints) -> Iterator[NDArray[np.bool_] | slice]:
        """Put all destinations into one block, which is looked up together."""
        yield slice(None)

    def candidates(self, at: Ints, to: Ints) -> Candidates:
        """For each pair i, the links that lead from switch ``at[i]`` towards leaf ``to[i]``."""
        beneath = to - self._low[at]
        below = (beneath >= 0) & (beneath < self._span[at])
        if below.all():
            branch = self._first_branch[at] + beneath // self._branch_span[at]
            return Candidates(self._first_down[branch], self._downs[branch])
        first, length = self._first_up[at], self._ups[at]
        if below.any():
            under = at[below]
            branch = self._first_branch[under] + beneath[below] // self._branch_span[under]
            first[below], length[below] = self._first_down[branch], self._downs[branch]
        return Candidates(first, length)
