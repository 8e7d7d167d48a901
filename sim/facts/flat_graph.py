"""Flat graph: a block of a graph in which every op is stored, with the ops that depend on it.

A *place* is one op on one rank. A **collective** is one op with a place on every member rank.
Place numbers extend row numbers: place ``r < n`` is the first place of op ``r``; places ``n``,
``n + 1``, … are the further places of collectives, ascending by op, in group order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import GraphError
from .csr import Csr
from .ops import Ops


@dataclass(frozen=True)
class Participants:
    """Further members of collectives: one row for each member rank after the first.

    Parameters
    ----------
    op : (e,) row of the collective, ascending
    rank, stream : (e,) rank and stream on which the member takes part
    """

    op: NDArray[np.int32]
    rank: NDArray[np.int32]
    stream: NDArray[np.int32]

    @classmethod
    def none(cls) -> Participants:
        """Empty table, for a graph without collectives between ranks."""
        empty = np.empty(0, np.int32)
        return cls(empty, empty, empty)

    def __len__(self) -> int:
        return len(self.op)


@dataclass(frozen=True)
class FlatGraph:
    """Ops with their dependencies, all stored explicitly.

    Parameters
    ----------
    ops : Table of the ops.
    successors : Csr
        Row ``i``: the *places* (ops on one rank) that wait for the end of op ``i``.
    places : Members of collectives after the first one.
    release : (n,) s
        Earliest start of each op, in s after the submission of the graph.
    peer : (n,) rank
        Rank at the other end of a send or recv; -1 for other ops.
    slot : Component whose slots each place queues for, -1 for none; None before the graph is
        placed.

    Raises
    ------
    GraphError
        Further places are not in the order of their ops, by which they are found.
    """

    ops: Ops
    successors: Csr
    places: Participants
    release: NDArray[np.float64]
    peer: NDArray[np.int32]
    slot: NDArray[np.int32] | None = None

    def __post_init__(self) -> None:
        op, n = self.places.op, len(self.ops)
        if len(op) and (op[0] < 0 or op[-1] >= n or np.any(op[1:] < op[:-1])):
            raise GraphError(
                "place order",
                f"further places of collectives belong to ops 0 to {n - 1}, ascending; "
                "sort them by op",
            )

    def __len__(self) -> int:
        return len(self.ops)

    @cached_property
    def rank(self) -> NDArray[np.int32]:
        """Rank of each place (op on one rank), shape (n + e,)."""
        return np.concatenate([self.ops.rank, self.places.rank])

    @cached_property
    def stream(self) -> NDArray[np.int32]:
        """Stream of each place (op on one rank), shape (n + e,)."""
        return np.concatenate([self.ops.stream, self.places.stream])

    @cached_property
    def op_of_place(self) -> NDArray[np.int64]:
        """Row of the op of each place, shape (n + e,)."""
        return np.concatenate([np.arange(len(self)), self.places.op])

    @cached_property
    def ranks(self) -> int:
        """Number of ranks; ranks that only receive are included."""
        return 1 + int(max(self.rank.max(initial=-1), self.peer.max(initial=-1)))

    @cached_property
    def members(self) -> Csr:
        """Ranks that take part in each op: one, both ends of a send, or a collective's members."""
        n = len(self)
        row: list[NDArray[Any]] = [np.arange(n), np.flatnonzero(self.peer >= 0), self.places.op]
        rank = [self.ops.rank, self.peer[self.peer >= 0], self.places.rank]
        return Csr.from_pairs(np.concatenate(row), np.concatenate(rank), n)


def concatenate_blocks(blocks: Sequence[FlatGraph]) -> FlatGraph:
    """Concatenate flat graphs into one."""
    if len(blocks) == 1:
        return blocks[0]
    n = sum(len(b) for b in blocks)
    base, extra, places, values = 0, n, [], []
    for b in blocks:
        v = b.successors.values.astype(np.int64)
        values.append(np.where(v < len(b), v + base, v - len(b) + extra))
        places.append(b.places.op.astype(np.int64) + base)
        base, extra = base + len(b), extra + len(b.places)
    ends = np.concatenate([[0], *(b.successors.counts for b in blocks)])
    slots = [b.slot for b in blocks if b.slot is not None]
    firsts = [b.slot[: len(b)] for b in blocks if b.slot is not None]
    furthers = [b.slot[len(b) :] for b in blocks if b.slot is not None]
    return FlatGraph(
        Ops.concat([b.ops for b in blocks]),
        Csr(np.cumsum(ends), np.concatenate([*values, np.empty(0)]).astype(np.int32)),
        Participants(
            np.concatenate([*places, np.empty(0)]).astype(np.int32),
            np.concatenate([b.places.rank for b in blocks]),
            np.concatenate([b.places.stream for b in blocks]),
        ),
        np.concatenate([b.release for b in blocks]),
        np.concatenate([b.peer for b in blocks]),
        np.concatenate(firsts + furthers) if len(slots) == len(blocks) and slots else None,
    )
