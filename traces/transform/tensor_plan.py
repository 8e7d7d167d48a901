"""Where and how the steps of a trace are shared among tensor-parallel ranks.

What each operator becomes is written into a copy of the trace (``told``): the same events at the
same times, with the names and sizes that they would have, from which signatures, flop and bytes
follow as of any trace.
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
    """An all-reduce among tensor-parallel ranks.

    Parameters
    ----------
    rows : of the operators behind which it lies, or before the first of which that became an op
    forward : whether it lies behind
    operand : what is reduced
    bias : that is added to it then; None for none
    """

    rows: tuple[int, ...]
    forward: bool
    operand: Operand
    bias: Operand | None


class TensorPlan(NamedTuple):
    """How the steps of a trace are shared.

    Parameters
    ----------
    degree : number of ranks
    source : the trace as recorded
    sharded_trace : the trace as one of them would have recorded it, but for its times
    changed : rows of events that are other work than recorded
    reductions : of all ranks and steps
    gradient_bytes : size of each gradient that is split, by the row of its mark
    pairs : of linear layers in a step
    whole : linear layers that every rank has whole, as text
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
        """(n,) Size of an operator's first tensor over its recorded size."""

        def size(trace: Trace, row: int) -> int:
            shapes, types = (trace.text(c)[row] for c in ("shapes", "dtypes"))
            return parse_operands(shapes, types)[0].bytes

        return np.array([size(self.sharded_trace, r) / size(self.source, r) for r in rows.tolist()])


def tensor_plan(trace: Trace, degree: int) -> TensorPlan:
    """Find out how a trace is shared among ``degree`` tensor-parallel ranks.

    Raises
    ------
    TraceError
        It cannot be, exactly; says where, why, and what can be done instead.
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
    """Refuse recordings whose kernels are not those of the operators around them."""
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
    """Refuse a degree by which heads or columns cannot be divided."""
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
    """Names, sizes and types of the events of a trace, some of them rewritten."""

    def __init__(self, trace: Trace):
        self.source = trace
        self.strings = list(trace.strings)
        self.number = {text: i for i, text in enumerate(trace.strings)}
        self.columns = {c: trace.events[c].copy() for c in ("name", "shapes", "dtypes")}
        self.changed: set[int] = set()

    def write(self, events: RankTrace, operators: Sequence[Operator], shares: ShardedStep) -> None:
        """Rewrite the operators of one step, and those inside them."""
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
        """The trace as it is told now, and the rows that were rewritten."""
        events = self.source.events.replace(**self.columns)
        told = replace(self.source, events=events, strings=tuple(self.strings))
        return told, frozenset(self.changed)
