"""Shapes of ops on GPUs, the work of their kernels, and how long these take."""

import json
from dataclasses import replace

import numpy as np
import pytest
from foretrace.models.compute.demand import demand, family
from foretrace.models.compute.gpu_groups import Chip, Peaks
from foretrace.models.compute.kernel_work import kernel_work
from foretrace.models.compute.kernels import (
    REGIMES,
    Evidence,
    GpuDatasheet,
    KernelFamily,
    load_families,
)
from foretrace.models.compute.op_shape import AXES, op_shape
from foretrace.models.compute.roofline import Roofline
from foretrace.sim.errors import BackendError
from foretrace.sim.facts.ops import Ops

CHIP = Chip(processors=132, clock=1.98e9, cache=50 * 2**20)


def h100(**more):
    return Roofline(
        bandwidth=3.35e12,
        peaks=Peaks(bf16=989.4e12),
        efficiency=0.816,
        memory_efficiency=0.872,
        launch=2.19e-6,
        kernels="h100-sxm5-80g",
        **{"chip": CHIP, **more},
    )


@pytest.mark.parametrize(
    ("text", "axes"),
    [
        ("aten::linear bf16[4x8] bf16[16x8]", (1, 4, 16, 8)),
        ("aten::addmm bf16[16] bf16[4x8] bf16[8x16]", (1, 4, 16, 8)),
        ("aten::_scaled_mm fp8[4x8] fp8[8x16] fp32[] fp32[]", (1, 4, 16, 8)),
        ("aten::bmm bf16[3x4x8] bf16[3x8x16]", (3, 4, 16, 8)),
    ],
)
def test_a_product_is_one_whatever_it_is_called(text, axes):
    shape = op_shape(f"compute:{text}")
    assert (shape.family, shape.axes) == ("product", axes)
    assert kernel_work(shape).flop == 2 * np.prod(axes)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("vllm::fused_add_rms_norm bf16[8x64] bf16[8x64] bf16[64]", "norm"),
        ("aten::native_layer_norm bf16[8x64] bf16[64] bf16[64]", "layer norm"),
        ("aten::_softmax fp32[8x64]", "softmax"),
        ("sgl_kernel::silu_and_mul bf16[8x64] bf16[8x128]", "activation"),
        ("vllm::rotary_embedding int64[8] bf16[8x512] bf16[8x128] bf16[99x64]", "rope"),
        ("aten::embedding bf16[100x64] int64[4x8]", "gather"),
        ("aten::embedding bf16[100x64] int64[16]", "gather of few"),
        ("aten::sum bf16[8x64]", "reduction"),
        ("aten::add_ bf16[8x64] bf16[8x64]", "elementwise"),
        ("triton_poi_fused_add_mul_0 bf16[8x64] bf16[8x64]", "stream"),
        ("vllm::fused_experts bf16[8x64] bf16[4x256x64] bf16[4x64x128] fp32[8x2]", "experts"),
        (
            "aten::_flash_attention_forward bf16[1x9x4x64] bf16[1x9x4x64] bf16[1x9x4x64]",
            "attention",
        ),
    ],
)
def test_each_op_has_its_family_and_axes(text, name):
    shape = op_shape(f"compute:{text}")
    assert shape.family == name
    assert len(shape.axes) == len(AXES[name])


def test_attention_knows_keys_beyond_the_queries_and_shared_heads():
    q, k = "bf16[2x32x1x128]", "bf16[2x8x1000x128]"
    shape = op_shape(f"compute:aten::scaled_dot_product_attention {q} {k} {k}")
    assert shape == ("decode attention", "bf16", (4.0, 128.0, 0.0, 0.0), (2.0, 32.0, 1000.0))
    assert kernel_work(shape).bytes == 2 * 2 * 128 * (2 * 1000 * 8 + 2 * 32)


def test_flash_attention_of_torch_has_its_length_before_its_heads():
    three = " ".join(["bf16[4x197x12x64]"] * 3)
    shape = op_shape(f"compute:aten::_flash_attention_forward {three}")
    assert shape.axes == (4.0, 12.0, 197.0, 197.0)


def test_a_causal_mask_halves_the_blocks_of_attention():
    three = " ".join(["bf16[1x8x4096x128]"] * 3)
    whole, half = (
        kernel_work(op_shape(f"compute:aten::scaled_dot_product_attention {mask}{three}"))
        for mask in ("", "causal=1 ")
    )
    assert half.blocks / whole.blocks == pytest.approx(0.5, rel=0.05)
    assert half.depth == whole.depth


def test_experts_read_the_weights_of_those_that_get_a_token():
    few, many = (
        kernel_work(
            op_shape(f"compute:fused_moe bf16[{n}x64] bf16[8x256x64] bf16[8x64x128] fp32[{n}x1]")
        )
        for n in (1, 1000)
    )
    assert few.far == 2 * 3 * 64 * 128
    assert many.far == pytest.approx(8 * few.far)


def test_what_has_no_operands_or_is_no_compute_has_no_shape():
    assert op_shape("compute:void gemm<float>(int)") is None
    assert op_shape("copy:d2d bf16[8]") is None


def test_a_kernel_that_its_rule_cannot_read_is_not_taken_for_a_stream():
    assert op_shape("compute:aten::mm bf16[8x8]") is None


def test_the_demand_of_a_linear_layer_takes_its_weight_as_outputs_by_inputs():
    assert demand("compute:aten::linear fp32[4x8] fp32[16x8]").flop == 2 * 4 * 8 * 16


def test_a_scaled_product_is_a_product():
    assert family("compute:aten::_scaled_mm fp8[4x8] fp8[8x16] fp32[] fp32[]") == "gemm"
    assert (
        demand("compute:aten::_scaled_mm fp8[4x8] fp8[8x16] fp32[] fp32[]").flop == 2 * 4 * 8 * 16
    )


def test_a_convolution_in_half_precision_is_no_copy_of_columns():
    text = "compute:aten::convolution {0}[4x8x9x9] {0}[8x8x1x1]"
    assert family(text.format("bf16")) == "convolution"
    assert family(text.format("fp32")) == "im2col convolution"  # as torch does on one thread


def test_the_flop_of_attention_count_the_keys():
    q, k = "fp32[1x2x1x8]", "fp32[1x2x100x8]"
    assert demand(f"compute:aten::scaled_dot_product_attention {q} {k} {k}").flop == 4 * 2 * 100 * 8


def test_rounds_of_blocks_make_steps():
    chip = GpuDatasheet(100, 1e9, 1e12, 1e9)
    one = KernelFamily(launch=1e3, first=1e3, again=1e3)
    rows = np.array([[n, 1024, 1, 0, 0, 0, 0] for n in (1, 100, 200, 400)], float)
    us = one.time_parts(rows, chip, np.ones(4)).sum(axis=0) * 1e6
    assert us.round(6).tolist() == [2.0, 2.0, 2.0, 3.0]


def test_bytes_beyond_the_cache_cost_more():
    chip = GpuDatasheet(100, 1e9, 1e12, 1e6)
    one = KernelFamily(near=0.5, memory=0.5)
    rows = np.array([[0, 2048, 0, 0, 0, b, b] for b in (1e6, 1e9)], float)
    s = one.time_parts(rows, chip, np.ones(2)).sum(axis=0) * 1e12 / rows[:, 5]
    assert s.tolist() == pytest.approx([0.5, 1.0], rel=2e-3)


def test_a_kernel_starts_later_in_a_step_and_a_call_of_an_engine_holds_more_than_it():
    chip = GpuDatasheet(100, 1e9, 1e12, 1e6)
    one = KernelFamily(launch=1e3, cold=2e3, call=4e3)
    rows = np.zeros((1, 7)) + 1.0
    us = [
        one.time_parts(rows, chip, np.ones(1), how)[0, 0] * 1e6
        for how in ("nothing", "step", "call")
    ]
    assert us == pytest.approx([1.0, 3.0, 5.0])


def test_an_answer_is_of_a_kernel_in_a_step():
    gpu = h100()
    ops = Ops.of(signature=0, signatures=("compute:aten::add bf16[8] bf16[8]",))
    known = gpu.families["elementwise"]
    start = (known.launch + known.cold) / gpu.chip.clock
    assert known.cold > 0
    assert gpu.parts(ops)[0, 0] == pytest.approx(start)


def test_lists_of_tensors_side_by_side_are_read_and_written_once():
    read, written = op_shape("compute:aten::stack bf16[100]").axes
    assert (read, written) == (200.0, 200.0)
    assert op_shape("compute:aten::_foreach_mul_ fp32[100]").family == "elementwise"


def test_a_kernel_of_unknown_flop_is_answered_from_its_operands():
    gpu = h100()
    ops = Ops.of(signature=0, signatures=("compute:vllm::rms_norm bf16[4096x8192] bf16[8192]",))
    assert gpu.knows(ops).all()
    seconds = float(gpu.timing(ops).fixed[0])
    assert 90e-6 < seconds < 180e-6  # 124.5 us in vidur-opdb, of which the fit saw others


def test_without_kernels_unknown_flop_are_refused_as_ever():
    gpu = Roofline(bandwidth=1e12, peaks=Peaks(bf16=1e14))
    ops = Ops.of(signature=0, signatures=("compute:vllm::rms_norm bf16[8x8] bf16[8]",))
    assert not gpu.knows(ops).any()
    with pytest.raises(BackendError, match="flop"):
        gpu.timing(ops)


def test_each_answer_names_its_family_its_regime_and_what_it_rests_on():
    texts = (
        "compute:vllm::rms_norm bf16[8x4096] bf16[4096]", "compute:aten::_softmax bf16[8x64]",
        "compute:aten::mm bf16[4096x4096] bf16[4096x4096]",
    )  # fmt: skip
    timing = h100().timing(Ops.of(signature=[0, 1, 2], signatures=texts))
    doubts = [timing.doubt[i] for i in range(3)]
    assert [d.family for d in doubts] == ["norm", "softmax", "product"]
    assert doubts[2].regime == "arithmetic"
    assert all(len(d.quantiles) == 40 for d in doubts)
    assert timing.source[0].startswith("fitted:h100-sxm5-80g norm")
    assert timing.source[1].startswith("assumed:h100-sxm5-80g softmax")


def test_what_was_assumed_is_doubted_more_than_what_was_fitted():
    families = load_families("h100-sxm5-80g")
    assert not families["softmax"].evidence.source
    assert spread(families["softmax"]) > spread(families["activation"])


def spread(one):
    return one.evidence.quantiles[""][-2] - one.evidence.quantiles[""][1]


@pytest.mark.parametrize(
    "name",
    [
        "a100-sxm4-80g", "a100-sxm4-80g-flash-1", "h100-sxm5-80g", "h100-sxm5-80g-flash-1",
        "h200-sxm-141g", "nvidia", "other",
    ],
)  # fmt: skip
def test_every_file_of_kernels_tells_quantiles_of_every_family(name):
    families = load_families(name)
    assert {"product", "attention", "decode attention", "experts", "norm", "stream"} <= set(
        families
    )
    for one in families.values():
        assert "" in one.evidence.quantiles
        assert set(one.evidence.quantiles) <= {*REGIMES, ""}
        for levels in one.evidence.quantiles.values():
            assert list(levels) == sorted(levels)


def test_a_file_that_is_like_another_changes_what_it_names_and_nothing_else(tmp_path):
    file, of = tmp_path / "mine.json", {"attention": {"again": 3.0}}
    told = {"form": "foretrace-kernels", "like": "h100-sxm5-80g", "families": of}
    file.write_text(json.dumps(told))
    known, mine = load_families("h100-sxm5-80g"), load_families(str(file))
    assert mine["attention"] == replace(known["attention"], again=3.0)
    assert mine["norm"] == known["norm"]
    assert mine["attention backward"] == known["attention backward"]
    file.write_text(json.dumps({**told, "like": "h1000"}))
    with pytest.raises(BackendError, match="has no kernel families"):
        load_families(str(file))


def test_a_file_that_holds_no_kernels_is_refused(tmp_path):
    file = tmp_path / "mine.json"
    file.write_text(json.dumps({"form": "other"}))
    with pytest.raises(BackendError, match="has no kernel families"):
        load_families(str(file))
    with pytest.raises(BackendError, match="take one of a100-sxm4-80g"):
        load_families("h100")


def test_kernels_need_the_facts_of_their_gpu():
    with pytest.raises(BackendError, match=r"need chip\.processors, chip\.clock and chip\.cache"):
        Roofline(bandwidth=1e12, kernels="nvidia")


def test_flop_and_bytes_that_an_op_of_unknown_name_has_are_its_own():
    gpu = h100()
    texts = ("compute:decode bf16[1]",)
    known = Ops.of(flop=1e12, bytes=1e6, signature=0, signatures=texts)
    unknown = Ops.of(signature=0, signatures=texts)
    assert float(gpu.timing(known).fixed[0]) > 1e-3
    assert gpu.timing(known).doubt[0].family == "roofline"
    assert float(gpu.timing(unknown).fixed[0]) < 1e-5
    assert gpu.timing(unknown).doubt[0].family == "stream"


def test_a_file_with_evidence_beside_the_constants_is_read_for_one_release(tmp_path, caplog):
    """Files of `foretrace fit gpu` before 0.2 had source, error and quantiles flat."""
    flat = {"launch": 1e3, "source": "own rows", "error": 0.1, "quantiles": {"": [-0.1, 0.1]}}
    file = tmp_path / "own.json"
    file.write_text(json.dumps({"form": "foretrace-kernels", "families": {"norm": flat}}))
    norm = load_families(str(file))["norm"]
    assert (norm.launch, norm.evidence) == (1e3, Evidence("own rows", 0.1, {"": [-0.1, 0.1]}))
    assert f"{file}: norm.source: is now evidence.source; rename it" in caplog.text
    caplog.clear()
    load_families(str(file))
    assert not caplog.text  # once per file
