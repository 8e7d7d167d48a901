"""Expansion of an SPMD graph into a flat graph with every op of every rank."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..csr import Csr
from ..flat_graph import FlatGraph, Participants
from ..ops import Kind, Ops

if TYPE_CHECKING:
    from .spmd_graph import SpmdGraph

Rows = NDArray[np.int64]


class Expansion:
    """Expansion of an SPMD graph: each rank's own ops, then collectives by family and group.

    Raises
    ------
    GraphError
        A collective, send or recv has no counterpart.

    Attributes
    ----------
    rows : for each rank, the row in the flat graph of each row of its program, shape (n,)
    """

    def __init__(self, template: SpmdGraph):
        template.check()
        self.t = t = template
        starts = [t.bases[t.ranks]]
        for f in range(len(t.groups)):
            starts.append(starts[-1] + t.first_calls(f)[-1])
        self._family_base = starts
        self.rows = [self._graph_rows(r) for r in range(t.ranks)]

    def block(self) -> FlatGraph:
        """Flat graph with all ops, dependencies and places."""
        tables = [p.ops for p in self.t.programs]
        source, rank = self._source_rows(np.cumsum([0, *map(len, tables)]))
        places, at = self._further_places(rank)
        edges = np.concatenate(
            [*self._dependencies_within_ranks(at), *self._message_dependencies()]
        )
        return FlatGraph(
            Ops.concat(tables).take(source).replace(rank=rank),
            Csr.from_pairs(edges[:, 0], edges[:, 1], len(self.t)),
            places,
            np.zeros(len(self.t)),
            self._peer_ranks(),
        )

    def _graph_rows(self, r: int) -> Rows:
        """Row in the flat graph of each row of rank ``r``'s program, shape (n,)."""
        program = self.t.programs[self.t.program[r]]
        rows = np.zeros(len(program), np.int64)
        single = program.non_collective
        rows[single] = self.t.bases[r] + np.arange(int(single.sum()))
        for f in range(len(self.t.groups)):
            at = np.flatnonzero(~single & (program.family == f))
            first = self.t.first_calls(f)[self.t.groups[f, r]]
            rows[at] = self._family_base[f] + first + np.arange(len(at))
        return rows

    def _source_rows(self, base: Rows) -> tuple[Rows, NDArray[np.int32]]:
        """For each row of the flat graph: its row among all programs, and its first rank."""
        source = np.zeros(len(self.t), np.int64)
        rank = np.zeros(len(self.t), np.int32)
        for r in reversed(range(self.t.ranks)):  # the first member has the last word
            program = self.t.program[r]
            source[self.rows[r]] = base[program] + np.arange(len(self.rows[r]))
            rank[self.rows[r]] = r
        return source, rank

    def _further_places(self, first: NDArray[np.int32]) -> tuple[Participants, list[Rows]]:
        """Further members of collectives, and the place number of each rank's program rows."""
        at = [rows.copy() for rows in self.rows]
        joint = [np.flatnonzero(~self.t.programs[p].non_collective) for p in self.t.program]
        ops = [rows[j] for rows, j in zip(self.rows, joint, strict=True)]
        op = np.concatenate([np.empty(0, np.int64), *ops])
        rank = np.repeat(np.arange(self.t.ranks), [len(j) for j in joint])
        streams = [self.t.programs[p].ops.stream[j]
                   for p, j in zip(self.t.program, joint, strict=True)]  # fmt: skip
        stream = np.concatenate([np.empty(0, np.int32), *streams])
        further = np.flatnonzero(first[op] != rank)
        further = further[np.lexsort((rank[further], op[further]))]
        place = op.copy()
        place[further] = len(self.t) + np.arange(len(further))
        for r, own in enumerate(np.split(place, np.cumsum([len(j) for j in joint])[:-1])):
            at[r][joint[r]] = own
        return Participants(
            op[further].astype(np.int32), rank[further].astype(np.int32), stream[further]
        ), at

    def _dependencies_within_ranks(self, at: list[Rows]) -> list[Rows]:
        """Dependencies within each rank, as pairs of an op and the place that waits for it."""
        found = [np.empty((0, 2), np.int64)]
        for rows, places, p in zip(self.rows, at, self.t.program, strict=True):
            after = self.t.programs[p].successors
            found.append(np.column_stack([rows[after.owner], places[after.values]]))
        return found

    def _message_dependencies(self) -> list[Rows]:
        """Dependencies of recvs on their sends, as (rows of sends, rows of their recvs)."""
        found = [np.empty((0, 2), np.int64)]
        for f, senders in enumerate(self.t.senders):
            for r, other in enumerate(senders.tolist()):
                hears = self._rows_of_family(r, Kind.RECV, f)
                if len(hears):
                    found.append(
                        np.column_stack([self._rows_of_family(other, Kind.SEND, f), hears])
                    )
        return found

    def _rows_of_family(self, r: int, kind: Kind, family: int) -> Rows:
        program = self.t.programs[self.t.program[r]]
        found: Rows = self.rows[r][(program.ops.kind == kind) & (program.family == family)]
        return found

    def _peer_ranks(self) -> NDArray[np.int32]:
        peer = np.full(len(self.t), -1, np.int32)
        for f, to in enumerate(self.t.peers):
            for r, other in enumerate(to.tolist()):
                peer[self._rows_of_family(r, Kind.SEND, f)] = other
        return peer
