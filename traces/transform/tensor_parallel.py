"""Add tensor parallelism to a recorded step: resized ops, and all-reduces among ranks.

An op whose work changes loses its recorded time, so that a model must predict it. Everything else
is kept as recorded: operators that only call others, host threads, dependencies.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...sim.errors import TraceError
from ...sim.facts.csr import Csr
from ...sim.facts.flat_graph import FlatGraph
from ...sim.facts.graph import Graph, Label
from ...sim.facts.ops import Kind, Ops
from ...sim.facts.signature import Operand, Signature, parse_signature
from ..column_table import Ints
from ..infer.dependencies import GraphWithOperators
from ..infer.untimed import assume_bytes_only, operator_names
from .scale import replicate_ranks
from .tensor_plan import PlannedAllReduce, TensorPlan

REDUCES = "all-reduce of tensor-parallel ranks"


def reshape_ops(graph: Graph, plan: TensorPlan, described: GraphWithOperators) -> Graph:
    """Resize the ops of a recorded graph to those of one tensor-parallel rank.

    Parameters
    ----------
    graph : recorded graph with times; ops that were added to it come after the recorded ones
    described : graph whose ops are described by ``plan.sharded_trace``, with the operator of each
        op

    Raises
    ------
    TraceError
        The work of an op would change, but its operands were not recorded.
    """
    n = len(described.operator)
    was, new = graph.ops.take(np.arange(n)), described.graph.ops
    changed = np.isin(described.operator, np.fromiter(plan.changed, np.int64))
    changed &= np.isin(was.kind, (Kind.COMPUTE, Kind.COPY))
    copies = changed & (was.kind == Kind.COPY)
    assumed = changed & ~copies & np.isnan(new.flop + new.bytes)
    _refuse_unknown(graph, described, assumed)
    known = assume_bytes_only(new, assumed)
    moved = np.where(changed, known.bytes, was.bytes)
    moved[copies] = was.bytes[copies] * plan.size_ratios(described.operator[copies])
    texts = {text: i for i, text in enumerate(dict.fromkeys((*was.signatures, *new.signatures)))}
    old, other = (np.array([*map(texts.__getitem__, o.signatures), -1]) for o in (was, new))
    ops = was.replace(
        signature=np.where(changed, other[new.signature], old[was.signature]),
        flop=np.where(changed, known.flop, was.flop),
        bytes=moved,
        duration=np.where(changed, np.nan, was.duration),
    )
    ops = replace(ops, signatures=tuple(texts))
    facts: dict[str, Any] = dict(graph.facts)
    before = facts.get("assumed_to_move_bytes", ())
    facts |= {
        "tensor_parallel": plan.degree,
        "linear_pairs": plan.pairs,
        "whole_layers": plan.whole,
        "reshaped_ops": int(changed.sum()),
        "assumed_to_move_bytes": sorted({*before, *operator_names(known, assumed)}),
    }
    added = graph.ops.take(np.arange(n, len(graph)))
    return replace(graph.with_ops(Ops.concat([ops, added])), facts=facts)


def _refuse_unknown(
    graph: Graph, described: GraphWithOperators, assumed: NDArray[np.bool_]
) -> None:
    """Refuse ops of unknown work: kernels without operator, ops without recorded operands."""
    ops = described.graph.ops
    apart = (ops.kind == Kind.COMPUTE) & (ops.period >= 0) & (ops.signature >= 0)
    apart &= described.operator < 0
    bare = [not parse_signature(text).operands for text in ops.signatures]
    bare_op = assumed & np.array([*bare, False])[ops.signature]
    for rows, why in (
        (apart, "belongs to no operator, so its operands are unknown"),
        (bare_op, "has no recorded operands, so its new size is unknown"),
    ):
        if rows.any():
            row = int(np.flatnonzero(rows)[0])
            raise TraceError(
                f"{graph.name}: op {row} ({graph.label(row).name}) {why}; record it with CPU "
                "activities and record_shapes=True"
            )


def with_all_reduces(graph: Graph, plan: TensorPlan, operator: Ints, *, threads: bool) -> Graph:
    """Copy of one rank's graph with tensor-parallel all-reduces, and biases after them.

    Parameters
    ----------
    operator : row of each recorded op's operator in the trace, shape (n,); -1 if there is none
    threads : True if the all-reduces run on threads and do not occupy the device
    """
    return _Reductions(graph, plan, operator, "network" if threads else "compute").graph()


class _Reductions:
    """Builder that adds all-reduces after row-split GEMMs and before users of input gradients."""

    def __init__(self, graph: Graph, plan: TensorPlan, operator: Ints, kind: str):
        self.source, self.plan, self.kind = graph, plan, kind
        self.block, self.base = graph.explicit, len(graph)
        self.network = 1 + int(self.block.stream.max(initial=0))
        self.rows: list[dict[str, float]] = []
        self.texts: list[str] = []
        self.edges: list[tuple[int, int]] = []
        ops = graph.ops
        work = np.isin(ops.kind[: len(operator)], (Kind.COMPUTE, Kind.COPY))
        work &= (operator >= 0) & (ops.period[: len(operator)] >= 0)
        self.ops_of: dict[int, list[int]] = {}
        for row in np.flatnonzero(work).tolist():
            self.ops_of.setdefault(int(operator[row]), []).append(row)
        owner, values = self.block.successors.owner, self.block.successors.values
        self.before = Csr.from_pairs(self.block.op_of_place[values], owner, self.base)

    def graph(self) -> Graph:
        for reduction in self.plan.reductions:
            for row in self._anchors(reduction):
                self._add(reduction, row)
        labels = (*self.source.labels, Label(REDUCES), Label("bias behind it"))
        columns = {k: [r[k] for r in self.rows] for k in self.rows[0]}
        added = Ops.of(**columns, signatures=tuple(self.texts))
        added = added.replace(label=len(labels) - 2 + (added.kind != Kind.COLLECTIVE))
        merged = Ops.concat([self.source.ops, added])
        values = self.block.successors.values.astype(np.int64)
        moved = np.where(values < self.base, values, values + len(self.rows))
        old = np.stack([self.block.successors.owner, moved], axis=1)
        pairs = np.unique(np.concatenate([old, np.array(self.edges, np.int64)]), axis=0)
        streams = {(r, self.network): self.kind for r in range(self.source.ranks)}
        block = FlatGraph(
            merged,
            Csr.from_pairs(pairs[:, 0], pairs[:, 1], len(merged)),
            self.block.places,
            np.concatenate([self.block.release, np.zeros(len(self.rows))]),
            np.concatenate([self.block.peer, np.full(len(self.rows), -1, np.int32)]),
        )
        streams = {**self.source.streams, **streams}
        return replace(self.source, blocks=(block,), labels=labels, streams=streams)

    def _anchors(self, reduction: PlannedAllReduce) -> Iterator[int]:
        """Yield, for each rank, the op after or before which an all-reduce is inserted."""
        found = [self.ops_of[r] for r in reduction.rows if r in self.ops_of]
        rows = (
            [r for some in found for r in some] if reduction.forward else found[0] if found else []
        )
        if not rows:
            raise TraceError(
                f"{self.source.name}: an operator before an all-reduce did not become an op, so "
                "the place of the all-reduce is unknown; record larger sizes, or record the step "
                "without running it (trace capture --meta)"
            )
        rank = self.source.ops.rank
        for r in sorted({int(rank[row]) for row in rows}):
            mine = [row for row in rows if rank[row] == r]
            yield max(mine) if reduction.forward else min(mine)

    def _add(self, reduction: PlannedAllReduce, row: int) -> None:
        """Insert an all-reduce, and the bias if any, after or before an op."""
        new = [self._reduce(reduction.operand, row)]
        if reduction.bias is not None:
            new.append(self._bias(reduction.operand, reduction.bias, row))
        self.edges += list(pairwise(new))
        if reduction.forward:
            after = self.block.successors[row].tolist()
            self.edges.append((row, new[0]))
            self.edges += [(new[-1], v) for v in after if v < self.base]
        else:
            self.edges += [(int(v), new[0]) for v in self.before[row]]
            self.edges.append((new[-1], row))

    def _append(self, row: int, kind: Kind, stream: int, text: Signature, moved: float) -> int:
        ops = self.source.ops
        self.texts.append(str(text))
        self.rows.append(
            {"kind": kind, "rank": int(ops.rank[row]), "stream": stream,
             "period": int(ops.period[row]), "flop": 0.0 if kind == Kind.COMPUTE else np.nan,
             "bytes": moved, "duration": np.nan, "signature": len(self.texts) - 1}
        )  # fmt: skip
        return self.base + len(self.rows) - 1

    def _reduce(self, operand: Operand, row: int) -> int:
        flat = Operand(operand.dtype, (prod(operand.shape),))
        text = Signature("collective", "all-reduce", (flat,))
        return self._append(row, Kind.COLLECTIVE, self.network, text, operand.bytes)

    def _bias(self, operand: Operand, bias: Operand, row: int) -> int:
        text = Signature("compute", "aten::add", (operand, bias))
        stream = int(self.source.ops.stream[row])
        return self._append(row, Kind.COMPUTE, stream, text, 2 * operand.bytes + bias.bytes)


def is_tensor_all_reduce(graph: Graph) -> NDArray[np.bool_]:
    """True where an op is an all-reduce among tensor-parallel ranks, shape (n,)."""
    number = [i for i, label in enumerate(graph.labels) if label.name == REDUCES]
    return np.isin(graph.ops.label, number)


def expand_tensor_ranks(graph: Graph, degree: int) -> Graph:
    """Replace each rank by ``degree`` identical ranks that share its tensor all-reduces."""
    return replicate_ranks(graph, degree, is_tensor_all_reduce(graph))
