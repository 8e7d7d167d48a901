"""Graph of a step: makespan by the textbook's bubbles, what ranks exchange, and both engines."""

from dataclasses import replace

import numpy as np
import pytest
from by_day import every
from foretrace.models.network.collective.collectives import Fabric
from foretrace.models.network.part.link import Link
from foretrace.models.network.part.nic import Nic
from foretrace.models.network.topology.topology import NodeSpec, cluster
from foretrace.models.training.description.description import (
    BlockOptions,
    Experts,
    TokenOptions,
    Transformer,
)
from foretrace.models.training.layer.feed_forward import mixture
from foretrace.models.training.layer.precision import PRECISIONS
from foretrace.models.training.plan.expert_choice import ExpertChoice
from foretrace.models.training.plan.parallel_plan import ParallelPlan
from foretrace.models.training.plan.rank_memory import rank_memory
from foretrace.models.training.plan.stages import stage_weights
from foretrace.models.training.program.stage_program import GROUPS, StageProgram
from foretrace.models.training.program.step_graph import step_graph
from foretrace.sim.facts.backend import Backend, Timing
from foretrace.sim.facts.graph import Graph
from foretrace.sim.facts.ops import Kind
from foretrace.sim.facts.system import Component, System
from foretrace.sim.run.simulation import Simulation

TINY = Transformer(hidden=64, layers=8, heads=8, vocabulary=128, inner=256)
MIXED = replace(TINY, experts=Experts(4, 2, 64), block=BlockOptions(gated=True))
PLAN = ParallelPlan(batch=16, sequence=32)
LAYER = 12 * 64**2 + 11 * 64
"""Parameters of a layer of ``TINY`` but for its first norm, the last whose gradients are done: a
bucket of so many ends before that, which belongs to the next one."""


class OnlyAttention(Backend):
    """Attention takes a second forward and two backward, all else nothing."""

    source, uniform = "test", True

    def timing(self, ops, now=0.0):
        words = {"flash_attention": 1.0, "attention_backward": 2.0}
        table = [next((s for w, s in words.items() if w in text), 0.0) for text in ops.signatures]
        return Timing.of(np.array([*table, 0.0])[ops.signature])


def run(graph: Graph, engine: str = "core", backend: Backend | None = None):
    gpus = tuple(Component(f"node0.gpu{k}", "gpu", slots=128) for k in range(graph.ranks))
    system = System(
        (*gpus, Component("fabric", "fabric")), tuple(g.name for g in gpus), fabric="fabric"
    )
    return Simulation(system, {"*": backend or OnlyAttention()}, engine=engine).run(graph)


@pytest.mark.parametrize("schedule", ["1f1b", "gpipe"])
@pytest.mark.parametrize(("p", "batch"), [(1, 3), (2, 4), (4, 8), (8, 8)])
def test_a_pipeline_takes_its_micro_batches_and_the_bubble(schedule, p, batch):
    """(m + p - 1) (t_f + t_b): Narayanan et al. 2021, arXiv:2104.04473, section 2.2.1."""
    plan = replace(PLAN, pipeline=p, batch=batch, schedule=schedule)
    assert run(step_graph(TINY, plan)).makespan == (batch + p - 1) * 3 * 8 / p


@pytest.mark.parametrize(("p", "v"), [(2, 2), (2, 4), (4, 2)])
def test_interleaved_chunks_divide_the_bubble(p, v):
    """(m + (p - 1) / v) (t_f + t_b): section 2.2.2."""
    plan = replace(PLAN, pipeline=p, chunks=v, batch=8)
    assert run(step_graph(TINY, plan)).makespan == (8 + (p - 1) / v) * 3 * 8 / p


class OnePass(Backend):
    """Attention takes a second forward and one backward, its last product's weights another."""

    source, uniform = "test", True
    words = ("flash_attention", "attention_backward", "mm bf16[64x32] bf16[32x64]")

    def timing(self, ops, now=0.0):
        table = [float(any(w in text for w in self.words)) for text in ops.signatures]
        return Timing.of(np.array([*table, 0.0])[ops.signature])


@pytest.mark.parametrize(("p", "batch"), [(1, 3), (2, 4), (4, 8), (8, 8)])
def test_gradients_of_weights_wait_for_the_bubble(p, batch):
    """m (F + B + W) + (p - 1) (F + B - W): Qi et al. 2023, arXiv:2401.10241, section 2.3."""
    plan = replace(PLAN, pipeline=p, batch=batch, schedule="zb-h1")
    assert run(step_graph(TINY, plan), backend=OnePass()).makespan == (3 * batch + p - 1) * 8 / p


@pytest.mark.parametrize(("schedule", "late"), [("zb-h2", 1), ("zb-v", 1 / 2)])
@pytest.mark.parametrize(("p", "batch"), [(1, 3), (2, 4), (4, 8)])
def test_no_stage_waits_once_it_has_begun(schedule, late, p, batch):
    """The last begins (p - 1) F later, or half of that: Qi et al. 2023, sections 2.2 and 6."""
    plan = replace(PLAN, pipeline=p, batch=batch, schedule=schedule)
    whole = 3 * batch + (p - 1) * late
    assert run(step_graph(TINY, plan), backend=OnePass()).makespan == whole * 8 / p


def test_the_last_stage_of_a_v_hands_on_to_itself():
    plan = replace(PLAN, pipeline=2, batch=4, schedule="zb-v")
    programs = [StageProgram(TINY, plan, stage).program() for stage in range(2)]
    messages = [int((p.ops.kind == Kind.SEND).sum()) for p in programs]
    assert messages == [2 * 4, 2 * 4]  # activations down and gradients up, and the reverse
    names = [[layer.name for layer in chunk] for chunk in StageProgram(TINY, plan, 0).chunks]
    assert names == [
        ["embedding", "dense layer", "dense layer"],
        ["dense layer", "dense layer", "output"],
    ]


@pytest.mark.parametrize(("p", "batch"), [(2, 4), (4, 8), (4, 12), (8, 16)])
def test_a_pipeline_from_both_ends_has_half_the_stages_less_one_of_bubble(p, batch):
    """(p / 2 - 1) (F&B + B - 3 W): DeepSeek-AI 2024, arXiv:2412.19437, table 2."""
    plan = replace(PLAN, pipeline=p, batch=batch, schedule="dualpipe")
    whole = 3 * batch + (p / 2 - 1) * (3 + 2 - 3)
    assert run(step_graph(TINY, plan), backend=OnePass()).makespan == whole * 8 / p


def test_a_pipeline_from_both_ends_computes_one_way_while_it_exchanges_the_other():
    class Exchanging(OnePass):
        words = (*OnePass.words, "all-to-all")

    plan = replace(PLAN, pipeline=2, data=2, expert=2, schedule="dualpipe")
    graphs = [step_graph(MIXED, replace(plan, batch=2 * m)) for m in (8, 24)]
    few, many = (run(g, backend=Exchanging()).makespan for g in graphs)
    plain = replace(plan, schedule="1f1b")
    graphs = [step_graph(MIXED, replace(plain, batch=2 * m)) for m in (8, 24)]
    one_way_few, one_way_many = (run(g, backend=Exchanging()).makespan for g in graphs)
    each = 3 * 4  # s of computing of a micro-batch, in four layers
    exchanging = 4 * 4
    assert one_way_many - one_way_few == 16 * (each + exchanging)
    assert 16 * exchanging <= many - few < 0.8 * 16 * (each + exchanging)


def test_stages_may_count_the_ends_as_layers():
    plan = replace(PLAN, pipeline=5, ends=1, batch=5)
    names = [[layer.name for layer in StageProgram(TINY, plan, s).chunks[0]] for s in range(5)]
    assert names == [
        ["embedding", "dense layer"],
        *[["dense layer"] * 2] * 3,
        ["dense layer", "output"],
    ]


def test_a_part_of_the_model_is_the_same_on_both_its_stages():
    plan = replace(PLAN, pipeline=4, batch=8, schedule="dualpipe")
    near, far = (StageProgram(TINY, plan, stage).chunks for stage in (1, 2))
    assert near == far[::-1]
    assert stage_weights(TINY, plan, 1) == stage_weights(TINY, plan, 2)


def test_full_recomputation_runs_every_layer_forward_once_more():
    plan = replace(PLAN, batch=2, recompute="full")
    assert run(step_graph(TINY, plan)).makespan == 2 * 8 * 4


def test_so_many_layers_of_each_stage_are_run_forward_once_more():
    plan = replace(PLAN, pipeline=2, batch=4, recompute="full", recompute_layers=3)
    assert run(step_graph(TINY, plan)).makespan == (4 + 1) * (4 * 3 + 3)


def test_steps_follow_each_other():
    result = run(step_graph(TINY, replace(PLAN, batch=2, pipeline=2), steps=3))
    assert result.makespan == 3 * (2 + 1) * 3 * 4


PLANS = [
    replace(PLAN, tensor=2, sequence_parallel=True, pipeline=2, data=2, chunks=2),
    replace(PLAN, tensor=2, data=2, zero=1, bucket=10_000),
    replace(PLAN, data=4, zero=3),
    replace(PLAN, data=2, zero=2, overlap=False),
    replace(PLAN, pipeline=2, data=2, schedule="zb-h1", tensor=2, sequence_parallel=True),
    replace(PLAN, pipeline=2, data=2, schedule="dualpipe", zero=1),
    replace(PLAN, pipeline=2, data=4, expert=2, chunks=2, schedule="combined-1f1b", zero=1),
    replace(PLAN, pipeline=2, data=2, schedule="zb-v", zero=1),
    replace(PLAN, pipeline=4, schedule="zb-h2", recompute="full", recompute_layers=1),
    replace(PLAN, context=4, data=2),
    replace(PLAN, context=4, balanced=False, zero=1),
    replace(PLAN, context=2, context_by="all-gather", tensor=2, sequence_parallel=True),
    replace(PLAN, context=2, context_by="ulysses", pipeline=2),
]


@pytest.mark.parametrize("plan", every(6, PLANS))
def test_both_engines_give_the_same_tick(plan):
    class ByBytes(Backend):
        source, uniform = "test", True

        def timing(self, ops, now=0.0):
            return Timing.of(1e-6 + np.nan_to_num(ops.bytes) * 1e-9)

    graph = step_graph(MIXED if plan.expert > 1 else TINY, replace(plan, batch=8))
    core, plain = (run(graph, engine, ByBytes()) for engine in ("core", "reference"))
    assert core.makespan_ticks == plain.makespan_ticks > 0


def exchanged_bytes(plan, group, model=TINY, stage=0):
    """Bytes that a rank sends by rings in a step: (n - 1) / n of the buffer, twice for all-reduce.

    Patarasuk and Yuan 2009, doi:10.1016/j.jpdc.2008.09.002.
    """
    ops = StageProgram(model, plan, stage).program()
    found, table = {}, ops.ops
    for row in np.flatnonzero(ops.family == GROUPS.index(group)):
        if table.kind[row] == Kind.COLLECTIVE:
            name = table.signature_text(int(row)).split()[0].partition(":")[2]
            found[name] = found.get(name, 0.0) + float(table.bytes[row])
    n = {"data": plan.data, "tensor": plan.tensor, "expert": plan.expert}[group]
    return sum((2 if name == "all-reduce" else 1) * (n - 1) / n * b for name, b in found.items())


def weights(plan):
    program = StageProgram(TINY, plan, 0)
    return sum(layer.weights for chunk in program.chunks for layer in chunk)


@pytest.mark.parametrize("zero", [0, 1, 2, 3])
@pytest.mark.parametrize("overlap", [True, False])
def test_zero_exchanges_two_or_three_times_the_weights(zero, overlap):
    """2 psi, with stage 3 3 psi: Rajbhandari et al. 2020, arXiv:1910.02054, section 7."""
    types = replace(PLAN.precision, communication="bf16")
    plan = replace(PLAN, data=8, batch=8, zero=zero, overlap=overlap, precision=types)
    psi = 2 * weights(plan)
    assert exchanged_bytes(plan, "data") == pytest.approx((3 if zero == 3 else 2) * 7 / 8 * psi)


@pytest.mark.parametrize("sequence", [False, True])
def test_tensor_parallel_ranks_exchange_four_activations_a_layer(sequence):
    """4 all-reduces of s b h, or as many bytes and one more gather of each kept input.

    Shoeybi et al. 2019, arXiv:1909.08053, section 3; Korthikanti et al. 2022, section 4.2.2.
    """
    plan = replace(PLAN, tensor=4, batch=1, sequence_parallel=sequence)
    one = 3 / 4 * 2 * 32 * 64  # (t - 1) / t of s b h
    layer = 8 * one + (2 * one if sequence else 0)
    ends = {False: 2 * one * 2, True: 5 * one}[sequence]  # embedding, output
    loss = 2 * 3 / 4 * 4 * 3 * 32
    assert exchanged_bytes(plan, "tensor") == pytest.approx(8 * layer + ends + loss)


def test_experts_exchange_every_chosen_token_four_times():
    """Dispatch and combine, forward and backward: Lepikhin et al. 2020, arXiv:2006.16668, 3.2."""
    plan = replace(PLAN, data=4, expert=4, batch=4)
    assert exchanged_bytes(plan, "expert", MIXED) == 8 * 4 * 3 / 4 * 2 * 32 * 2 * 64


def test_what_goes_to_experts_may_be_of_a_type_of_its_own():
    """fp8 there and bf16 back, forward and backward: DeepSeek-AI 2024, arXiv:2412.19437, 3.3.3."""
    plan = replace(PLAN, data=4, expert=4, batch=4)
    fp8 = replace(plan, precision=replace(plan.precision, dispatch="fp8"))
    assert exchanged_bytes(fp8, "expert", MIXED) == 3 / 4 * exchanged_bytes(plan, "expert", MIXED)
    parts = [p for p in mixture(MIXED, MIXED.experts, fp8.split) if "tokens" in p.forward[0].label]
    (there, home) = parts
    assert [work.label for work in there.forward] == ["tokens to fp8", "tokens all-to-all"]
    assert [work.label for work in home.backward] == [
        "gradients to fp8", "tokens all-to-all backward"
    ]  # fmt: skip
    assert there.forward[0].bytes == (2 + 1) * 32 * 64  # each row once, however many experts it has
    for (work,) in (there.backward, home.forward):
        assert " bf16[" in work.signature


def test_the_exchange_of_tokens_ends_with_the_busiest_rank():
    plan = replace(PLAN, data=4, expert=4, batch=4)
    crowded = replace(plan, imbalance=2.0)
    assert exchanged_bytes(crowded, "expert", MIXED) == 2 * exchanged_bytes(plan, "expert", MIXED)


def test_routing_says_which_rank_gets_how_many_tokens_and_sends_them_back():
    """Rank 0 has 3 of 6 tokens: as many bytes in all, to it and, of what it made, from it."""
    plan = replace(PLAN, data=4, expert=4, batch=4)
    crowded = replace(plan, routing=ExpertChoice((3.0, 1.0, 1.0, 1.0), round_robin=False))
    assert exchanged_bytes(crowded, "expert", MIXED) == exchanged_bytes(plan, "expert", MIXED)
    parts = mixture(MIXED, MIXED.experts, crowded.split)
    layer, back = (part for part in parts if "all-to-all" in part.forward[0].label)
    shares = "500000000,166666667,166666667,166666667"
    for of, word in ((layer.forward, "receive"), (layer.backward, "send"),
                     (back.forward, "send"), (back.backward, "receive")):  # fmt: skip
        assert f"collective:all-to-all {word}={shares} " in of[0].signature
    assert layer.backward[0].label == "tokens all-to-all backward"
    assert back.forward[0].label == "tokens all-to-all"


@pytest.mark.nightly
def test_crowded_experts_take_the_same_ticks_as_a_template_and_written_out():
    """Ranks of one program whose parts of an exchange differ, on links that they share."""
    nic, link = Nic(bandwidth=1e9, latency=1e-6), Link(bandwidth=4e9, latency=1e-6)
    system = cluster(4, NodeSpec(gpus=2, nics=1, nic=nic, gpu_link=link))
    choice = ExpertChoice((5.0, 1.0, 2.0, 1.0), round_robin=False)
    plan = replace(PLAN, data=8, expert=4, routing=choice)
    graph = step_graph(replace(MIXED, layers=2), plan)
    backends = {"node*.gpu*": OnlyAttention(), "fabric": Fabric()}
    took = {
        (engine, keep): Simulation(system, backends, engine=engine).run(graph, keep=keep).makespan
        for engine, keep in (("core", "none"), ("core", "ops"), ("reference", "ops"))
    }
    assert len(set(took.values())) == 1
    even = step_graph(replace(MIXED, layers=2), replace(plan, routing=None))
    assert took["core", "none"] > Simulation(system, backends).run(even, keep="none").makespan


@pytest.mark.parametrize("each", [0.25, 1.0, 3.0])
@pytest.mark.parametrize("layers", [1, 4])
def test_two_micro_batches_at_once_hide_what_is_exchanged_behind_what_is_computed(layers, each):
    """A layer computes two parts each way, and exchanges after or before each: 4 of 1 s, 4 of x.

    Alone they add up; side by side the longer of both hides the other, but for the exchanges at
    the beginning and the end of a pair, beside which there is nothing to compute.
    """

    class Parts(OnlyAttention):
        def timing(self, ops, now=0.0):
            words = {"attention": 1.0, "silu_and_mul": 1.0, "all-to-all": each}
            told = [next((s for w, s in words.items() if w in t), 0.0) for t in ops.signatures]
            return Timing.of(np.array([*told, 0.0])[ops.signature])

    plan = replace(PLAN, data=4, expert=4, batch=20)  # five micro-batches of each rank
    model = replace(MIXED, layers=layers)
    took = {
        name: run(step_graph(model, replace(plan, schedule=name)), backend=Parts()).makespan
        for name in ("1f1b", "combined-1f1b")
    }
    alone = 4 * layers * (1 + each)
    pair = 4 * layers * max(1, each) + 2 * min(1, each)
    assert took == {"1f1b": 5 * alone, "combined-1f1b": alone + 4 * pair}


def test_two_micro_batches_at_once_need_the_memory_of_one_more():
    plan = replace(PLAN, data=4, expert=4, batch=20)
    one, two = (
        rank_memory(MIXED, replace(plan, schedule=name), 0).activations
        for name in ("1f1b", "combined-1f1b")
    )
    assert two == 2 * one


def test_buckets_are_reduced_while_the_backward_pass_goes_on():
    class SlowGradients(OnlyAttention):
        def timing(self, ops, now=0.0):
            told = super().timing(ops, now)
            shared = np.array([*("collective" in t for t in ops.signatures), False])[ops.signature]
            return replace(told, fixed=told.fixed + np.where(shared, ops.bytes / layer, 0.0))

    layer = 4 * (12 * 64**2 + 13 * 64)  # B of its gradients: a second
    ends = 4 * 128 * 64 / layer  # of the embedding's
    last = 4 * 2 * 64 / layer  # of the last norm's
    late = replace(PLAN, data=2, batch=2, overlap=False)
    early = replace(
        late, overlap=True, bucket=40_000
    )  # one layer from its second norm on, and the norm of the layer behind it
    times = [run(step_graph(TINY, p), backend=SlowGradients()).makespan for p in (early, late)]
    assert times == pytest.approx([24 + 1 + ends + last, 24 + 8 + ends + last], rel=1e-9)


def test_a_tied_embedding_is_summed_over_the_first_and_last_stage():
    plan = replace(PLAN, pipeline=4, batch=4)
    programs = [StageProgram(TINY, plan, stage).program() for stage in range(4)]
    sums = [int((p.family == GROUPS.index("embedding")).sum()) for p in programs]
    assert sums == [1, 0, 0, 1]


def test_fp8_products_are_those_of_layers_only():
    from foretrace.models.training.layer.precision import PRECISIONS

    ops = StageProgram(TINY, replace(PLAN, precision=PRECISIONS["fp8"]), 0).program().ops
    eights = {t for t in ops.signatures if "fp8[" in t}
    assert eights
    assert all("_scaled_mm quantized=1 " in t for t in eights)
    assert any("mm bf16[32x64] bf16[64x128]" in t for t in ops.signatures)  # the output layer


SHARED_UPDATES = [
    replace(PLAN, data=4, batch=16, zero=1, bucket=60_000),
    replace(PLAN, data=4, batch=16, zero=2, pipeline=2, chunks=2),
    replace(PLAN, data=4, batch=16, zero=1, pipeline=2, precision=PRECISIONS["fp8"]),
    replace(PLAN, data=4, batch=16, zero=1, expert=2),
]


@pytest.mark.parametrize("plan", SHARED_UPDATES)
def test_weights_gathered_ahead_are_all_weights_and_once(plan):
    """Those that were gathered behind the update, a tied embedding's copy with them."""
    model = replace(MIXED if plan.expert > 1 else TINY, tokens=TokenOptions(tied=True))

    def gathered(plan, stage):
        program = StageProgram(model, plan, stage).program()
        found = {}
        for row in range(len(program.ops)):
            if "all-gather" in (text := program.ops.signature_text(row)):
                family = GROUPS[program.family[row]]
                found[family] = found.get(family, 0) + program.ops.bytes[row]
            elif "_to_copy" in text:
                found["cast"] = found.get("cast", 0) + program.ops.bytes[row]
        return found

    for stage in range(plan.pipeline):
        behind = gathered(replace(plan, gather_ahead=False), stage)
        assert gathered(plan, stage) == pytest.approx(behind)
        assert behind


class AndGathers(OnlyAttention):
    """Each gather takes as long, beside attention."""

    def __init__(self, each):
        self.each = each

    def timing(self, ops, now=0.0):
        table = ["all-gather" in text for text in ops.signatures]
        taken = self.each * np.array([*table, False])[ops.signature]
        return Timing.of(super().timing(ops).fixed + taken)


@pytest.mark.parametrize(
    ("gather", "hidden_part"),
    [(0.5, 1.0), (3.0, 1 / 3)],  # of what one layer takes forward: shorter, and three times as long
)
def test_gathers_hide_behind_the_layers_before_them(gather, hidden_part):
    """The first is exposed, each other runs while the layer before it is computed.

    Megatron-LM, core/distributed/param_and_grad_buffer.py: ``finish_param_sync`` of a bucket starts
    the next one's gather.
    """

    layers = 8
    plan = replace(PLAN, data=2, batch=4, zero=1, bucket=LAYER)
    took = {
        ahead: run(step_graph(TINY, replace(plan, gather_ahead=ahead)), backend=AndGathers(gather))
        for ahead in (True, False)
    }
    computed = 2 * 3 * layers  # two micro-batches, 1 s forward and 2 s backward a layer
    buckets = layers + 1  # and one for the embedding
    assert took[False].makespan == computed + gather
    # The embedding computes for no time here, so that the gather of the first layer is exposed:
    exposed = 2 * gather + (layers - 1) * max(gather - 1, 0)
    assert took[True].makespan == pytest.approx(computed + exposed)
    hidden = (layers - 1) * gather * hidden_part
    assert buckets * gather - exposed == pytest.approx(hidden)


@pytest.mark.parametrize(
    ("schedule", "on_each_stage"),
    [
        ({"pipeline": 4}, [3, 1, 1, 1]),  # embedding and two layers; two layers; two and the output
        ({"pipeline": 2, "chunks": 2}, [3 + 1, 1 + 1]),
        ({"pipeline": 2, "schedule": "zb-v"}, [3 + 1, 1 + 1]),
        ({"pipeline": 2, "schedule": "dualpipe"}, [5 + 1, 1 + 5]),  # both parts on both stages
    ],
)
def test_only_the_first_part_of_the_model_has_more_than_one_bucket(schedule, on_each_stage):
    """Megatron-LM, core/distributed/distributed_data_parallel.py: ``bucket_size = None``."""
    plan = replace(PLAN, data=2, batch=8, zero=1, bucket=LAYER, **schedule)
    for what in ("reduce-scatter", "all-gather"):
        found = []
        for stage in range(plan.pipeline):
            ops = StageProgram(TINY, plan, stage).program().ops
            found.append(sum(what in ops.signature_text(row) for row in range(len(ops))))
        assert found == on_each_stage
    assert run(step_graph(TINY, plan)).makespan > 0  # copies on two stages run as many


@pytest.mark.parametrize(
    ("p", "v", "computed"), [(4, 1, (8 + 3) * 6), (2, 2, (8 + 1 / 2) * 12), (2, 1, (8 + 1) * 12)]
)
def test_no_stage_but_the_first_delays_the_first_forward_pass(p, v, computed):
    """A chunk's one gather ends while the pipeline fills; layer by layer each stage added to it.

    On the first stage the gathers of the embedding, which computes for no time, and of the first
    layer are exposed, and those of the next layers but for the second that the layer before takes.
    """
    gather, layers = 2.0, 8 // (p * v)
    plan = replace(PLAN, pipeline=p, chunks=v, data=2, batch=16, zero=1, bucket=LAYER)
    exposed = 2 * gather + (layers - 1) * (gather - 1)
    took = run(step_graph(TINY, plan), backend=AndGathers(gather)).makespan
    assert took == pytest.approx(computed + exposed)


def test_micro_batches_after_the_first_gather_nothing():
    def gathers(batch):
        ops = StageProgram(TINY, replace(PLAN, data=2, batch=batch, zero=1), 0).program().ops
        return sum("all-gather" in ops.signature_text(row) for row in range(len(ops)))

    assert gathers(2) == gathers(8) > 0
