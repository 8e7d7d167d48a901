"""Flop and bytes of recorded operators: as torch counts them, as shapes say, unknown elsewhere."""

import json
from math import isnan
from pathlib import Path

import foretrace
import numpy as np
import pytest
from foretrace.sim.facts.ops import Kind
from foretrace.traces.formats import kineto, native
from foretrace.traces.infer.op_work import OpWork, is_gemm_kernel, kernel_share_of_work, op_work

DATA = Path(foretrace.__file__).parent / "traces" / "data"
IMAGES, FILT = [8, 64, 16, 16], [128, 64, 3, 3]
GRAD = [8, 128, 8, 8]  # of a convolution of those with padding 1 and stride 2
CONV = 75_497_472
HEADS = [2, 4, 16, 32]


def called(name, shapes, settings=None, dtype="float"):
    """Work of a call whose tensors come first; settings by their position."""
    many = max([len(shapes), *(i + 1 for i in settings or {})])
    scalars = ["" if i < len(shapes) else (settings or {}).get(i, "") for i in range(many)]
    padded = [*shapes, *([[]] * (many - len(shapes)))]
    dtypes = [dtype] * len(shapes) + ["Scalar"] * (many - len(shapes))
    return op_work(name, json.dumps(padded), json.dumps(dtypes), json.dumps(scalars))


# torch.utils.flop_counter of torch 2.13 on the same calls; the last test counts them again
COUNTED = [
    ("aten::mm", [[256, 512], [512, 128]], {}, 33_554_432),
    ("aten::addmm", [[128], [256, 512], [512, 128]], {}, 33_554_432),
    ("aten::bmm", [[4, 64, 32], [4, 32, 16]], {}, 262_144),
    ("aten::mkldnn_convolution", [IMAGES, FILT], {3: "[1, 1]", 4: "[2, 2]", 5: "[1, 1]"}, CONV),
    ("aten::_slow_conv2d_forward", [IMAGES, [32, 64, 1, 1]], {4: "[1, 1]", 5: "[0, 0]"}, 8_388_608),
    ("aten::convolution_backward", [GRAD, IMAGES, FILT], {10: "[True, True, False]"}, 2 * CONV),
    ("aten::convolution_backward", [GRAD, IMAGES, FILT], {10: "[False, True, False]"}, CONV),
    ("aten::_scaled_dot_product_flash_attention_for_cpu", [HEADS] * 3, {}, 262_144),
    ("aten::_scaled_dot_product_flash_attention_for_cpu_backward", [HEADS] * 4, {}, 655_360),
]  # fmt: skip


@pytest.mark.parametrize(("name", "shapes", "settings", "flop"), COUNTED)
def test_flop_are_those_that_torch_counts(name, shapes, settings, flop):
    assert called(name, shapes, settings).flop == flop


def test_torch_still_counts_the_same_flop():
    torch = pytest.importorskip("torch")
    from torch.utils.flop_counter import (
        FlopCounterMode,
        sdpa_backward_flop_count,
        sdpa_flop_count,
    )

    def counted(call):
        with FlopCounterMode(display=False) as mode:
            call()
        return mode.get_total_flops()

    def made(*shape, grad=False):
        return torch.zeros(*shape, requires_grad=grad)

    x, w = made(*IMAGES, grad=True), made(*FILT, grad=True)
    conv = torch.nn.functional.conv2d
    assert [
        counted(lambda: torch.mm(made(256, 512), made(512, 128))),
        counted(lambda: torch.addmm(made(128), made(256, 512), made(512, 128))),
        counted(lambda: torch.bmm(made(4, 64, 32), made(4, 32, 16))),
        counted(lambda: conv(x, w, padding=1, stride=2)),
        counted(lambda: conv(x, made(32, 64, 1, 1))),
        counted(lambda: conv(x, w, padding=1, stride=2).sum().backward()) - CONV,
        counted(lambda: conv(x.detach(), w, padding=1, stride=2).sum().backward()) - CONV,
        sdpa_flop_count(HEADS, HEADS, HEADS),  # it does not see the operator of processors
        sdpa_backward_flop_count(HEADS, HEADS, HEADS, HEADS),
    ] == [flop for *_, flop in COUNTED]


@pytest.mark.parametrize(
    ("name", "shapes", "moved"),
    [
        ("aten::mm", [[4, 8], [8, 2]], 4 * (32 + 16 + 8)),
        ("aten::add_", [[100], [100]], 4 * 300),
        ("aten::add", [[4, 64, 256], [64, 256]], 4 * (2 * 65536 + 16384)),
        ("aten::copy_", [[100], [100]], 4 * 200),
        ("aten::zero_", [[100]], 4 * 100),
        ("aten::_log_softmax", [[10, 10]], 4 * 200),
    ],
)
def test_bytes_are_those_of_every_tensor_once(name, shapes, moved):
    assert called(name, shapes).bytes == moved


SDPA = "aten::_scaled_dot_product_{}"


@pytest.mark.parametrize(
    ("name", "tensors", "place"),
    [
        ("flash_attention_for_cpu", 3, 4), ("flash_attention_for_cpu_backward", 6, 7),
        ("flash_attention", 3, 4), ("flash_attention_backward", 6, 11),
        ("efficient_attention", 3, 6), ("efficient_attention_backward", 6, 11),
    ],
)  # fmt: skip
def test_a_causal_mask_leaves_half_of_the_scores(name, tensors, place):
    full, masked = (
        called(SDPA.format(name), [HEADS] * tensors, {place: told}) for told in ("False", "True")
    )
    assert (masked.flop, masked.bytes) == (full.flop / 2, full.bytes)


@pytest.mark.parametrize(
    ("name", "shapes", "settings", "moved"),
    [
        ("native_batch_norm", [IMAGES, [64]], {}, 3 * 4 * 8 * 64 * 256 + 4 * 64),
        ("native_batch_norm_backward", [IMAGES, IMAGES, [64]], {}, 5 * 4 * 8 * 64 * 256 + 4 * 64),
        ("sum", [[10, 20]], {1: "[0]"}, 4 * (200 + 20)),
        ("mul", [[100], [], [100]], {}, 4 * 201),  # the last one is where the result is put
        ("topk", [[4, 16]], {1: "3"}, 4 * 64 + 12 * 12),
        ("max_pool2d_with_indices", [[1, 2, 8, 8]],
         {1: "[3, 3]", 2: "[2, 2]", 3: "[1, 1]", 4: "[1, 1]", 5: "False"}, 4 * 128 + 12 * 32),
        ("new_zeros", [[3, 4]], {1: "[5, 4]"}, 4 * 20),
    ],
)  # fmt: skip
def test_bytes_are_those_that_a_description_counts(name, shapes, settings, moved):
    assert called(f"aten::{name}", shapes, settings).bytes == moved


def test_element_types_have_their_width():
    assert called("aten::add_", [[8], [8]], dtype="c10::Half").bytes == 48


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("my::kernel", [[4]]),
        ("aten::mm", []),
        ("aten::mm", [[4, 8], [9, 2]]),
        ("aten::mkldnn_convolution", [IMAGES, FILT]),
        ("aten::add_", []),
        ("aten::_scaled_dot_product_flash_attention", [[4, 4]] * 3),
    ],
)
def test_an_operator_without_a_rule_has_unknown_work(name, shapes):
    assert all(map(isnan, called(name, shapes)))


def test_without_shapes_everything_is_unknown():
    assert all(map(isnan, op_work("aten::mm", "", "", "")))


RESNET = 8 * 3 * 2 * 4.09e9 * (64 / 224) ** 2
"""Eight images, three passes; 4.09e9 products of one at 224 x 224, as torchvision states."""
GPT = 256 * 6 * (4 * 12 * 256**2 + 2048 * 256) + 4 * 4 * 4 * 64**2 // 2 * 64 * 14
"""256 tokens, six flop a weight of layers and head; scores that a mask leaves: 2 x 2
forward, 2 x 5 backward."""


@pytest.mark.parametrize(("name", "expected"), [("resnet50", RESNET), ("gpt", GPT)])
def test_a_bundled_step_does_what_its_model_asks_for(name, expected):
    ops = native.read(DATA / name).graph().ops
    own = (ops.kind == Kind.COMPUTE) & np.isfinite(ops.flop)
    assert ops.duration[own].sum() > 0.98 * ops.duration[ops.kind == Kind.COMPUTE].sum()
    assert ops.flop[own].sum() / 10 == pytest.approx(expected, rel=0.01)


def test_kernels_that_multiply_share_the_work_and_the_others_move_one_tensor():
    whole = OpWork(8e6, 3e3)
    assert kernel_share_of_work(whole, 3, multiplies=True, multiplying_kernels=2, kernels=3) == (
        4e6,
        1.5e3,
    )
    assert kernel_share_of_work(whole, 3, multiplies=False, multiplying_kernels=2, kernels=3) == (
        0.0,
        2e3,
    )
    assert kernel_share_of_work(whole, 3, multiplies=False, multiplying_kernels=0, kernels=4) == (
        2e6,
        750.0,
    )
    assert kernel_share_of_work(
        OpWork(0.0, 3e3), 3, multiplies=False, multiplying_kernels=0, kernels=2
    ) == (0.0, 3e3)


@pytest.mark.parametrize(
    ("kernel", "products"),
    [
        ("volta_sgemm_128x32_nt", True),
        ("void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_64x64_32x6_tn_align4>(Params)", True),
        ("Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x32x64", True),
        ("void cudnn::detail::dgrad_engine<float, 512, 6, 5, 3, 3, 3, false>(int)", True),
        ("void splitKreduce_kernel<32, 16, int, float>(cublasSplitKParams<float>)", False),
        ("batched_transpose_32x32_half", False),
        ("void cudnn::winograd_nonfused::winogradForwardData4x4<float, float>(Params)", False),
        ("SubTensorOpWithScalar1d", False),
    ],
)
def test_kernel_names_distinguish_gemms_from_layout_transposes(kernel, products):
    assert is_gemm_kernel(kernel) == products


def test_a_scaled_product_counts_its_first_two_operands():
    shapes, types = (
        "[[4, 8], [8, 16], [], []]",
        '["c10::Float8_e4m3fn", "c10::Float8_e4m3fn", "float", "float"]',
    )
    assert op_work("aten::_scaled_mm", shapes, types, "").flop == 2 * 4 * 8 * 16


def test_gradients_of_a_convolution_by_cudnn_count_one_product_each():
    shapes = "[[], [2, 8, 5, 5], [8, 4, 3, 3]]"
    types = '["ScalarList", "float", "float"]'
    flop = 2 * 2 * 25 * 8 * 4 * 9
    assert op_work("aten::cudnn_convolution_backward_input", shapes, types, "").flop == flop
    shapes = "[[], [2, 8, 5, 5], [2, 4, 5, 5]]"
    told = '["[8, 4, 3, 3]"]'
    assert op_work("aten::cudnn_convolution_backward_weight", shapes, types, told).flop == flop


def recorded(script, folder, *called, dtype="float"):
    """Kernels of a trace of (operator, shapes, kernel) one after another, without scalars."""
    s = script(deviceProperties=[{"name": "A GPU"}])
    for at, (name, shapes, kernels) in enumerate(called):
        told = {"Input Dims": shapes, "Input type": [dtype] * len(shapes)} if shapes else {}
        s.op(name, 1000 * at, 500, **told)
        for i, kernel in enumerate(kernels):
            begin = 1000 * at + 100 * i
            s.launch(begin + 10, begin + 20, 80, name=kernel)
    ops = kineto.read([str(s.write(folder))]).graph().ops
    return ops.take_with_placement(
        np.flatnonzero((ops.kind == Kind.COMPUTE) & (ops.signature >= 0))
    )


def test_products_on_tensor_cores_are_tf32_as_the_name_of_their_kernel_says(script, tmp_path):
    two = [[64, 64], [64, 64]]
    names = ["cutlass_80_tensorop_s1688gemm_64x64", "ampere_sgemm_32x32"]
    ops = recorded(script, tmp_path, *(("aten::mm", two, [name]) for name in names))
    assert [ops.signature_text(i) for i in range(2)] == [
        "compute:aten::mm tf32[64x64] tf32[64x64]", "compute:aten::mm fp32[64x64] fp32[64x64]",
    ]  # fmt: skip


def test_a_list_of_tensors_is_one_operand_of_the_type_that_the_kernel_names(script, tmp_path):
    lists = [[[4, 1, 768], [4, 196, 768]]]
    kernels = [
        "void CatArrayBatchedCopy<OpaqueType<2u>, unsigned int, 3>(int)",
        "void cat<float>()",
    ]
    of = [("aten::cat", lists, [kernel]) for kernel in (*kernels, "no_template")]
    ops = recorded(script, tmp_path, *of, dtype="TensorList")
    assert [ops.signature_text(i) for i in range(3)] == [
        "compute:aten::cat int16[605184]", "compute:aten::cat fp32[605184]", "compute:aten::cat"
    ]  # fmt: skip


def test_two_lists_of_tensors_are_two_operands_and_an_empty_one_is_none(script, tmp_path):
    lists = [[[8], [4, 2]], [[8], [8]], []]
    kernel = "void multi_tensor_apply_kernel<TensorListMetadata<2>, Functor<c10::BFloat16> >(int)"
    ops = recorded(script, tmp_path, ("aten::_foreach_add_", lists, [kernel]), dtype="TensorList")
    assert ops.signature_text(0) == "compute:aten::_foreach_add_ bf16[16] bf16[16]"


def test_a_convolution_without_its_stride_is_as_large_as_its_gradient_says(script, tmp_path):
    forward = ("aten::cudnn_convolution", [IMAGES, FILT], ["volta_scudnn_128x64", "offsetsKernel"])
    backward = ("aten::cudnn_convolution_backward", [IMAGES, GRAD, FILT], ["dgrad_engine"])
    ops = recorded(script, tmp_path, forward, backward)
    assert ops.flop[0] == CONV


def test_the_gradient_of_a_weight_counts_by_the_operands_of_the_operator_around_it():
    three = [IMAGES, GRAD, FILT]
    shapes, types = json.dumps(three), json.dumps(["float"] * 3)
    assert op_work("aten::cudnn_convolution_backward_weight", shapes, types, "").flop == CONV


def test_winograd_in_several_kernels_needs_a_quarter_of_the_products(script, tmp_path):
    kernels = ["winograd_nonfused::winogradForwardData4x4", "volta_sgemm_64x64_nn"]
    ops = recorded(script, tmp_path, ("aten::mm", [[64, 64], [64, 64]], kernels))
    assert ops.flop.tolist() == [0.0, 2 * 64**3 / 4]


def test_a_kernel_that_works_out_offsets_moves_nothing(script, tmp_path):
    kernels = ["cask_cudnn::computeOffsetsKernel(Params)", "volta_sgemm_64x64_nn"]
    ops = recorded(script, tmp_path, ("aten::mm", [[64, 64], [64, 64]], kernels))
    assert ops.bytes[0] == 0
