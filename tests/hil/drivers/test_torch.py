"""The torch driver: every op on its list is done; what it cannot do says why."""

import numpy as np
import pytest
from foretrace.hil import sample_checks
from foretrace.hil.driver import Missing, Ready, signature_head
from foretrace.hil.driver_registry import make_driver
from foretrace.hil.drivers.pytorch.torch_device import TorchDriver
from foretrace.hil.drivers.pytorch.torch_layers import strides_between
from foretrace.hil.drivers.pytorch.torch_ops import BUILDERS
from foretrace.hil.sample import Request
from foretrace.sim.errors import DriverFault

try:
    import torch
except ImportError:
    torch = None
needs_torch = pytest.mark.skipif(torch is None, reason="needs torch, which an extra brings")

X, W = "fp32[2x4x8x8]", "fp32[4x4x3x3]"
C, M = " ".join(["fp32[4]"] * 4), "fp32[8x16]"
ONE_EACH = {
    "mm": "fp32[4x8] fp32[8x2]", "bmm": "fp32[2x4x8] fp32[2x8x3]", "matmul": "fp32[4x8] fp32[8x2]",
    "linear": "fp32[4x8] fp32[2x8]", "addmm": "fp32[2] fp32[4x8] fp32[8x2]",
    "sqrt": M, "gelu": M, "relu": M, "relu_": M, "silu": M, "clone": M, "zero_": M, "fill_": M,
    "clamp_min_": M, "sum": M, "_softmax": M, "_log_softmax": M, "cat": f"{M} {M}",
    "lerp_": f"{M} {M}", "addcdiv_": f"{M} {M} {M}", "addcmul_": f"{M} {M} {M}",
    "nll_loss_forward": "fp32[8x16] int64[8]", "index_select": "fp32[100x4] int64[7]",
    "embedding": "fp32[100x4] int64[2x7]", "embedding_dense_backward": "fp32[7x4] int64[7]",
    "convolution": f"{X} {W}", "mkldnn_convolution": f"{X} {W}", "cudnn_convolution": f"{X} {W}",
    "_slow_conv2d_forward": f"{X} {W}", "convolution_backward": f"{X} {X} {W}",
    "_slow_conv2d_backward": f"{X} {X} {W}", "native_batch_norm": f"{X} {C}",
    "native_batch_norm_backward": f"{X} {X} {C} fp32[4]",
    "native_layer_norm": "fp32[2x3x16] fp32[16] fp32[16]",
    "native_layer_norm_backward": "fp32[2x3x16] fp32[2x3x16] fp32[2x3x1] fp32[2x3x1] fp32[16]",
    "max_pool2d_with_indices": X, "max_pool2d_with_indices_backward": f"fp32[2x4x4x4] {X}",
    "scaled_dot_product_attention": " ".join(["fp32[1x2x4x8]"] * 3),
    "_scaled_mm": "fp8[32x64] fp8[64x16]", "_fused_adamw_": M, "linalg_vector_norm": M, "mean": X,
    "fused_experts": "fp32[8x16] fp32[4x16x16] fp32[4x16x8] int64[8x2]",
    "rms_norm": f"{M} fp32[16]", "rms_norm_backward": f"{M} {M} fp32[16]",
    "silu_and_mul": M, "silu_and_mul_backward": f"fp32[8x8] {M}",
    "rotary_embedding": "fp32[8x256] fp32[8x128]",
    "flash_attention": " ".join(["fp32[1x2x4x8]"] * 3),
    "attention_backward": " ".join(["fp32[1x2x4x8]"] * 6),
    "_scaled_dot_product_flash_attention": " ".join(["bf16[1x2x32x64]"] * 3),
    "_scaled_dot_product_flash_attention_backward": " ".join(["bf16[1x2x32x64]"] * 4),
    "_scaled_dot_product_flash_attention_for_cpu": " ".join(["fp32[1x2x4x8]"] * 3),
    "_scaled_dot_product_flash_attention_for_cpu_backward": " ".join(["fp32[1x2x4x8]"] * 4),
}  # fmt: skip
OF_GPUS = {f"compute:aten::{name}" for name in ONE_EACH if name.startswith("_scaled") and
           "cpu" not in name}  # fmt: skip
OF_CPUS = {op for op in BUILDERS if "_for_cpu" in op or op == "copy:h2h"}


def signature(op: str) -> str:
    """One for each op of the list; two operands of one shape where nothing else is due."""
    name = op.rpartition("::")[2]
    stride = " stride=2" if "conv" in name and "backward" not in name else ""
    return f"{op}{stride} {ONE_EACH.get(name, f'{M} {M}')}"


@pytest.fixture(scope="module")
def device():
    driver = make_driver("torch")
    driver.open(
        {"memory": True, "graphs": {"two": [signature("compute:aten::mm"), "copy:h2d fp32[8]"]}}
    )
    yield driver
    driver.close()


def test_without_torch_it_is_missing_with_its_cure(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    state = TorchDriver().probe()
    assert isinstance(state, Missing)
    assert (state.kind, state.reason) == ("missing", "import of torch halted; none in sys.modules")
    assert "agents.yaml" in state.cure
    with pytest.raises(DriverFault, match=r"missing: .*pip install torch"):
        TorchDriver().open({})


@needs_torch
def test_the_torch_probe_multiplies_two_matrices():
    state = TorchDriver().probe()
    assert isinstance(state, Ready)
    assert state.devices[0] == "cpu"


@needs_torch
@pytest.mark.parametrize("op", sorted(set(BUILDERS) - OF_GPUS))
def test_every_op_on_its_list_is_done_and_timed(device, op):
    asked = [Request(signature(op), 2)]
    samples = device.timing(asked)
    sample_checks.check_samples(asked, samples, "torch", "cpu")
    assert signature_head(samples[0].signature) == op


@needs_torch
def test_a_recorded_graph_is_done_as_one_op(device):
    (whole,) = device.timing([Request("compute:graph two", 3)])
    assert whole.ns.min() > 0
    with pytest.raises(DriverFault, match="no graph named 'three'; setting graphs has two"):
        device.timing([Request("compute:graph three")])


@needs_torch
def test_repeating_an_op_in_place_changes_nothing(device):
    for op in ("mul_", "add_", "div_", "lerp_", "addcdiv_", "relu_"):
        name = signature(f"compute:aten::{op}")
        device.timing([Request(name, 50)])
        values = [c.cell_contents for c in device.calls[name].__closure__ or ()]
        tensors = [v for v in values if isinstance(v, torch.Tensor)]
        assert all(torch.isfinite(t).all() and t.abs().max() < 10 for t in tensors)


@needs_torch
def test_peak_memory_is_that_of_the_outputs(device):
    (sample,) = device.timing([Request("compute:aten::mm fp32[64x32] fp32[32x16]")])
    assert sample.facts["memory_peak"] == 64 * 16 * 4


@needs_torch
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("compute:aten::mm fp32[2x3] fp32[4x5]", "torch says"),
        ("compute:aten::mm fp32[2x3]", "has 1 operands, needs 2"),
        ("compute:aten::mm complex64[2x3] complex64[3x2]", "torch has no complex64"),
        ("compute:aten::convolution fp32[1x1x4x4] fp32[1x1x3x3]", "the signature has no stride"),
        (
            "compute:aten::convolution_backward fp32[1x1x9x9] fp32[1x1x4x4] fp32[1x1x3x3]",
            "no stride",
        ),
        ("compute:aten::mm fp32[999999x999999] fp32[999999x1]", "34359738368 B are allowed"),
    ],
)
def test_what_it_cannot_do_says_why(device, name, said):
    with pytest.raises(DriverFault, match=f"unsupported: {name.split(' ')[0]}.*{said}"):
        device.timing([Request(name)])


@needs_torch
def test_a_device_that_is_not_there_is_missing():
    with pytest.raises(DriverFault, match="missing: no device 'cuda:9'; there are"):
        TorchDriver().open({"device": "cuda:9"})


@pytest.mark.hardware("torch:cuda")
def test_an_accelerator_is_timed_by_events():
    driver = TorchDriver()
    driver.open({"device": "cuda:0", "memory": True})
    asked = [Request("compute:aten::mm bf16[2048x2048] bf16[2048x2048]", 20)]
    samples = driver.timing(asked)
    driver.close()
    sample_checks.check_samples(asked, samples, "torch", "device")
    assert 0 < np.median(samples[0].ns) < 1e6


@pytest.mark.hardware("torch:cuda")
@pytest.mark.parametrize("op", sorted(set(BUILDERS) - OF_CPUS))
def test_every_op_on_its_list_is_done_on_an_accelerator(op):
    driver = TorchDriver()
    try:
        driver.open({"device": "cuda:0"})
        asked = [Request(signature(op), 2)]
        sample_checks.check_samples(asked, driver.timing(asked), "torch", "device")
    finally:
        driver.close()


def test_a_stride_is_what_leads_from_shape_to_shape():
    assert strides_between((1, 1, 8, 8), (1, 1, 3, 3), (1, 1, 8, 8)) == 1
    assert strides_between((1, 1, 8, 8), (1, 1, 1, 1), (1, 1, 4, 4)) == 2
    assert strides_between((1, 1, 8, 8), (1, 1, 3, 3), (1, 1, 5, 5)) == 0
