"""Graph of training steps: one program a pipeline stage, and who meets whom."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...sim.graph import Graph
from ...sim.spmd.spmd_graph import SpmdGraph
from .description import Transformer
from .parallel_plan import ParallelPlan
from .segments import OpTable
from .stage_program import StageProgram

Numbers = NDArray[np.int32]


def step_graph(model: Transformer, plan: ParallelPlan, steps: int = 1, name: str = "step") -> Graph:
    """Training steps of a model by a plan.

    Ranks are numbered as in Megatron-LM: tensor-parallel neighbours first, then data-parallel ones
    (of which neighbours share experts), then pipeline stages.

    Raises
    ------
    PlanError
        The plan breaks a rule.

    Examples
    --------
    >>> tiny = Transformer(hidden=8, layers=2, heads=2, vocabulary=10, inner=32)
    >>> step_graph(tiny, ParallelPlan(batch=4, sequence=16, tensor=2, pipeline=2)).ranks
    4
    """
    plan.check(model)
    table = OpTable()
    programs = tuple(
        StageProgram(model, plan, stage, table, steps).program() for stage in range(plan.pipeline)
    )
    stage = _places(plan)[0]
    template = SpmdGraph(programs, stage, groups=groups(plan), peers=peers(plan))
    return Graph(name, (template,), table.texts.labels)


def _places(plan: ParallelPlan) -> tuple[Numbers, Numbers, Numbers]:
    """(ranks,) stage, data-parallel and tensor-parallel number of each rank."""
    shape = plan.pipeline, plan.data, plan.tensor
    stage, data, tensor = (a.ravel().astype(np.int32) for a in np.indices(shape))
    return stage, data, tensor


def groups(plan: ParallelPlan) -> Numbers:
    """(families, ranks) number of the group of each rank, in the order of ``GROUPS``.

    >>> groups(ParallelPlan(batch=4, sequence=8, tensor=2, data=2)).tolist()[:2]
    [[0, 0, 1, 1], [0, 1, 0, 1]]
    """
    stage, data, tensor = _places(plan)
    d, t, e = plan.data, plan.tensor, plan.expert
    expert = (stage * (d // e) + data // e) * t + tensor
    copies = (stage * e + data % e) * t + tensor
    ends = (stage == 0) | (stage == plan.pipeline - 1)
    between = d * t + np.cumsum(~ends) - 1  # a group of their own for stages in the middle
    embedding = np.where(ends, data * t + tensor, between)
    return np.array([stage * d + data, stage * t + tensor, expert, copies, embedding], np.int32)


def peers(plan: ParallelPlan) -> Numbers:
    """(2, ranks) rank of the next stage and of the one before; round where chunks interleave."""
    stage, _, _ = _places(plan)
    rank, each, p = np.arange(plan.ranks), plan.data * plan.tensor, plan.pipeline
    forward, backward = rank + each, rank - each
    round_trip = plan.chunks > 1
    forward = np.where(stage < p - 1, forward, forward - p * each if round_trip else -1)
    backward = np.where(stage > 0, backward, backward + p * each if round_trip else -1)
    return np.array([forward, backward], np.int32)
