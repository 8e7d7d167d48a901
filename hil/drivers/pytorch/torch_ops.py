"""Allow-list of the torch driver: one builder per op.

A builder takes a ``TorchOp`` and returns a function without arguments that executes the op.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import torch_layers as layers
from .torch_language import LANGUAGE_OPS
from .torch_tensors import Builder, Call, TorchOp
from .torch_training import TRAINING_OPS


def _build_from_tensors(function: Callable[[Any], Callable[..., object]], count: int) -> Builder:
    """Builder of an op that takes ``count`` tensors."""

    def build(op: TorchOp) -> Call:
        tensors, does = op.operands(count)[:count], function(op.torch)
        return lambda: does(*tensors)

    return build


def _build_with_number(function: Callable[[Any], Callable[..., object]], number: float) -> Builder:
    """Builder of an elementwise op of two tensors, or of one tensor and a number."""

    def build(op: TorchOp) -> Call:
        first, *rest = op.operands(1)
        does = function(op.torch)
        other = rest[0].fill_(number) if rest else number
        return lambda: does(first, other)

    return build


def _build_lerp(op: TorchOp) -> Call:
    x, y = op.operands(2)[:2]
    return lambda: x.lerp_(y, 0.1)


def _build_addcdiv(op: TorchOp) -> Call:
    x, y, z = op.operands(3)[:3]
    return lambda: x.addcdiv_(y, z, value=0.0)


def _build_addcmul(op: TorchOp) -> Call:
    x, y, z = op.operands(3)[:3]
    return lambda: x.addcmul_(y, z, value=0.0)


def _build_threshold_backward(op: TorchOp) -> Call:
    x, y = op.operands(2)[:2]
    return lambda: op.torch.ops.aten.threshold_backward(x, y, 0)


def _build_cat(op: TorchOp) -> Call:
    tensors = op.operands(1)
    return lambda: op.torch.cat(tensors)


def _build_sum(op: TorchOp) -> Call:
    (x,) = op.operands(1)[:1]
    return lambda: x.sum(0, keepdim=True) if x.dim() > 1 else x.sum()


def _softmax_builder(name: str) -> Builder:
    def build(op: TorchOp) -> Call:
        (x,) = op.operands(1)[:1]
        aten = op.torch.ops.aten
        does = aten._log_softmax if name == "log" else aten._softmax
        return lambda: does(x, -1, False)

    return build


def _build_log_softmax_backward(op: TorchOp) -> Call:
    x, y = op.operands(2)[:2]
    return lambda: op.torch.ops.aten._log_softmax_backward_data(x, y, -1, x.dtype)


def _build_nll_loss(op: TorchOp) -> Call:
    x, target = op.operands(2)[:2]
    return lambda: op.torch.ops.aten.nll_loss_forward(x, target, None, 1, -100)


def _build_addmm(op: TorchOp) -> Call:
    bias, x, y = op.operands(3)[:3]
    return lambda: op.torch.addmm(bias, x, y)


def _build_index_select(op: TorchOp) -> Call:
    table, at = op.operands(2)[:2]
    _spread_indices(op, at, table.shape[0])
    return lambda: table.index_select(0, at)


def _build_embedding(op: TorchOp) -> Call:
    table, at = op.operands(2)[:2]
    _spread_indices(op, at, table.shape[0])
    return lambda: op.torch.nn.functional.embedding(at, table)


def _build_embedding_backward(op: TorchOp) -> Call:
    gradient, at = op.operands(2)[:2]
    rows = int(at.numel())
    _spread_indices(op, at, rows)
    return lambda: op.torch.ops.aten.embedding_dense_backward(gradient, at, rows, -1, False)


def _spread_indices(op: TorchOp, at: Any, rows: int) -> None:
    """Fill an index tensor with row numbers spread over the table; the same in every run."""
    order = op.torch.arange(at.numel(), device=at.device) * 7919 % max(1, rows)
    at.copy_(order.reshape(at.shape))


def _copy_builder(source: str, target: str) -> Builder:
    """Builder of a copy between host (``h``) and device (``d``)."""

    def build(op: TorchOp) -> Call:
        (operand,) = op.parts.operands[:1] or (None,)
        if operand is None:
            raise op.unsupported_error("has no operand to copy; give one, such as uint8[4096]")
        if (source, target, op.device.type) == ("h", "h", "cuda"):
            raise op.unsupported_error("the host does it, no GPU; open the driver with device: cpu")
        places = {"h": op.torch.device("cpu"), "d": op.device}
        x, y = (op.tensor(operand, places[p]) for p in (source, target))
        if (
            source != target and op.device.type == "cuda"
        ):  # as data loaders do; else it is copied twice
            x, y = (t.pin_memory() if t.device.type == "cpu" else t for t in (x, y))
        return lambda: y.copy_(x, non_blocking=True)  # else the host waits inside what is timed

    return build


PLAIN: dict[str, tuple[Callable[[Any], Callable[..., object]], int]] = {
    "mm": (lambda t: t.mm, 2),
    "bmm": (lambda t: t.bmm, 2),
    "matmul": (lambda t: t.matmul, 2),
    "linear": (lambda t: t.nn.functional.linear, 2),
    "sqrt": (lambda t: t.sqrt, 1),
    "gelu": (lambda t: t.nn.functional.gelu, 1),
    "gelu_backward": (lambda t: t.ops.aten.gelu_backward, 2),
    "relu": (lambda t: t.relu, 1),
    "relu_": (lambda t: t.relu_, 1),
    "silu": (lambda t: t.nn.functional.silu, 1),
    "copy_": (lambda t: t.Tensor.copy_, 2),
    "clone": (lambda t: t.clone, 1),
    "zero_": (lambda t: t.Tensor.zero_, 1),
}
NUMBERED: dict[str, tuple[Callable[[Any], Callable[..., object]], float]] = {
    "add": (lambda t: t.add, 0.0),
    "add_": (lambda t: t.Tensor.add_, 0.0),
    "sub": (lambda t: t.sub, 0.0),
    "mul": (lambda t: t.mul, 1.0),
    "mul_": (lambda t: t.Tensor.mul_, 1.0),
    "div": (lambda t: t.div, 1.0),
    "div_": (lambda t: t.Tensor.div_, 1.0),
    "clamp_min_": (lambda t: t.clamp_min_, 0.0),
    "fill_": (lambda t: t.Tensor.fill_, 1.0),
}
OTHERS: dict[str, Builder] = {
    "addmm": _build_addmm,
    "lerp_": _build_lerp,
    "addcdiv_": _build_addcdiv,
    "addcmul_": _build_addcmul,
    "threshold_backward": _build_threshold_backward,
    "cat": _build_cat,
    "sum": _build_sum,
    "_softmax": _softmax_builder("plain"),
    "_log_softmax": _softmax_builder("log"),
    "_log_softmax_backward_data": _build_log_softmax_backward,
    "nll_loss_forward": _build_nll_loss,
    "index_select": _build_index_select,
    "embedding": _build_embedding,
    "embedding_dense_backward": _build_embedding_backward,
    "scaled_dot_product_attention": layers.build_attention,
    "_scaled_dot_product_flash_attention_for_cpu": layers.build_attention,
    "_scaled_dot_product_flash_attention_for_cpu_backward": layers.build_attention_backward,
    "_scaled_dot_product_flash_attention": layers.build_flash_attention,
    "_scaled_dot_product_flash_attention_backward": layers.build_flash_attention_backward,
    "convolution": layers.build_convolution,
    "mkldnn_convolution": layers.build_convolution,
    "cudnn_convolution": layers.build_convolution,
    "_slow_conv2d_forward": layers.build_convolution,
    "convolution_backward": layers.build_convolution_backward,
    "_slow_conv2d_backward": layers.build_convolution_backward,
    "native_batch_norm": layers.build_batch_norm,
    "native_batch_norm_backward": layers.build_batch_norm_backward,
    "native_layer_norm": layers.build_layer_norm,
    "native_layer_norm_backward": layers.build_layer_norm_backward,
    "max_pool2d_with_indices": layers.build_max_pool,
    "max_pool2d_with_indices_backward": layers.build_max_pool_backward,
}
COPIES = {f"copy:{a}2{b}": _copy_builder(a, b) for a in "hd" for b in "hd"}
BUILDERS: dict[str, Builder] = {
    **{f"compute:aten::{name}": _build_from_tensors(*how) for name, how in PLAIN.items()},
    **{f"compute:aten::{name}": _build_with_number(*how) for name, how in NUMBERED.items()},
    **{f"compute:aten::{name}": build for name, build in OTHERS.items()},
    **COPIES,
    **LANGUAGE_OPS,
    **TRAINING_OPS,
}
