"""Add data parallelism to the recorded training step of one process, as PyTorch's DDP does.

Gradients go into buckets in the order in which the backward pass completes them. When the last
gradient of a bucket is complete, the bucket is all-reduced concurrently with the rest of the
backward pass. The optimizer waits for all buckets. Every gradient is copied into its bucket and
back. (Li et al. 2020, "PyTorch Distributed", arXiv:2006.15704, sections 3.2 and 4.2.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ...sim.errors import TraceError
from ...sim.facts.csr import Csr
from ...sim.facts.flat_graph import FlatGraph, Participants
from ...sim.facts.graph import Graph, Label
from ...sim.facts.ops import Kind, Ops
from ...sim.units import ByteRate, Bytes
from ..infer.ranks.gradients import Gradients, gradients
from ..trace import Trace

NOMINAL = 1e-6  # s; an op of a step that was not run (``traces/capture/meta_hook.py``)
FIRST_BUCKET = 2.0**20
"""torch.distributed: ``_DEFAULT_FIRST_BUCKET_BYTES``, 1 MiB; only where no cap is given."""
BUCKET = 25 * 2.0**20
"""DistributedDataParallel: ``bucket_cap_mb`` where it is not given, 25 MiB."""


def bucket_ends(size: NDArray[np.float64], cap: Bytes | None = None) -> list[int]:
    """Divide gradients into buckets; returns the end index (exclusive) of each.

    A bucket ends when it reaches its size limit.

    Parameters
    ----------
    size : size of each gradient in B, shape (n,)
    cap : size limit of every bucket in B; None for DDP's default, whose first bucket is smaller

    Examples
    --------
    >>> bucket_ends(np.array([6e5, 6e5, 20e6, 10e6, 1e6]))
    [2, 4, 5]
    >>> bucket_ends(np.array([6e5, 6e5, 6e5]), 1e6)
    [2, 3]
    """
    ends, held, limit = [], 0.0, FIRST_BUCKET if cap is None else cap
    for i, b in enumerate(size.tolist()):
        held += b
        if held >= limit:
            ends.append(i + 1)
            held, limit = 0.0, BUCKET if cap is None else cap
    if held:
        ends.append(len(size))
    return ends


def data_parallel(
    trace: Trace,
    graph: Graph,
    *,
    copy_rate: ByteRate,
    in_flight: int = 1,
    bucket: Bytes | None = None,
    threads: bool = False,
    stretch: float = 1.0,
    sizes: Mapping[int, Bytes] | None = None,
) -> Graph:
    """Add the ops of DDP to the step of one process; ``scale`` then turns it into several ranks.

    Parameters
    ----------
    graph : graph inferred from ``trace``, with one rank
    copy_rate : ByteRate
        Rate in B/s at which the device copies gradients into buckets and back; each byte is read
        and written.
    in_flight : int
        Number of all-reduces that the library runs concurrently: 1 on NCCL's stream, 2 on gloo's
        threads.
    bucket : Bytes or None
        Bucket size limit given to DDP; None for its default.
    threads : bool
        True if all-reduces run on threads and do not occupy the device.
    stretch : float
        Factor by which recorded times were multiplied in the graph.
    sizes : mapping
        Size in B of each gradient whose size differs from the recorded one, by row of its mark.

    Raises
    ------
    TraceError
        The trace has more than one rank, or gradients were not recorded.
    """
    if graph.ranks != 1:
        raise TraceError(
            f"{graph.name}: has {graph.ranks} ranks; DDP can be added only to a trace of one rank: "
            "give one rank"
        )
    finished = gradients(trace, stretch, sizes)
    return _DdpInsertion(graph, finished, copy_rate, in_flight, bucket, threads).graph()


class _DdpInsertion:
    """Builder that inserts the ops of DDP into each step."""

    def __init__(
        self,
        graph: Graph,
        gradients: Gradients,
        copy_rate: ByteRate,
        in_flight: int,
        bucket: Bytes | None,
        threads: bool,
    ):
        self.source, self.gradients = graph, gradients
        self.in_flight, self.bucket = in_flight, bucket
        self.block, self.copy_rate = graph.explicit, copy_rate
        self.kind = "network" if threads else "compute"
        self.base = len(self.block)
        self.rows: list[dict[str, float]] = []
        self.edges: list[tuple[int, int]] = []
        self.network = 1 + int(self.block.stream.max(initial=0))
        self.end = _end_times(self.block)
        self.host = self._main_stream_ops()
        self.after = dict(zip(self.host.tolist(), self.host[1:].tolist(), strict=False))
        self.tail: dict[int, int] = {}  # last op inserted after each op

    def _main_stream_ops(self) -> NDArray[np.int64]:
        """Rows of the ops on the stream that has the most ops, sorted by end time."""
        stream = self.block.ops.stream
        main = int(np.bincount(stream).argmax())
        rows = np.flatnonzero(stream == main)
        return rows[np.argsort(self.end[rows], kind="stable")]

    def graph(self) -> Graph:
        for step in np.unique(self.gradients.step).tolist():
            self._insert_buckets(step)
        ops = self.block.ops
        label = len(self.source.labels)
        columns = {k: [r[k] for r in self.rows] for k in self.rows[0]}
        texts = (*ops.signatures, "collective:all-reduce")
        added = Ops.of(**columns, rank=0, signatures=texts)
        added = added.replace(label=np.where(added.kind == Kind.COLLECTIVE, label, label + 1))
        merged = Ops.concat([replace(ops, signatures=texts), added])
        total = len(merged)
        old = np.stack([self.block.successors.owner, self._renumbered_successors()], axis=1)
        pairs = np.unique(np.concatenate([old, np.array(self.edges, np.int64)]), axis=0)
        places = self.block.places
        return replace(
            self.source,
            blocks=(
                FlatGraph(
                    merged,
                    Csr.from_pairs(pairs[:, 0], pairs[:, 1], total),
                    Participants(places.op, places.rank, places.stream),
                    np.concatenate([self.block.release, np.zeros(len(self.rows))]),
                    np.full(total, -1, np.int32),
                ),
            ),
            labels=(*self.source.labels, Label("all-reduce of a bucket"), Label("copy to bucket")),
            streams={
                **self.source.streams,
                **{(0, self.network + k): self.kind for k in range(self.in_flight)},
            },
            facts={**self.source.facts, "made_data_parallel": True},
        )

    def _renumbered_successors(self) -> NDArray[np.int64]:
        """Successors of the recorded ops, renumbered to make room for the inserted rows."""
        values = self.block.successors.values.astype(np.int64)
        return np.where(values < self.base, values, values + len(self.rows))

    def _append_op(self, kind: Kind, stream: int, step: int, size: float, took: float) -> int:
        """Append an op that moves ``size`` B and takes ``took`` s (NaN: a model predicts it).

        Returns its row.
        """
        signature = len(self.block.ops.signatures) if kind == Kind.COLLECTIVE else -1
        self.rows.append(
            {"kind": kind, "stream": stream, "period": step, "bytes": size, "duration": took,
             "signature": signature}
        )  # fmt: skip
        return self.base + len(self.rows) - 1

    def _insert_buckets(self, step: int) -> None:
        """Insert the buckets of one step, and the optimizer's wait for them."""
        own = np.flatnonzero(self.gradients.step == step)
        first = 0
        reduced: list[int] = []
        main = int(self.block.ops.stream[self.host[0]])
        for k, last in enumerate(bucket_ends(self.gradients.bytes[own], self.bucket)):
            rows = own[first:last]
            size = float(self.gradients.bytes[rows].sum())
            at = self._op_running_at(float(self.gradients.time[rows[-1]]))
            copied = self._append_op(Kind.COMPUTE, main, step, 2 * size, 2 * size / self.copy_rate)
            self._insert_after(at, copied)
            op = self._append_op(
                Kind.COLLECTIVE, self.network + k % self.in_flight, step, size, np.nan
            )
            self.edges.append((copied, op))
            if k >= self.in_flight:
                self.edges.append((reduced[k - self.in_flight], op))
            reduced.append(op)
            first = last
        size = float(self.gradients.bytes[own].sum())
        back = self._append_op(Kind.COMPUTE, main, step, 2 * size, 2 * size / self.copy_rate)
        self.edges += [(op, back) for op in reduced]
        self._insert_after(self._op_running_at(float(self.gradients.time[own[-1]])), back)

    def _insert_after(self, op: int, new: int) -> None:
        """Insert an op after an op of the main stream, and after those already inserted there."""
        before = self.tail.get(op, op)
        self.edges.append((before, new))
        if op in self.after:
            self.edges.append((new, self.after[op]))
        self.tail[op] = new

    def _op_running_at(self, time: float) -> int:
        """Op of the main stream that was running at the given time."""
        ends = self.end[self.host]
        # Recorded times are whole nanoseconds; half of one tells an end from what follows.
        at = int(np.searchsorted(ends, time - 5e-10))
        return int(self.host[min(at, len(ends) - 1)])


def _end_times(block: FlatGraph) -> NDArray[np.float64]:
    """End time of each op in s, shape (n,), from durations, release times and dependencies."""
    from rustworkx import PyDiGraph, topological_sort

    n = len(block)
    dag = PyDiGraph()
    dag.add_nodes_from(range(n))
    target = block.op_of_place[block.successors.values]
    dag.extend_from_edge_list(
        list(zip(block.successors.owner.tolist(), target.tolist(), strict=True))
    )
    end = (block.release).tolist()  # ready times, then ends
    unknown = np.isnan(block.ops.duration)
    untimed = unknown & (block.ops.kind == Kind.COMPUTE)
    took = np.where(untimed, NOMINAL, np.where(unknown, 0.0, block.ops.duration)).tolist()
    for i in topological_sort(dag):
        end[i] += took[i]
        for v in dag.successor_indices(i):
            end[v] = max(end[v], end[i])
    return np.array(end)
