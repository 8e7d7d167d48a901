"""Graphs in memory that have no Python object: columns, with one entry per graph."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .memory.run_memory import GraphOffsets, RunMemory
from .memory.state_layout import NONE
from .readout import CLAIM_TIMES

Ints = NDArray[np.int64]


@dataclass
class FlatGraphs:
    """Graphs that compiled processes submitted without Python, in the order of submission.

    Those that joined come first; they are the last rows of the table of graphs in memory.

    Parameters
    ----------
    first, index : (g,) id of the first op, and number of earlier submissions
    ops, places : (g,) number of ops, and of places (ops on one rank)
    offsets : (g, 10) first row and number of rows in each table of memory, as `GraphOffsets`; the
        first is NONE for a graph that did not join yet
    flows : (g,) number of flows
    """

    first: Ints
    index: Ints
    ops: Ints
    places: Ints
    offsets: Ints
    flows: Ints

    @classmethod
    def none(cls) -> FlatGraphs:
        """No graph."""
        nothing = np.empty(0, np.int64)
        return cls(nothing, nothing, nothing, nothing, np.empty((0, 10), np.int64), nothing)

    def __len__(self) -> int:
        return len(self.first)

    def take(self, which: NDArray[np.bool_]) -> FlatGraphs:
        """Selected graphs."""
        columns = self.first, self.index, self.ops, self.places, self.offsets, self.flows
        return FlatGraphs(*(column[which] for column in columns))

    @property
    def joined(self) -> int:
        """Number of graphs that joined."""
        return int(np.count_nonzero(self.offsets[:, 0] != NONE))

    @property
    def waiting_places(self) -> int:
        """Number of places of the graphs that did not join."""
        return int(self.places[self.joined :].sum())

    def bases(self, places: int) -> Ints:
        """First place of each graph; of those that did not join, behind a number of places."""
        found = self.offsets[:, 0].copy()
        sizes = self.places[self.joined :]
        found[self.joined :] = places + np.cumsum(sizes) - sizes
        return found

    def claims(self, memory: RunMemory) -> tuple[Ints, list[Ints]]:
        """Number of claims of each graph; ticks of request, grant and release of all claims."""
        first, count = self.offsets[:, 8], self.offsets[:, 9]
        total = int(count.sum())
        rows = np.repeat(first - np.cumsum(count) + count, count) + np.arange(total)
        times = [memory.claim_table[rows, column] for column in CLAIM_TIMES.values()]
        never = np.repeat(self.offsets[:, 0] == NONE, count)
        return count, [np.where(never, NONE, one) for one in times]

    def stay(self, over: NDArray[np.bool_]) -> tuple[list[int], list[GraphOffsets]]:
        """Positions and offsets of the joined graphs that are not over."""
        at = np.flatnonzero(~over[: self.joined]).tolist()
        return at, [GraphOffsets(*row) for row in self.offsets[at].tolist()]

    def free_flows(self, memory: RunMemory, over: NDArray[np.bool_]) -> None:
        """Mark the flows of graphs that are over: they never run again."""
        first, count = self.offsets[over, 4], self.flows[over]
        rows = np.repeat(first - np.cumsum(count) + count, count) + np.arange(int(count.sum()))
        memory.sharing.end_flows(rows)
