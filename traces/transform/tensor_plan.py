"""Plan of how tensor-parallel ranks split the steps of a trace.

The new operators are written into a copy of the trace (``sharded_trace``): the same events at the
same times, with the names and sizes that they would have on one rank. Signatures, flop and bytes
follow from the copy as from any trace.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...sim.errors import TraceError
from ...sim.facts.signature import Operand
from ...sim.units import Bytes
from ..event_columns import Event
from ..infer.events.operands import DTYPES, parse_operands
from ..infer.events.rank_trace import RankTrace
from ..infer.events.steps import find_steps
from ..trace import Trace
from .computing_operators import (
    Operator,
    is_computing_operator,
    recorded_arguments,
    step_operators,
    tensor_shapes,
)
from .linear_layers import linear_layers
from .linear_pairs import LinearPair, linear_pairs
from .tensor_shards import (
    ShardedOperator,
    ShardedStep,
    TensorAllReduce,
    shard_shapes,
    tensor_shards,
    with_list_types,
)


class PlannedAllReduce(NamedTuple):
    """Planned all-reduce among tensor-parallel ranks.

    Parameters
    ----------
    rows : rows of operators in the trace. In the forward pass, the all-reduce is inserted after all
        of them; in the backward pass, before the first of them that became an op of the graph
    forward : True in the forward pass, False in the backward pass
    operand : tensor that is reduced
    bias : bias that is added afterwards; None if there is none
    """

    rows: tuple[int, ...]
    forward: bool
    operand: Operand
    bias: Operand | None


class TensorPlan(NamedTuple):
    """Plan of how tensor-parallel ranks split the steps of a trace.

    Parameters
    ----------
    degree : number of tensor-parallel ranks that split the step
    source : recorded trace
    sharded_trace : trace with the operators of one tensor-parallel rank, and the recorded times
    changed : rows of events whose work changes
    reductions : all-reduces of all ranks and steps
    gradient_bytes : size in B on one rank of each split gradient, by the row of the event that
        marks its completion
    pairs : number of pairs of linear layers in a step
    whole : linear layers that are not split, as text
    """

    degree: int
    source: Trace
    sharded_trace: Trace
    changed: frozenset[int]
    reductions: list[PlannedAllReduce]
    gradient_bytes: dict[int, Bytes]
    pairs: int
    whole: str

    def size_ratios(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """New size over recorded size of each operator's first tensor, shape (n,)."""

        def size(trace: Trace, row: int) -> int:
            shapes, types = (trace.text(c)[row] for c in ("shapes", "dtypes"))
            return parse_operands(shapes, types)[0].bytes

        return np.array([size(self.sharded_trace, r) / size(self.source, r) for r in rows.tolist()])


def tensor_plan(trace: Trace, degree: int) -> TensorPlan:
    """Plan how ``degree`` tensor-parallel ranks split a trace.

    Raises
    ------
    TraceError
        No exact split is possible; with the place, the reason, and an alternative.
    """
    texts = _Texts(trace)
    reductions: list[PlannedAllReduce] = []
    gradient_bytes: dict[int, Bytes] = {}
    pairs: list[LinearPair] = []
    whole = ""
    for rank in trace.ranks:
        events = RankTrace(trace, rank)
        steps = find_steps(events)
        for number, operators in zip(steps.number, step_operators(events, steps), strict=True):
            place = f"{events.process.file or f'rank {rank}'}: step {number}"
            try:
                _refuse_unreadable(events)
                pairs = linear_pairs(operators)
                _refuse_uneven(pairs, degree)
                shares = tensor_shards(operators, pairs, degree)
            except ValueError as error:
                raise TraceError(
                    f"{place}: cannot be split over {degree} tensor-parallel ranks: {error}; "
                    "describe the model instead (workload.type: training)"
                ) from error
            texts.write(events, operators, shares)
            whole = _whole_layers(operators, pairs)
            rows = events.rows
            for at, shape in shares.gradients.items():
                dtype = DTYPES[operators[at].types[0].lower()]
                size = Operand(dtype, shape).bytes
                gradient_bytes[int(rows[operators[at].row])] = float(size)
            reductions += [_planned_all_reduces(events, operators, r) for r in shares.reduced]
    told, changed = texts.trace()
    return TensorPlan(degree, trace, told, changed, reductions, gradient_bytes, len(pairs), whole)


COMPILED = re.compile(r"Torch-Compiled|CompiledFunction|triton_|## Call CompiledFxGraph")


def _refuse_unreadable(events: RankTrace) -> None:
    """Refuse recordings whose kernels do not belong to the operators around them."""
    if (events.table["graph_node"] >= 0).any():
        raise ValueError("its kernels were launched as a CUDA graph, which has no operators")
    compiled = np.flatnonzero(events.name_matches(COMPILED))
    if len(compiled):
        raise ValueError(
            f"{events.text(int(compiled[0]))} is compiled, and one kernel does the work of several "
            "operators (record without torch.compile)"
        )
    if not ((events.kind == Event.OP) & (events.table["shapes"] >= 0)).any():
        raise ValueError("no shapes were recorded (record_shapes=True)")


def _refuse_uneven(pairs: Sequence[LinearPair], degree: int) -> None:
    """Refuse a degree that does not divide the heads or columns."""
    for pair in pairs:
        if pair.max_degree % degree == 0:
            continue
        what = f"{pair.row.inputs} columns"
        if pair.heads is not None:
            query, key = pair.heads.query, pair.heads.key
            what = f"{query} heads" + (f" and {key} of keys and values" if key != query else "")
        common = int(np.gcd.reduce([p.max_degree for p in pairs]))
        works = [d for d in range(1, common + 1) if common % d == 0]
        nearest = min(works, key=lambda d: (abs(d - degree), d))
        raise ValueError(
            f"{what} of the pair {pair} are not divisible by {degree} (nearest that works: tensor "
            f"{nearest})"
        )


NEAR = 8
"""Operators in a row, any of which stands for the first: short ones may be no op of their own."""


def _whole_layers(operators: Sequence[Operator], pairs: Sequence[LinearPair]) -> str:
    shared = {layer.forward for p in pairs for layer in (*p.columns, p.row)}
    return ", ".join(str(la) for la in linear_layers(operators) if la.forward not in shared)


def _planned_all_reduces(
    events: RankTrace, operators: Sequence[Operator], reduced: TensorAllReduce
) -> PlannedAllReduce:
    dtype = DTYPES[reduced.type.lower()]
    near = operators[reduced.position : reduced.position + (1 if reduced.forward else NEAR)]
    rows = tuple(int(events.rows[r]) for o in near for r in (o.row, *o.inner))
    bias = Operand(dtype, reduced.bias) if reduced.bias else None
    return PlannedAllReduce(rows, reduced.forward, Operand(dtype, reduced.shape), bias)


class _Texts:
    """Names, shapes and types of the events of a trace, of which some are rewritten."""

    def __init__(self, trace: Trace):
        self.source = trace
        self.strings = list(trace.strings)
        self.number = {text: i for i, text in enumerate(trace.strings)}
        self.columns = {c: trace.events[c].copy() for c in ("name", "shapes", "dtypes")}
        self.changed: set[int] = set()

    def write(self, events: RankTrace, operators: Sequence[Operator], shares: ShardedStep) -> None:
        """Give the operators of one step, and those nested inside them, the shapes of one rank."""
        for at, new in shares.operators.items():
            operator = operators[at]
            self._put(int(events.rows[operator.row]), new.shapes, new.types, new.name)
            for row in operator.inner:  # an operator that only calls others stays as recorded
                if is_computing_operator(events.text(row)):
                    self._put_inner(events, row, new)

    def _put_inner(self, events: RankTrace, row: int, new: ShardedOperator) -> None:
        shapes, types = recorded_arguments(events, row)
        if shapes and all(prod(s) <= 1 for _, s in tensor_shapes(shapes)):
            return  # scalars, as for any rank
        self._put(
            int(events.rows[row]),
            shard_shapes(shapes, new.share),
            with_list_types(types, new.element),
        )

    def _put(self, row: int, shapes: Any, types: Any, name: str = "") -> None:
        self.changed.add(row)
        self.columns["shapes"][row] = self._text(json.dumps(shapes)) if shapes else -1
        self.columns["dtypes"][row] = self._text(json.dumps(types)) if types else -1
        if name:
            self.columns["name"][row] = self._text(name)

    def _text(self, text: str) -> int:
        if text not in self.number:
            self.number[text] = len(self.strings)
            self.strings.append(text)
        return self.number[text]

    def trace(self) -> tuple[Trace, frozenset[int]]:
        """Trace with the rewritten texts, and the rows that were rewritten."""
        events = self.source.events.replace(**self.columns)
        told = replace(self.source, events=events, strings=tuple(self.strings))
        return told, frozenset(self.changed)
