"""Resize a recorded training step to more (or fewer) data-parallel ranks.

With D recorded replicas, new replica d does what recorded replica ``d mod D`` did, and each of its
ranks what the corresponding recorded rank did. A collective over all replicas becomes one over all
new replicas. A collective within a replica is copied with it. The fabric model predicts the times
of the larger collectives.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ...sim.errors import TraceError
from ...sim.facts.csr import Csr
from ...sim.facts.flat_graph import FlatGraph, Participants
from ...sim.facts.graph import Graph
from ...sim.facts.ops import Kind
from ...sim.facts.signature import parse_signature

SHARING = ("all-gather", "reduce-scatter", "all-to-all", "gather", "scatter")


@dataclass(frozen=True)
class Layout:
    """Numbering of ranks: tensor varies fastest, then data, then pipeline (Megatron's default)."""

    tensor: int = 1
    data: int = 1
    pipeline: int = 1

    @property
    def ranks(self) -> int:
        """Number of ranks."""
        return self.tensor * self.data * self.pipeline

    def replica(self, rank: NDArray[np.int32]) -> NDArray[np.int32]:
        """Data-parallel replica of each rank.

        >>> Layout(tensor=2, data=2).replica(np.arange(4)).tolist()
        [0, 0, 1, 1]
        """
        return np.asarray(rank // self.tensor % self.data, np.int32)

    def to_replica(
        self, rank: NDArray[np.int32], replica: int | NDArray[np.int32], data: int
    ) -> NDArray[np.int32]:
        """Corresponding rank in another replica of a layout with ``data`` replicas."""
        tensor, stage = rank % self.tensor, rank // (self.tensor * self.data)
        return np.asarray(tensor + self.tensor * (replica + data * stage), np.int32)


def scale(
    graph: Graph, layout: Layout, data: int, within: NDArray[np.bool_] | None = None
) -> Graph:
    """Resize the data-parallel groups of a recorded graph to ``data`` replicas.

    Parameters
    ----------
    graph : recorded graph
    layout : numbering of the recorded ranks
    data : new number of data-parallel replicas
    within : True where an op is a collective within a replica, whatever its number of ranks, shape
        (n,)

    Raises
    ------
    TraceError
        The number of ranks does not fit the layout. Or a collective joins only some of the
        replicas, or distributes shards over them, and the number of replicas changes.

    Examples
    --------
    >>> from foretrace.sim.facts.graph import Builder, Member
    >>> from foretrace.sim.facts.ops import Kind
    >>> build = Builder("pair")
    >>> work = [build.op(Kind.COMPUTE, rank=r, duration=1.0) for r in range(2)]
    >>> _ = build.collective([Member(r, 1, (work[r],)) for r in range(2)], bytes=4e6)
    >>> wide = scale(build.graph(), Layout(data=2), 8)
    >>> wide.ranks, len(wide), wide.explicit.members.counts.tolist()[-1]
    (8, 9, 8)
    """
    if graph.ranks != layout.ranks:
        raise TraceError(
            f"{graph.name}: {graph.ranks} ranks were recorded, but tensor {layout.tensor} x data "
            f"{layout.data} x pipeline {layout.pipeline} is {layout.ranks}; correct "
            "workload.recorded_on.parallel"
        )
    scaled = _ScaledGraph(graph, layout, data)
    scaled.join_replicas(within)
    return scaled.graph({"scaled_to_data": data})


def replicate_ranks(graph: Graph, copies: int, joint: NDArray[np.bool_]) -> Graph:
    """Add identical ranks next to each rank; the copies of a rank share some collectives.

    Parameters
    ----------
    copies : number of ranks that replace each rank
    joint : True where an op is a collective that the copies of a rank share, shape (n,)

    Examples
    --------
    >>> from foretrace.sim.facts.graph import Builder, Member
    >>> from foretrace.sim.facts.ops import Kind
    >>> build = Builder("one")
    >>> work = build.op(Kind.COMPUTE, duration=1.0)
    >>> _ = build.collective([Member(0, 1, (work,))], bytes=4e6)
    >>> wide = replicate_ranks(build.graph(), 2, np.array([False, True]))
    >>> wide.ranks, wide.ops.rank.tolist(), wide.explicit.members.counts.tolist()
    (2, [0, 1, 0], [1, 1, 2])
    """
    scaled = _ScaledGraph(graph, Layout(pipeline=graph.ranks), copies)
    scaled.join(joint)
    return scaled.graph({})


class _ScaledGraph:
    """Builder: copies of the recorded graph, joined by the collectives over all replicas."""

    def __init__(self, graph: Graph, layout: Layout, data: int):
        self.source, self.layout, self.data = graph, layout, data
        self.block = graph.explicit
        self.copies = -(-data // layout.data)

    def join_replicas(self, within: NDArray[np.bool_] | None) -> None:
        """Join the copies in the collectives over all replicas."""
        joint = self._is_joint_collective(within)
        self._refuse_shards(joint)
        self.join(joint)

    def join(self, joint: NDArray[np.bool_]) -> None:
        """Number the ops of all copies; joint ops get one number for all copies."""
        layout, data, n = self.layout, self.data, len(self.block)
        self.joint = joint
        own = np.flatnonzero(~self.joint)
        replica = layout.replica(self.block.ops.rank)
        self.row = np.full((self.copies, n), -1, np.int64)  # of each op in each copy
        base = 0
        for c in range(self.copies):
            kept = own[replica[own] + c * layout.data < data]
            self.row[c, kept] = base + np.arange(len(kept))
            base += len(kept)
        self.row[:, self.joint] = base + np.arange(int(self.joint.sum()))
        self.total = base + int(self.joint.sum())

    def _is_joint_collective(self, within: NDArray[np.bool_] | None) -> NDArray[np.bool_]:
        """True where an op is a collective over all replicas, shape (n,)."""
        members = self.block.members
        replica = self.layout.replica(members.values)
        pairs = np.unique(np.stack([members.owner, replica], axis=1), axis=0)
        spans = np.bincount(pairs[:, 0], minlength=len(self.block))
        partial = np.flatnonzero((spans > 1) & (spans < self.layout.data))
        if len(partial):
            row = int(partial[0])
            raise TraceError(
                f"{self.source.name}: op {row} ({self.source.label(row).name}) joins {spans[row]} "
                f"of {self.layout.data} data-parallel replicas, so it cannot be resized; "
                "describe the model instead (workload.type: training)"
            )
        everyone = (spans > 1) | (self.layout.ranks == 1)  # one process: its groups are of all
        joint = np.asarray(everyone & (self.block.ops.kind == Kind.COLLECTIVE))
        if within is not None:
            joint &= ~within
        self._refuse_uneven_parts(joint)
        return joint

    def _refuse_uneven_parts(self, joint: NDArray[np.bool_]) -> None:
        """Refuse an all-to-all over all replicas whose parts are given for each rank."""
        if self.data == self.layout.data:
            return
        for row in np.flatnonzero(joint).tolist():
            text = self.block.ops.signature_text(row)
            if text and (told := parse_signature(text).attributes):
                raise TraceError(
                    f"{self.source.name}: op {row} ({self.source.label(row).name}) exchanges "
                    f"unequal parts among {self.layout.ranks} ranks ({', '.join(told)}); the "
                    f"parts for {self.data} replicas are unknown; describe the model "
                    "instead (workload.type: training)"
                )

    def _refuse_shards(self, joint: NDArray[np.bool_]) -> None:
        """Refuse collectives over all replicas that distribute shards, such as all-gather."""
        if self.data == self.layout.data:
            return
        for row in np.flatnonzero(joint).tolist():
            name = self.block.ops.signature_text(row).partition(" ")[0].partition(":")[2]
            if name in SHARING:
                raise TraceError(
                    f"{self.source.name}: op {row} ({name}) distributes shards over "
                    f"{self.layout.data} data-parallel replicas (as ZeRO and FSDP do); with "
                    f"{self.data} replicas the ops on a shard take other times, which the trace "
                    "does not contain; describe the model (workload.type: training, with "
                    "parallel.zero)"
                )

    def graph(self, facts: Mapping[str, object]) -> Graph:
        """Build the graph of all copies."""
        block = self.block
        source = np.zeros(self.total, np.int64)
        copy = np.zeros(self.total, np.int64)
        for c in reversed(range(self.copies)):
            rows = np.flatnonzero(self.row[c] >= 0)
            source[self.row[c, rows]], copy[self.row[c, rows]] = rows, c
        rank = self._new_rank(block.ops.rank[source], copy)
        peer = np.where(block.peer[source] >= 0, self._new_rank(block.peer[source], copy), -1)
        places, place = self._added_member_places()
        scaled = FlatGraph(
            block.ops.take(source).replace(rank=rank),
            self._successors(place),
            places,
            block.release[source],
            peer.astype(np.int32),
        )
        return replace(
            self.source,
            blocks=(scaled,),
            streams=self._stream_kinds(),
            facts={**self.source.facts, **facts},
        )

    def _new_rank(self, rank: NDArray[np.int32], copy: NDArray[np.int64]) -> NDArray[np.int32]:
        """New rank number of a recorded rank in one of the copies."""
        replica = np.asarray(self.layout.replica(rank) + copy * self.layout.data, np.int32)
        return self.layout.to_replica(rank, replica, self.data)

    def _added_member_places(self) -> tuple[Participants, NDArray[np.int64]]:
        """Added participants of collectives, and each participant's new index in each copy."""
        block, n = self.block, len(self.block)
        op = block.op_of_place
        members = []  # copy, old place, new op, rank
        for c in range(self.copies):
            kept = self.layout.replica(block.rank) + c * self.layout.data < self.data
            first = np.arange(len(op)) < n
            further = np.flatnonzero(kept & (~first | (self.joint[op] & (c > 0))))
            members.append(
                np.stack(
                    [
                        np.full(len(further), c),
                        further,
                        self.row[c, op[further]],
                        self._new_rank(block.rank[further], np.full(len(further), c)),
                    ],
                    axis=1,
                )
            )
        table = np.concatenate(members)
        table = table[np.lexsort((table[:, 3], table[:, 2]))]
        place = np.full((self.copies, len(op)), -1, np.int64)
        for c in range(self.copies):
            own = self.row[c] >= 0
            if c:
                own &= ~self.joint
            place[c, :n][own] = self.row[c][own]
        place[table[:, 0], table[:, 1]] = self.total + np.arange(len(table))
        stream = block.stream[table[:, 1]]
        return (
            Participants(table[:, 2].astype(np.int32), table[:, 3].astype(np.int32), stream),
            place,
        )

    def _successors(self, place: NDArray[np.int64]) -> Csr:
        """Dependencies of all copies, without duplicates."""
        block = self.block
        pairs = []
        for c in range(self.copies):
            source = self.row[c, block.successors.owner]
            target = place[c, block.successors.values]
            there = (source >= 0) & (target >= 0)
            pairs.append(np.stack([source[there], target[there]], axis=1))
        table = np.unique(np.concatenate(pairs), axis=0)
        return Csr.from_pairs(table[:, 0], table[:, 1], self.total)

    def _stream_kinds(self) -> Mapping[tuple[int, int], str]:
        """Kind of each stream of each new rank."""
        kinds = {}
        for c in range(self.copies):
            for (rank, stream), kind in self.source.streams.items():
                one = np.array([rank], np.int32)
                replica = int(self.layout.replica(one)[0]) + c * self.layout.data
                if replica < self.data:
                    kinds[int(self.layout.to_replica(one, replica, self.data)[0]), stream] = kind
        return kinds
