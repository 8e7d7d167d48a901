"""Rules of parallel plans: what breaks one is refused with the nearest that works."""

from dataclasses import replace

import pytest
from foretrace.models.training.description.description import (
    AttentionOptions,
    Experts,
    TokenOptions,
    Transformer,
)
from foretrace.models.training.plan.parallel_plan import SETTINGS, ParallelPlan
from foretrace.sim.errors import ScenarioError

GROUPED = AttentionOptions(key_heads=4)
MODEL = Transformer(hidden=64, layers=12, heads=8, vocabulary=100, inner=256, attention=GROUPED)
MIXED = replace(MODEL, experts=Experts(8, 2, 64))
PLAN = ParallelPlan(batch=64, sequence=128)
BROKEN = [
    ({"tensor": 3}, "parallel.tensor: 3 ranks do not share 8 heads of attention evenly; take 2"),
    ({"tensor": 16}, "parallel.tensor: 16 ranks do not share 8 heads of attention evenly; take 8"),
    ({"tensor": 8, "sequence_parallel": True, "sequence": 124},
     "parallel.tensor: 8 ranks do not share a sequence of 124 tokens evenly; take 4"),
    ({"context": 3}, "parallel.context: 3 ranks do not share 128 tokens evenly, a part of its "
     "beginning and one of its end each; take 2"),
    ({"context": 3, "balanced": False, "document": 64},
     "parallel.context: 3 ranks do not share 64 tokens evenly; take 2"),
    ({"document": 48}, "document: a sequence of 128 tokens is not divisible into documents of 48 "
     "tokens; take 32"),
    ({"context": 4, "context_by": "ulysses", "tensor": 2},
     "parallel.context: 4 ranks do not share 4 heads and 2 of keys evenly, as Ulysses .* take 2"),
    ({"context": 2, "fused_attention": False}, "parallel.context_by: attention that writes its "
     "scores to memory supports only ulysses; take ulysses"),
    ({"context": 16, "tensor": 8, "sequence_parallel": True, "sequence": 96},
     "parallel.tensor: 8 ranks do not share a sequence of 6 tokens evenly; take 2"),
    ({"pipeline": 5, "ends": 1}, "5 stages do not share 14 layers, the ends counted as such, evenly"
     "; take 7"),
    ({"pipeline": 3, "schedule": "dualpipe"}, "parallel.pipeline: DualPipe needs an even number "
     "of stages, not 3; take 2"),
    ({"pipeline": 2, "chunks": 2, "schedule": "zb-h1"},
     "schedule.chunks: ZB-H1 runs one chunk on each stage; take 1"),
    ({"pipeline": 4, "schedule": "zb-v"}, "parallel.pipeline: ZB-V has two chunks on each of 4 "
     "stages, which do not share 12 layers evenly; take 3"),
    ({"pipeline": 3, "chunks": 2, "schedule": "zb-v"},
     "schedule.chunks: ZB-V always has two chunks per stage, and needs no .* take 1"),
    ({"pipeline": 4, "batch": 7, "schedule": "dualpipe"},
     "batch: 7 micro-batches of a rank are no even number of two or more for each of 4 stages, as "
     "DualPipe needs; take 8"),
    ({"recompute": "selective"}, "recompute: selective recomputation .* saves none; take none"),
    ({"recompute_layers": 2}, r"recompute: memory.recompute_layers is 2, .* take full"),
    ({"recompute": "full", "recompute_layers": 5, "pipeline": 4},
     "recompute_layers: no pipeline chunk has 5 layers; take 3"),
    ({"pipeline": 5}, "parallel.pipeline: 5 stages do not share 12 layers evenly; take 4"),
    ({"chunks": 2}, "schedule.chunks: a pipeline of 1 stages has no chunks to interleave; take 1"),
    ({"pipeline": 4, "chunks": 2},
     "schedule.chunks: 2 chunks on each of 4 stages do not share 12 layers evenly; take 1"),
    ({"pipeline": 2, "chunks": 2, "schedule": "gpipe"},
     "schedule.chunks: GPipe runs one chunk on each stage; take 1"),
    ({"expert": 2}, "parallel.expert: the model has no experts to divide among 2 ranks; take 1"),
    (
        {"pipeline": 2, "zero": 3},
        "zero: ZeRO-3 shards gradients, but a pipeline .* take 1",
    ),
    ({"data": 6}, "batch: 64 sequences are no multiple of 6 data-parallel ranks x 1 .* take 66"),
    ({"pipeline": 12, "batch": 8},
     "batch: 8 sequences are 8 micro-batches of a rank, fewer than 12 stages; take 12"),
    ({"pipeline": 3, "chunks": 2},
     "batch: 64 micro-batches of a rank are no multiple of 3 stages, .* take 63"),
]  # fmt: skip


def test_a_sequence_longer_than_the_learned_positions_is_refused():
    model = replace(MODEL, tokens=TokenOptions(positions=64))
    with pytest.raises(ScenarioError, match=r"workload.sequence: 128 tokens .* take 64$"):
        PLAN.check(model)
    replace(PLAN, sequence=64).check(model)


def test_a_feed_forward_network_whose_width_ranks_do_not_share_is_refused():
    """Its width was rounded down: the rest of it took no time."""
    told = r"parallel.tensor: the feed-forward width 100 is not divisible by 8 ranks; take 4$"
    for model in (replace(MODEL, inner=100), replace(MODEL, experts=Experts(8, 2, 100))):
        with pytest.raises(ScenarioError, match=told):
            replace(PLAN, tensor=8).check(model)
        replace(PLAN, tensor=4).check(model)


@pytest.mark.parametrize(("changes", "told"), BROKEN)
def test_a_broken_rule_is_told_with_the_nearest_setting_that_keeps_it(changes, told):
    with pytest.raises(ScenarioError, match=told):
        replace(PLAN, **changes).check(MODEL)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"expert": 3, "data": 4}, "3 ranks do not share 8 experts evenly; take 2"),
        ({"expert": 8, "data": 4}, "4 data-parallel ranks cannot be .* groups of 8 .* take 4"),
    ],
)
def test_experts_and_ranks_that_do_not_match_are_refused(changes, told):
    with pytest.raises(ScenarioError, match=told):
        replace(PLAN, **changes).check(MIXED)


@pytest.mark.parametrize(("changes", "told"), BROKEN)
def test_what_a_message_says_to_take_breaks_no_other_rule(changes, told):
    settings = {path: name for name, path in SETTINGS.items()}
    plan = replace(PLAN, **changes)
    with pytest.raises(ScenarioError) as caught:
        plan.check(MODEL)
    path, _, cure = str(caught.value).removeprefix("workload.").partition(": ")
    value = cure.rpartition("; take ")[2]
    now = getattr(plan, settings[path])
    plan.with_value(settings[path], value if isinstance(now, str) else int(value)).check(MODEL)


def test_what_is_told_to_take_works():
    replace(PLAN, tensor=2, pipeline=4, chunks=3, data=2).check(MODEL)
    replace(PLAN, tensor=8, data=2, expert=2).check(MIXED)
