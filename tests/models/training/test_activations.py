"""Memory of activations and of model states, against the formulas of the papers."""

from dataclasses import replace

import pytest
from foretrace.models.training.description.description import (
    BlockOptions,
    TokenOptions,
    Transformer,
)
from foretrace.models.training.layer.layers import dense_layer, output_layer
from foretrace.models.training.layer.precision import PRECISIONS
from foretrace.models.training.plan.memory_fit import require_fit
from foretrace.models.training.plan.parallel_plan import SETTINGS, ParallelPlan
from foretrace.models.training.plan.rank_memory import memory_of_stages, rank_memory
from foretrace.models.training.plan.schedules import PassKind
from foretrace.models.training.plan.stages import (
    backward_works,
    chunks_of_stage,
    is_recomputed,
    saved_bytes,
    stage_weights,
)
from foretrace.models.training.program.hardware_flop import hardware_flop
from foretrace.sim.errors import ScenarioError

GPT = Transformer(
    hidden=1024,
    layers=8,
    heads=16,
    vocabulary=51200,
    inner=4096,
    tokens=TokenOptions(positions=2048),
    block=BlockOptions(dropout=True),
)
S, B, H, A = 2048, 4, 1024, 16  # sequence, micro-batch, hidden, heads
PLAN = ParallelPlan(batch=64, sequence=S, micro_batch=B, fused_attention=False)


def kept(**changes):
    plan = replace(PLAN, **changes)
    return saved_bytes(dense_layer(GPT, plan.split), plan)


def test_a_layer_keeps_what_the_megatron_paper_counts():
    """s b h (34 + 5 a s / h): Korthikanti et al. 2022, arXiv:2205.05198, eq. 1."""
    assert kept() == S * B * H * (34 + 5 * A * S / H)


def test_tensor_parallelism_leaves_norms_and_dropouts_whole():
    """s b h (10 + 24 / t + 5 a s / h t): eq. 2."""
    assert kept(tensor=8) == S * B * H * (10 + 24 / 8 + 5 * A * S / (H * 8))


def test_sequence_parallelism_divides_everything():
    """s b h / t (34 + 5 a s / h): eq. 4."""
    assert kept(tensor=8, sequence_parallel=True) == S * B * H / 8 * (34 + 5 * A * S / H)


def test_selective_recomputation_leaves_out_the_scores():
    """34 s b h / t: eq. 6."""
    plan = {"tensor": 8, "sequence_parallel": True, "recompute": "selective"}
    assert kept(**plan) == 34 * S * B * H / 8


def test_full_recomputation_keeps_what_comes_in():
    """2 s b h: section 5."""
    assert kept(recompute="full") == 2 * S * B * H


@pytest.mark.parametrize("again", [1, 3, 8])
def test_layers_that_are_computed_again_keep_what_comes_in_and_the_others_everything(again):
    """n 2 s b h + (L - n) s b h (34 + 5 a s / h): sections 4.1 and 5."""
    plan = replace(PLAN, recompute="full", recompute_layers=again)
    (chunk,) = chunks_of_stage(GPT, plan, 0)
    told = sum(saved_bytes(layer, plan) for layer in chunk[1:-1])
    each = S * B * H
    assert told == again * 2 * each + (8 - again) * each * (34 + 5 * A * S / H)
    memory = rank_memory(GPT, plan, 0, reserve=0).activations
    none, full = (
        rank_memory(GPT, replace(PLAN, recompute=way), 0, reserve=0).activations
        for way in ("none", "full")
    )
    assert memory == pytest.approx(none + (full - none) * again / 8)


def test_layers_are_counted_in_each_chunk_of_each_stage():
    plan = replace(PLAN, pipeline=2, chunks=2, recompute="full", recompute_layers=1)
    for stage in (0, 1):
        for chunk in chunks_of_stage(GPT, plan, stage):
            again = [is_recomputed(layer, plan) for layer in chunk if "layer" in layer.name]
            assert again == [True, False]


@pytest.mark.parametrize(("recompute", "again"), [("selective", 0), ("full", 5)])
def test_what_is_computed_again_is_arithmetic_of_the_hardware_only(recompute, again):
    """4 B s^2 h of scores a layer (appendix A), and whole forward passes of so many layers."""
    plan = replace(PLAN, recompute=recompute, recompute_layers=again)
    more = hardware_flop(GPT, plan) - hardware_flop(GPT, PLAN)
    each = {"selective": 8 * 4 * S**2 * H, "full": again * (24 * S * H**2 + 4 * S**2 * H)}
    assert more == 64 * each[recompute]


def test_fused_attention_keeps_a_number_a_row_in_place_of_scores():
    """34 s b h and fp32 sums (Dao 2023, arXiv:2307.08691, section 2.3)."""
    assert kept(fused_attention=True) == 34 * S * B * H + 4 * B * A * S


def test_gradients_of_weights_that_wait_keep_what_the_zero_bubble_paper_counts():
    """32 s b h: Qi et al. 2023, arXiv:2401.10241, table 1."""
    assert dense_layer(GPT, PLAN.split).kept_for_weights == 32 * S * B * H


def test_arithmetic_of_the_passes_is_what_the_zero_bubble_paper_counts():
    """F 24 h + 4 s, B 24 h + 8 s, W 24 h, times s b h: table 1."""
    layer = dense_layer(GPT, PLAN.split)
    backward = [
        sum(w.flop for w in backward_works(layer, PLAN, p))
        for p in (PassKind.INPUT, PassKind.WEIGHT)
    ]
    each = S * B * H
    assert sum(w.flop for w in layer.forward) == each * (24 * H + 4 * S)
    assert backward == [each * (24 * H + 8 * S), each * 24 * H]


def test_a_pipeline_without_bubbles_needs_no_more_than_the_first_stage_of_1f1b():
    """ZB-H1's peak is p M_B: Qi et al. 2023, section 2.2."""
    plain, waiting = (
        memory_of_stages(GPT, replace(PLAN, pipeline=4, schedule=schedule), reserve=0)
        for schedule in ("1f1b", "zb-h1")
    )
    assert waiting[-1].activations > plain[-1].activations
    most = max(one.activations for one in plain)
    assert max(one.activations for one in waiting) <= 1.05 * most  # the output layer waits, too


def activations(schedule, **changes):
    plan = replace(PLAN, pipeline=4, schedule=schedule, **changes)
    return [one.activations for one in memory_of_stages(GPT, plan, reserve=0)]


def test_zb_h2_needs_nearly_twice_the_activations():
    """(2 p - 1) M_B against p M_B: Qi et al. 2023, section 2.2."""
    inner = 2 * kept()  # of a stage of two layers
    assert activations("zb-h2")[0] == pytest.approx(7 / 4 * activations("1f1b")[0], rel=1e-9)
    assert max(activations("zb-h2")[1:3]) <= 7 * inner


def test_zb_v_needs_on_every_stage_what_1f1b_needs_on_the_first():
    """p M_B: Qi et al. 2023, section 6."""
    first = activations("1f1b")[0]
    told, output = activations("zb-v"), output_layer(GPT, PLAN.split)
    assert told[1:] == pytest.approx([4 * 2 * kept()] * 3, rel=0.01)
    assert max(told[1:]) <= first
    both_ends = output.kept + (7 - 4) * S * B * H  # the output's, and dropouts of embeddings
    assert told[0] == pytest.approx(first + both_ends, rel=1e-9)


def test_a_pipeline_from_both_ends_holds_two_parts_and_one_micro_batch_more():
    """2 x the parameters, PP + 1 micro-batches: DeepSeek-AI 2024, arXiv:2412.19437, table 2."""
    plan = replace(PLAN, pipeline=4, batch=64)
    both = memory_of_stages(GPT, replace(plan, schedule="dualpipe"), reserve=0)[1]
    one = memory_of_stages(GPT, plan, reserve=0)[1]
    assert both.weights == 2 * one.weights
    assert both.activations == 5 * 2 * kept()


def test_the_first_stage_holds_as_many_micro_batches_as_there_are_stages():
    """Korthikanti et al., section 4.2.3."""
    plan = replace(PLAN, pipeline=4, batch=64)
    first, *_, last = memory_of_stages(GPT, plan, reserve=0)
    each = 2 * kept()
    assert first.activations == pytest.approx(4 * (each + S * B * H), rel=1e-9)  # its own dropout
    assert last.activations < first.activations


@pytest.mark.parametrize(
    ("zero", "bytes"),
    [(0, 16), (1, 4 + 12 / 64), (2, 2 + 14 / 64), (3, 16 / 64)],
)
def test_zero_shares_16_bytes_a_parameter_stage_by_stage(zero, bytes):
    """Rajbhandari et al. 2020, arXiv:1910.02054, figure 1: K = 12, N_d = 64."""
    plan = replace(PLAN, data=64, batch=256, zero=zero, precision=PRECISIONS["fp16"])
    told = rank_memory(GPT, plan, 0, reserve=0)
    assert told.states == pytest.approx(bytes * stage_weights(GPT, plan, 0)[0])


def test_what_does_not_fit_is_told_with_what_would_make_it_fit():
    plan = replace(PLAN, data=8, fused_attention=True)
    need = rank_memory(GPT, plan, 0).peak
    with pytest.raises(
        ScenarioError, match=r"does not fit: .* it fits with parallel.zero: 1, or parallel.zero: 2"
    ):
        require_fit(GPT, plan, need - 1e6)
    require_fit(GPT, plan, need)


def plan_as_told(plan, told, ranks):
    """The plan with what a message says to take, on as many GPUs unless it says how many."""
    where, _, changes = told.partition("it fits")[2].strip().partition("with ")
    fields = {path: name for name, path in SETTINGS.items()}
    for change in changes.split(" and "):
        path, _, value = change.partition(": ")
        read = int(value) if value.isdigit() else {"true": True, "null": 0}.get(value, value)
        plan = plan.with_value(fields[path], read)
    ranks = int(where.split()[1]) if where else ranks
    return replace(plan, data=ranks // plan.ranks_of_a_copy)


@pytest.mark.parametrize("gib", [30, 8, 4, 3, 2.5])
@pytest.mark.parametrize("changes", [{}, {"data": 8, "micro_batch": 8}, {"tensor": 2, "data": 2}])
def test_what_is_said_to_fit_does(changes, gib):
    plan, capacity = replace(PLAN, **changes), gib * 2**30
    try:
        require_fit(GPT, plan, capacity)
    except ScenarioError as error:
        (told,) = error.args
        first, _, more = told.partition(", or ")
        taken = first if more else told
        fitting = plan_as_told(plan, taken, plan.ranks)
        require_fit(GPT, fitting, capacity)
        fitting.check(GPT)


def test_several_changes_are_told_where_no_single_one_does():
    plan = replace(PLAN, data=8, micro_batch=8)
    with pytest.raises(ScenarioError, match=r"it fits with .*: .* and .*$"):
        require_fit(GPT, plan, 3 * 2**30)


def test_the_fewest_gpus_are_told_where_no_change_on_as_many_does():
    with pytest.raises(ScenarioError, match=r"it fits on 4 GPUs with parallel.tensor: 4 and"):
        require_fit(GPT, replace(PLAN, micro_batch=1, recompute="full"), 3 * 2**30)


def test_what_no_change_makes_fit_is_told_so():
    with pytest.raises(ScenarioError, match=r"no plan of it fits on up to 256 GPUs; take a"):
        require_fit(GPT, PLAN, 2**30)
