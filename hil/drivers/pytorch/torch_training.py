"""Builders for ops of described training steps: updates, norms, gradients, fp8 GEMMs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import torch_layers as layers
from .torch_language import build_rotary_embedding, build_silu_and_mul, compiled
from .torch_tensors import Builder, Call, TorchOp

FP8_LARGEST = 448.0  # of float8_e4m3fn


def build_fused_adamw(op: TorchOp) -> Call:
    """Fused AdamW update of one tensor; the learning rate is zero, so that repeats are equal."""
    (weights,) = op.operands(1)[:1]
    torch = op.torch
    gradients, first, second = (torch.full_like(weights, 1e-3) for _ in range(3))
    steps = torch.ones((), device=op.device)
    does = torch._fused_adamw_

    def fused_adamw() -> None:
        does([weights], [gradients], [first], [second], [], [steps], lr=0.0, beta1=0.9, beta2=0.95,
             weight_decay=0.0, eps=1e-8, amsgrad=False, maximize=False)  # fmt: skip

    return fused_adamw


def build_vector_norm(op: TorchOp) -> Call:
    """Euclidean norm of one tensor."""
    (x,) = op.operands(1)[:1]
    return lambda: op.torch.linalg.vector_norm(x)


def build_mean(op: TorchOp) -> Call:
    """Mean over the pixels of images, or over all numbers of another tensor."""
    (x,) = op.operands(1)[:1]
    axes = [2, 3] if x.dim() == 4 else list(range(x.dim()))
    return lambda: x.mean(axes)


def build_fused_attention_backward(op: TorchOp) -> Call:
    """Gradients of attention by the program that torch chooses; grouped heads are expanded."""
    gradient, q, k, v = op.operands(4)[:4]
    with op.torch.enable_grad():
        asked = [t.requires_grad_() for t in (q, k, v)]
        out = layers.attention_call(op, q, k, v)()
    return lambda: op.torch.autograd.grad(out, asked, gradient, retain_graph=True)


def build_rms_norm(op: TorchOp) -> Call:
    """RMS norm over the last dimension, by torch's own kernel."""
    x, weight = op.operands(2)[:2]
    norm = op.torch.nn.functional.rms_norm
    return lambda: norm(x, (x.shape[-1],), weight, 1e-5)


def build_rms_norm_backward(op: TorchOp) -> Call:
    """Gradients of RMS norm's input and weight, by torch's own kernels."""
    gradient, x, weight = op.operands(3)[:3]
    torch = op.torch
    with torch.enable_grad():
        asked = [t.requires_grad_() for t in (x, weight)]
        out = torch.nn.functional.rms_norm(x, (x.shape[-1],), weight, 1e-5)
    return lambda: torch.autograd.grad(out, asked, gradient, retain_graph=True)


def build_silu_and_mul_backward(op: TorchOp) -> Call:
    """Gradients of SiLU of a gate times a value, as one compiled kernel."""
    gradient, both = op.operands(2)[:2]
    torch = op.torch

    def silu_and_mul_backward(gradient: Any, both: Any) -> Any:
        gate, value = both.chunk(2, dim=-1)
        opened = torch.sigmoid(gate)
        by_gate = gradient * value * opened * (1 + gate * (1 - opened))
        return torch.cat([by_gate, gradient * gate * opened], dim=-1)

    return compiled(op, silu_and_mul_backward, gradient, both)


def build_scaled_mm(op: TorchOp) -> Call:
    """Scaled fp8 GEMM with one scale per operand; the second operand is column-major.

    Unless the signature has ``quantized=1``, its first operand is quantized before, by the largest
    number that it has now. ``fast_accum=1`` adds up with less precision.
    """
    x, y = op.operands(2)[:2]
    torch, fast = op.torch, op.parts.attributes.get("fast_accum") == "1"
    columns, one = y.t().contiguous().t(), torch.ones((), device=op.device)
    does, result = torch._scaled_mm, torch.bfloat16

    def product(x: Any, scale: Any) -> Any:
        return does(x, columns, scale_a=scale, scale_b=one, out_dtype=result, use_fast_accum=fast)

    if op.parts.attributes.get("quantized") == "1":
        return lambda: product(x, one)
    dtype = x.dtype
    wide = x.to(result)

    def quantize(wide: Any) -> tuple[Any, Any]:
        scale = wide.abs().amax().float() / FP8_LARGEST
        return (wide.float() / scale).clamp(-FP8_LARGEST, FP8_LARGEST).to(dtype), scale

    scaled: Callable[[], Any] = compiled(op, quantize, wide)
    return lambda: product(*scaled())


TRAINING_OPS: dict[str, Builder] = {
    "compute:aten::_fused_adamw_": build_fused_adamw,
    "compute:aten::linalg_vector_norm": build_vector_norm,
    "compute:aten::mean": build_mean,
    "compute:aten::_scaled_mm": build_scaled_mm,
    "compute:aten::rms_norm": build_rms_norm,
    "compute:aten::rms_norm_backward": build_rms_norm_backward,
    "compute:aten::silu_and_mul": build_silu_and_mul,
    "compute:aten::silu_and_mul_backward": build_silu_and_mul_backward,
    "compute:aten::rotary_embedding": build_rotary_embedding,
    "compute:fused::flash_attention": layers.build_attention,
    "compute:fused::attention_backward": build_fused_attention_backward,
}
