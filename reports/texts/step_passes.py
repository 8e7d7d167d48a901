"""Pipeline passes of a training step as they ran: micro-batches through the chunks of stages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ...sim.facts.ops import Kind
from ...sim.run.result import Result
from ...sim.units import Seconds, seconds

FACT = "pipeline"  # of a graph: ``stages``, ``ranks``, ``turns`` and what is ``computed`` in each
FORWARD, WEIGHTS = "forward", "backward of weights"
BOTH_ENDS = "dualpipe"  # the schedule whose second chunk is of the micro-batches from the other end


class Pass(NamedTuple):
    """The pass of a micro-batch through one chunk of one stage, with its start and end in s.

    Parameters
    ----------
    what : ``forward``, ``backward``, or one half of a backward pass: gradients of inputs, or of
        weights
    is_concurrent : True if another pass of the same stage runs at the same time
    """

    stage: int
    what: str
    micro_batch: int
    chunk: int
    start: Seconds
    end: Seconds
    is_concurrent: bool = False

    @property
    def forward(self) -> bool:
        """True for a forward pass."""
        return self.what == FORWARD


class Pipeline(NamedTuple):
    """A pipeline as it ran: the name of its schedule, and its passes."""

    schedule: str
    passes: list[Pass]

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Number of stages, of chunks per stage, and of micro-batches."""
        stages, chunks, batches = (
            1 + max(getattr(one, part) for one in self.passes)
            for part in ("stage", "chunk", "micro_batch")
        )
        return stages, chunks, batches * (2 if self.schedule == BOTH_ENDS else 1)


def pipeline_passes(result: Result) -> Pipeline | None:
    """Passes of the last iteration of a training step, also if there is only one stage.

    None if the result is not from a training workload that is described by a model.
    """
    detail = result.detail
    if len(detail.runs) != 1:
        return None
    facts: Mapping[str, Any] = detail.runs[0].graph.facts.get(FACT, {})  # type: ignore[assignment]
    if not facts:
        return None
    passes = [
        one
        for stage, turns in enumerate(facts["turns"])
        for one in _rank_passes(
            detail, stage, stage * facts["ranks"], turns, facts["computed"][stage]
        )
    ]
    return Pipeline(facts["schedule"], passes)


def _rank_passes(
    result: Result, stage: int, rank: int, turns: Sequence[Any], computed: Sequence[int]
) -> Iterator[Pass]:
    """Passes of one rank, found by matching its compute ops in order with its scheduled turns."""
    (run,) = result.runs
    ops = np.flatnonzero(result.rank(run)[: len(run.graph)] == rank)
    ops = ops[result.ops.period[ops] == result.ops.period[ops].max()]
    ops = ops[result.ops.kind[ops] == Kind.COMPUTE]
    ways = np.array([_direction(text.module) for text in run.graph.labels] + [0])
    way = ways[run.graph.explicit.ops.label[ops]]
    at, bounds = 0, np.cumsum([0, *computed])
    for first, last in pairwise(bounds):
        pair = turns[at : at + 1 + (at + 1 < len(turns) and turns[at + 1].beside)]
        for turn in pair:  # of two side by side one goes forward and the other backward
            own = ops[first:last][way[first:last] == (1 if turn.forward else -1)]
            if len(own):
                ticks = [result.columns.start[own].min(), result.columns.end[own].max()]
                start, end = seconds(np.array(ticks), result.tick).tolist()
                what = turn.what.value
                yield Pass(stage, what, turn.micro_batch, turn.chunk, start, end, len(pair) > 1)
        at += len(pair)


def _direction(module: str) -> int:
    """1 for a module that runs in a forward pass, -1 in a backward pass, else 0.

    >>> _direction("forward dense layer"), _direction("backward head"), _direction("optimizer")
    (1, -1, 0)
    """
    first = module.partition(" ")[0]
    return (first == "forward") - (first == "backward")
