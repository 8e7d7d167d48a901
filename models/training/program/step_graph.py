"""Graph of training steps: one program per pipeline stage, with groups and peers of ranks."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ....sim.facts.graph import Graph
from ....sim.facts.spmd.spmd_graph import SpmdGraph
from ..description.description import Model
from ..plan.parallel_plan import ParallelPlan
from .segments import OpTable
from .stage_program import StageProgram

COMPUTED = "computed_in_turns"  # fact of each stage: see StageProgram.compute_ops_per_turn
Numbers = NDArray[np.int32]


@lru_cache(maxsize=4)  # cached for checks and variants; about ten MB each
def step_graph(model: Model, plan: ParallelPlan, steps: int = 1, name: str = "step") -> Graph:
    """Build the graph of training steps of a model with a parallel plan.

    Ranks are numbered as in Megatron-LM: tensor-parallel neighbours first, then data-parallel ones
    (neighbours among them share experts), then pipeline stages.

    Raises
    ------
    PlanError
        The plan breaks a rule.

    Examples
    --------
    >>> from ..description.description import Transformer
    >>> tiny = Transformer(hidden=8, layers=2, heads=2, vocabulary=10, inner=32)
    >>> step_graph(tiny, ParallelPlan(batch=4, sequence=16, tensor=2, pipeline=2)).ranks
    4
    """
    plan.check(model)
    table, places = OpTable(), plan.places
    written = tuple(
        StageProgram(model, plan, stage, table, steps, place)
        for stage in range(plan.pipeline)
        for place in range(places)
    )
    programs = tuple(one.program() for one in written)
    stage, _, context, _ = _rank_coordinates(plan)
    program = stage * places + context % places
    template = SpmdGraph(programs, program, groups=rank_groups(plan), peers=rank_peers(plan))
    computed = tuple(one.compute_ops_per_turn for one in written[::places])
    return Graph(name, (template,), table.texts.labels, facts={COMPUTED: computed})


def _rank_coordinates(plan: ParallelPlan) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """Stage, data-, context- and tensor-parallel index of each rank, each of shape (ranks,)."""
    shape = plan.pipeline, plan.data, plan.context, plan.tensor
    stage, data, context, tensor = (a.ravel().astype(np.int32) for a in np.indices(shape))
    return stage, data, context, tensor


def rank_groups(plan: ParallelPlan) -> Numbers:
    """Group of each rank in each group family, shape (families, ranks), ordered as ``GROUPS``.

    >>> rank_groups(ParallelPlan(batch=4, sequence=8, tensor=2, data=2)).tolist()[:2]
    [[0, 0, 1, 1], [0, 1, 0, 1]]
    """
    stage, data, context, tensor = _rank_coordinates(plan)
    d, t, e, last = plan.copies, plan.tensor, plan.expert, plan.pipeline - 1
    copy = data * plan.context + context
    held = np.minimum(stage, last - stage) if plan.schedule == "dualpipe" else stage
    expert = (stage * (d // e) + copy // e) * t + tensor
    copies = (held * e + copy % e) * t + tensor
    ends = (stage == 0) | (stage == last)
    between = d * t + np.cumsum(~ends) - 1  # middle stages form a group of their own
    embedding = np.where(ends, copy * t + tensor, between)
    sequence = (stage * plan.data + data) * t + tensor
    return np.array(
        [stage * d + copy, held * t + tensor, expert, copies, embedding, sequence], np.int32
    )


def rank_peers(plan: ParallelPlan) -> Numbers:
    """Rank to which each rank sends in each peer family, shape (families, ranks).

    Families are in the order of ``stage_program.PEERS``: forward to the next stage and backward to
    the previous one, wrapping around if chunks interleave; the reverse for second chunks of folded
    pipelines; and around the ring of context-parallel ranks.
    """
    stage, _, context, _ = _rank_coordinates(plan)
    rank, each, p = np.arange(plan.ranks), plan.copies * plan.tensor, plan.pipeline
    forward, backward = rank + each, rank - each
    round_trip = plan.chunks > 1
    forward = np.where(stage < p - 1, forward, forward - p * each if round_trip else -1)
    backward = np.where(stage > 0, backward, backward + p * each if round_trip else -1)
    nobody = np.full(plan.ranks, -1)
    other = (backward, forward) if plan.is_folded else (nobody, nobody)
    last = context == plan.context - 1
    ring = rank + np.where(last, (1 - plan.context) * plan.tensor, plan.tensor)
    return np.array([forward, backward, *other, ring if plan.context > 1 else nobody], np.int32)
