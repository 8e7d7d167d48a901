"""Buckets of gradients: where they end, and what torch's DDP does beside them."""

from dataclasses import replace

import numpy as np
import pytest
from foretrace.models.training.description.description import Experts, Transformer
from foretrace.models.training.description.model_zoo import model
from foretrace.models.training.layer.layers import expert_layer
from foretrace.models.training.layer.precision import PRECISIONS
from foretrace.models.training.plan.gradients import ddp_buckets, fill_buckets
from foretrace.models.training.plan.parallel_plan import ParallelPlan
from foretrace.models.training.program.step_graph import step_graph
from foretrace.sim.errors import PlanError
from foretrace.sim.facts.ops import Kind
from foretrace.traces.transform.data_parallel import BUCKET, FIRST_BUCKET, bucket_ends

TINY = Transformer(hidden=8, layers=2, heads=2, vocabulary=10, inner=32)
PLAN = ParallelPlan(
    batch=4, sequence=16, data=2, precision=PRECISIONS["fp32"], reducer="ddp", loss="written"
)


def texts(of, plan, kind=Kind.COMPUTE):
    """Signatures of rank 0, in order."""
    ops = step_graph(of, plan).ops
    rows = np.flatnonzero((ops.rank == 0) & (ops.kind == kind)).tolist()
    return [ops.signature_text(row).partition(":")[2] for row in rows]


@pytest.mark.parametrize("first", [None, 64.0])
def test_buckets_end_where_those_of_a_trace_that_is_made_data_parallel_do(first):
    """One rule, in two layers that do not know of each other."""
    sizes = np.random.default_rng(1).integers(1, 100, 400)
    mine = fill_buckets(
        sizes.tolist(), 64.0 if first else BUCKET / 1e4, first or FIRST_BUCKET / 1e4
    )
    theirs = bucket_ends(sizes * 1.0 if first else sizes * 1e4, first)
    assert [inside[-1] + 1 for inside in mine] == theirs


def test_ddp_fills_the_buckets_that_it_is_known_to_fill():
    assert [4 * n for n in ddp_buckets(PRECISIONS["fp32"])] == [FIRST_BUCKET, BUCKET]


def test_buckets_of_resnet_50_end_after_any_parameter_as_torch_was_seen_to_end_them():
    """torch 2.13, two ranks over gloo, ``bucket_cap_mb=25``."""
    plan = replace(PLAN, sequence=1, bucket=25 * 2**20 // 4)
    told = texts(replace(model("resnet-50"), image=64), plan, Kind.COLLECTIVE)
    sizes = [7564264, 6563840, 7091712, 4337216]
    statistics = ["broadcast fp32[53120]", "broadcast int64[53]"]
    assert told == [*statistics, *(f"all-reduce fp32[{size}]" for size in sizes)]


def test_ddp_scales_each_gradient_into_its_bucket_and_copies_it_back():
    ops = texts(TINY, PLAN)
    into = [text.split()[1] for text in ops if text.startswith("aten::mul ")]
    back = [text.split()[1] for text in ops if text.startswith("aten::copy_ ")]
    assert into == back
    assert len(into) == 2 * 12 + 3  # of each layer, the last norm and the embedding
    plain = texts(TINY, replace(PLAN, reducer="megatron"))
    assert len(ops) - len(plain) == 2 * len(into)


@pytest.mark.parametrize("wrong", [{"zero": 1}, {"pipeline": 2}, {"overlap": False}])
def test_what_ddp_does_not_know_is_refused(wrong):
    with pytest.raises(
        PlanError, match=r"workload\.optimizer\.reducer: torch's DDP .* take megatron"
    ):
        replace(PLAN, **wrong).check(TINY)


def test_ranks_that_share_a_vocabulary_have_no_loss_of_torch():
    with pytest.raises(
        PlanError, match=r"workload\.execution\.loss: .* 2 tensor-parallel ranks .* fused"
    ):
        replace(PLAN, tensor=2).check(TINY)


def test_a_written_loss_is_five_ops_and_a_fused_one_two():
    names = ("log_softmax", "nll_loss", "ones_like")
    told = {
        loss: sum(any(name in text for name in names) for text in texts(TINY, of))
        for loss, of in {"written": PLAN, "fused": replace(PLAN, loss="fused")}.items()
    }
    assert told == {"written": 2 * 5, "fused": 2 * 2}  # of two micro-batches


def test_experts_that_choose_take_rows_and_put_them_back():
    mixed = replace(TINY, experts=Experts(4, 2, 32, chosen_by="experts"))
    (before, after) = (
        [work.signature.split()[0] for work in works]
        for layer in [expert_layer(mixed, PLAN.split)]
        for works in (layer.forward, layer.backward)
    )
    for way in (before, after):
        assert way.count("compute:aten::index_select") == way.count("compute:aten::index_add") == 1
    assert before.count("compute:aten::topk") == 1
    with pytest.raises(PlanError, match="experts choose among the tokens of one rank"):
        replace(PLAN, expert=2, reducer="megatron").check(mixed)


def test_experts_that_nobody_shares_out_lie_in_the_buckets_of_all_weights():
    mixed = replace(TINY, experts=Experts(4, 2, 32))
    plan = replace(PLAN, bucket=10**9)
    assert len(texts(mixed, plan, Kind.COLLECTIVE)) == 1
    shared = replace(plan, data=4, batch=8, expert=2)
    assert sum("all-reduce" in text for text in texts(mixed, shared, Kind.COLLECTIVE)) == 2
