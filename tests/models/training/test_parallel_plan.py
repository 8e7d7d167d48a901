"""Rules of parallel plans: what breaks one is refused with the nearest that works."""

from dataclasses import replace

import pytest
from foretrace.models.training.description import Experts, Transformer
from foretrace.models.training.parallel_plan import ParallelPlan
from foretrace.sim.errors import ScenarioError

MODEL = Transformer(hidden=64, layers=12, heads=8, key_heads=4, vocabulary=100, inner=256)
MIXED = replace(MODEL, experts=Experts(8, 2, 64))
PLAN = ParallelPlan(batch=64, sequence=128)
BROKEN = [
    ({"tensor": 3}, "parallel.tensor: 3 ranks do not share 8 heads of attention evenly; take 2"),
    ({"tensor": 16}, "parallel.tensor: 16 ranks do not share 8 heads of attention evenly; take 8"),
    ({"tensor": 8, "sequence_parallel": True, "sequence": 124},
     "parallel.tensor: 8 ranks do not share a sequence of 124 tokens evenly; take 4"),
    ({"pipeline": 5}, "parallel.pipeline: 5 stages do not share 12 layers evenly; take 4"),
    ({"chunks": 2}, "schedule.chunks: a pipeline of 1 stages has no chunks to interleave; take 1"),
    ({"pipeline": 4, "chunks": 2},
     "schedule.chunks: 2 chunks on each of 4 stages do not share 12 layers evenly; take 1"),
    ({"pipeline": 2, "chunks": 2, "schedule": "gpipe"},
     "schedule.chunks: GPipe runs one chunk on each stage; take 1"),
    ({"expert": 2}, "parallel.expert: 2 ranks do not share 1 experts evenly; take 1"),
    (
        {"pipeline": 2, "zero": 3},
        "zero: ZeRO-3 shares gradients, which a pipeline adds up .* take 1",
    ),
    ({"data": 6}, "batch: 64 sequences are no multiple of 6 data-parallel ranks x 1 .* take 66"),
    ({"pipeline": 12, "batch": 8},
     "batch: 8 sequences are 8 micro-batches of a rank, fewer than 12 stages; take 12"),
    ({"pipeline": 3, "chunks": 2},
     "batch: 64 micro-batches of a rank are no multiple of 3 stages, .* take 63"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "told"), BROKEN)
def test_a_broken_rule_is_told_with_the_nearest_setting_that_keeps_it(changes, told):
    with pytest.raises(ScenarioError, match=told):
        replace(PLAN, **changes).check(MODEL)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"expert": 3, "data": 4}, "3 ranks do not share 8 experts evenly; take 2"),
        ({"expert": 8, "data": 4}, "8 ranks that share experts are not a part of 4 .* take 4"),
    ],
)
def test_experts_and_ranks_that_do_not_match_are_refused(changes, told):
    with pytest.raises(ScenarioError, match=told):
        replace(PLAN, **changes).check(MIXED)


def test_what_is_told_to_take_works():
    replace(PLAN, tensor=2, pipeline=4, chunks=3, data=2).check(MODEL)
    replace(PLAN, tensor=8, data=2, expert=2).check(MIXED)
