"""Types of few bits: their scales, the ops that quantize, and products of what these made."""

from dataclasses import replace

import pytest
from foretrace.models.compute.gpu_groups import Chip, Fp4Gemm, Fp8Gemm, Gemm, Peaks
from foretrace.models.compute.roofline import Roofline
from foretrace.models.training.description.description import Experts, Transformer
from foretrace.models.training.layer.feed_forward import mixture
from foretrace.models.training.layer.operations import Split, gemm_work, linear, quantize_works
from foretrace.models.training.layer.precision import PRECISIONS, Scales
from foretrace.models.training.plan.gradients import weight_gather
from foretrace.models.training.plan.parallel_plan import ParallelPlan
from foretrace.models.training.plan.rank_memory import rank_memory
from foretrace.models.training.program.optimizer import cast_works
from foretrace.sim.facts.ops import Ops

DEEPSEEK = replace(PRECISIONS["fp8"], scales=Scales(128, "fp32", square=True))
ROWS, INPUTS, OUTPUTS = 256, 512, 1024


def layer(precision, **told):
    one = Split(batch=1, sequence=ROWS, precision=precision)
    return linear("x", ROWS, INPUTS, OUTPUTS, one, **told)


def named(works):
    return {work.label: work for work in works}


@pytest.mark.parametrize(
    ("name", "each"),
    [("fp8", 1), ("mxfp8", 1 + 1 / 32), ("nvfp4", 0.5 + 1 / 16), ("mxfp4", 0.5 + 1 / 32)],
)
def test_a_linear_layer_quantizes_its_input_and_the_gradient_once_for_two_products_each(name, each):
    """Each read in bf16 and written by rows and by columns; all three products read such."""
    of = layer(PRECISIONS[name])
    forward, backward = named(of.forward), named(of.backward)
    dtype = PRECISIONS[name].products
    x, dy, w = ROWS * INPUTS, ROWS * OUTPUTS, INPUTS * OUTPUTS
    assert forward[f"x input to {dtype}"].bytes == (2 + 2 * each) * x
    assert backward[f"x gradient to {dtype}"].bytes == (2 + 2 * each) * dy
    assert forward["x"].bytes == each * (x + w) + 2 * dy
    assert backward["x dgrad"].bytes == each * (dy + w) + 2 * x
    assert backward["x wgrad"].bytes == each * (x + dy) + 2 * w
    assert of.kept == each * x
    looked = {"x amax", "x input amax", "x gradient amax"} & {*forward, *backward}
    assert len(looked) == (2 if name == "nvfp4" else 0)


def test_scales_of_square_blocks_of_weights_are_few():
    """1 x 128 of activations, 128 x 128 of weights: DeepSeek-AI 2024, arXiv:2412.19437, 3.3.2."""
    of = named(layer(DEEPSEEK).forward)["x"]
    x, w = ROWS * INPUTS, INPUTS * OUTPUTS
    assert of.bytes == x * (1 + 4 / 128) + w * (1 + 4 / 128**2) + 2 * ROWS * OUTPUTS


def test_in_bf16_nothing_is_quantized():
    assert [w.label for w in layer(PRECISIONS["bf16"]).forward] == ["x"]
    assert quantize_works("x", 8, 8, PRECISIONS["bf16"], "bf16", "bf16") == ()


def test_what_another_keeps_is_quantized_for_it():
    assert [w.label for w in layer(PRECISIONS["fp8"], saves_input=False).forward] == ["x"]


def test_what_comes_to_experts_in_the_type_of_products_is_only_turned():
    model = Transformer(
        hidden=64, layers=1, heads=2, vocabulary=10, inner=64, experts=Experts(4, 2, 128)
    )

    def written(dispatch):
        types = replace(PRECISIONS["fp8"], dispatch=dispatch)
        split = Split(batch=1, sequence=32, expert=2, precision=types)
        return named(w for o in mixture(model, model.experts, split) for w in o.forward)

    rows = 2 * 2 * 32 // 2
    assert written("")["experts in input to fp8"].bytes == (2 + 1 + 1) * 64 * 2 * rows / 2
    assert written("fp8")["experts in input to fp8"].bytes == (1 + 1) * 64 * 2 * rows / 2


def test_weights_are_quantized_after_their_update_and_stored_by_rows_and_by_columns():
    plan = ParallelPlan(batch=2, sequence=4, precision=PRECISIONS["mxfp8"])
    (cast,) = cast_works(plan, 1024)
    assert cast.bytes == 1024 * (2 + 2 * (1 + 1 / 32))
    tiny = Transformer(hidden=8, layers=2, heads=2, vocabulary=10, inner=32)
    plain = replace(plan, precision=PRECISIONS["bf16"])
    more = rank_memory(tiny, plan, 0).weights - rank_memory(tiny, plain, 0).weights
    assert more == 1840 * 2 * (1 + 1 / 32)


def test_weights_in_fp8_are_gathered_so_with_their_scales():
    types = replace(PRECISIONS["mxfp8"], weights="fp8")
    plan = ParallelPlan(batch=8, sequence=4, data=8, zero=1, precision=types)
    assert weight_gather(plan, "data", 1024, "weights").bytes == 1024 + 32
    assert types.weight_bytes == 2 * (1 + 1 / 32)
    (turned,) = cast_works(plan, 1024)
    assert turned.bytes == 2 * (1024 + 32)


def test_a_product_of_what_was_quantized_before_does_not_pay_for_it_again():
    """``gemm.fp8.launch`` and its bytes are of measured products, which quantize an operand."""
    gpu = Roofline(
        peaks=Peaks(fp8=1e15), bandwidth=1e12, launch=1e-6, gemm=Gemm(fp8=Fp8Gemm(launch=3e-6))
    )

    def seconds(*works):
        ops = Ops.of(
            flop=[w.flop for w in works],
            bytes=[w.bytes for w in works],
            signature=range(len(works)),
            signatures=tuple(w.signature for w in works),
        )
        return float(gpu.timing(ops).fixed.sum())

    measured = gemm_work("x", 256, 512, 1024, "fp8", 2)
    measured = measured._replace(signature=measured.signature.replace(" quantized=1", ""))
    before = quantize_works("x", 256, 512, PRECISIONS["fp8"], "bf16", "fp8", copies=1)
    apart = seconds(*before, gemm_work("x", 256, 512, 1024, "fp8", 2))
    assert seconds(measured) - apart == pytest.approx(3e-6 - 2 * 1e-6)  # starts; bytes are the same


def test_products_in_fp4_take_its_peak_and_are_doubted_as_rooflines_of_anything():
    gpu = Roofline(
        bandwidth=8e12,
        peaks=Peaks(bf16=2.5e15, fp4=1e16),
        gemm=Gemm(fp4=Fp4Gemm(efficiency=0.5)),
        chip=Chip(processors=148, clock=2e9, cache=1.3e8),
        kernels="nvidia",
    )
    works = [gemm_work("x", 8192, 8192, 8192, dtype, 2) for dtype in ("fp4", "bf16")]
    ops = Ops.of(
        flop=works[0].flop, bytes=0.0, signature=[0, 1],
        signatures=tuple(w.signature for w in works),
    )  # fmt: skip
    told = gpu.timing(ops)
    assert told.fixed[0] == pytest.approx(2 * 8192**3 / 5e15, rel=1e-6)
    assert [told.doubt[row].family for row in (0, 1)] == ["roofline", "product"]
