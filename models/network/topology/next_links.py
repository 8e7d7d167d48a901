"""Next links from each switch towards each destination: all links on a least-cost path."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
BLOCK = 4_000_000  # links x destinations of one table: about 200 MB during construction
NEVER = np.int64(1) << 40


class NoRouteError(Exception):
    """No link leads from one switch towards another; both are given by index."""

    def __init__(self, at: int, to: int):
        super().__init__(at, to)
        self.at, self.to = at, to


class Candidates(NamedTuple):
    """Next links for each of several (switch, destination) pairs, as slices of ``NextLinks.links``.

    Parameters
    ----------
    first, length : (pairs,) start and length of each slice; length 0 if there is no route
    """

    first: Ints
    length: Ints


class NextLinks(Protocol):
    """Protocol of classes that look up the next links from switch to switch.

    Attributes
    ----------
    links : (n,) link indices, slice after slice; a link of weight 3 appears three times
    target : (links,) switch at the end of each link
    """

    links: Ints
    target: Ints

    def candidates(self, at: Ints, to: Ints) -> Candidates:
        """For each pair i, the links that lead from switch ``at[i]`` towards switch ``to[i]``."""
        ...

    def blocks(self, to: Ints) -> Iterator[NDArray[np.bool_] | slice]:
        """Masks that divide destinations into blocks, each looked up together."""
        ...


class CostTables:
    """Least-cost routing tables of any graph, computed per block of destinations on demand.

    Parameters
    ----------
    source, target, cost, turn, weight : (links,) start and end switch of each link, its routing
        cost, its tie-breaker (the lowest is used), and its weight under ``weighted`` routing
    up : (links,) True if the link may be used
    forwards : (switches,) True if the switch forwards traffic for others
    destinations : all destinations, sorted

    Examples
    --------
    >>> ring = np.array([0, 1, 2, 3, 1, 2, 3, 0]), np.array([1, 2, 3, 0, 0, 1, 2, 3])
    >>> one = np.ones(8, np.int64)
    >>> tables = CostTables(*ring, one, 0 * one, one, one > 0, np.ones(4, bool), np.arange(4))
    >>> tables.candidates(np.array([0, 0]), np.array([1, 2])).length.tolist()
    [1, 2]
    """

    def __init__(
        self, source: Ints, target: Ints, cost: Ints, turn: Ints, weight: Ints,
        up: NDArray[np.bool_], forwards: NDArray[np.bool_], destinations: Ints,
    ):  # fmt: skip
        self.target, self._forwards, self._homes = target, forwards, destinations
        self._order = np.flatnonzero(up)[np.argsort(source[up], kind="stable")]
        self._source, self._head = source[self._order], target[self._order]
        self._cost, self._turn = cost[self._order], turn[self._order]
        self._weight = weight[self._order]
        self._switches = len(forwards)
        self._from, self._starts = np.unique(self._source, return_index=True)
        self._each = max(1, BLOCK // max(1, len(self._order)))
        self._made: dict[int, tuple[Ints, Ints, Ints]] = {}
        self._open = -1
        self.links = np.zeros(0, np.int64)

    def blocks(self, to: Ints) -> Iterator[NDArray[np.bool_] | slice]:
        """Masks that divide destinations into blocks, each with one table."""
        block = np.searchsorted(self._homes, to) // self._each
        if len(self._homes) <= self._each:
            yield slice(None)
            return
        for one in np.unique(block).tolist():
            yield block == one

    def candidates(self, at: Ints, to: Ints) -> Candidates:
        """For each pair i, the least-cost links from switch ``at[i]`` towards switch ``to[i]``.

        All destinations must be in one block of ``blocks``.
        """
        place = np.searchsorted(self._homes, to)
        block = int(place[0]) // self._each if len(place) else 0
        if block != self._open:
            self._open = block
            self._first, self._count, self.links = self._table(block)
        key = (place - block * self._each) * self._switches + at
        return Candidates(self._first[key], self._count[key])

    def _table(self, block: int) -> tuple[Ints, Ints, Ints]:
        """Routing table of a block of destinations: first index, count, and link indices."""
        if block not in self._made:
            if len(self._made) * self._each * len(self._order) > 8 * BLOCK:
                self._made.clear()
            destinations = self._homes[block * self._each : (block + 1) * self._each]
            used = self._usable(destinations, self._distances(destinations))
            row, at = np.nonzero(used)
            size = len(destinations) * self._switches
            links = np.repeat(self._order[at], self._weight[at])
            flat = np.bincount(row * self._switches + self._source[at], self._weight[at], size)
            flat = flat.astype(np.int64)
            self._made[block] = (np.cumsum(flat) - flat, flat, links)
        return self._made[block]

    def _distances(self, destinations: Ints) -> Ints:
        """Least cost to each destination (Bellman-Ford), shape (destinations, switches)."""
        distances = np.full((len(destinations), self._switches), NEVER)
        distances[np.arange(len(destinations)), destinations] = 0
        if not len(self._order):
            return distances
        while True:
            best = np.minimum.reduceat(self._onward(distances, destinations), self._starts, axis=1)
            new = distances.copy()
            new[:, self._from] = np.minimum(distances[:, self._from], best)
            if np.array_equal(new, distances):
                return distances
            distances = new

    def _onward(self, distances: Ints, destinations: Ints) -> Ints:
        """Least cost to each destination over each link, shape (destinations, links)."""
        onward = distances[:, self._head] + self._cost
        if not self._forwards.all():
            stuck = ~self._forwards[self._head] & (self._head != destinations[:, None])
            onward[stuck] = NEVER
        return np.asarray(np.minimum(onward, NEVER))

    def _usable(self, destinations: Ints, distances: Ints) -> NDArray[np.bool_]:
        """Mask of links on a least-cost path with the lowest ``turn``, (destinations, links)."""
        onward = self._onward(distances, destinations)
        used = (onward == distances[:, self._source]) & (onward < NEVER)
        used &= self._source != destinations[:, None]
        if len(self._order) and self._turn.any():
            turn = np.where(used, self._turn, NEVER)
            least = np.full(distances.shape, NEVER)
            least[:, self._from] = np.minimum.reduceat(turn, self._starts, axis=1)
            used &= turn == least[:, self._source]
        return np.asarray(used)
