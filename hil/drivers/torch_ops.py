"""Allow-list of the torch driver: one builder for each op.

A builder takes a ``TorchOp`` and returns a callable without arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import torch_layers as layers
from .torch_tensors import Builder, Call, TorchOp


def _build_from_tensors(function: Callable[[Any], Callable[..., object]], count: int) -> Builder:
    """Builder of an op that takes ``count`` tensors."""

    def build(a: TorchOp) -> Call:
        tensors, does = a.operands(count)[:count], function(a.torch)
        return lambda: does(*tensors)

    return build


def _with_number(function: Callable[[Any], Callable[..., object]], number: float) -> Builder:
    """Builder of an elementwise op of two tensors, or of one tensor and a number."""

    def build(a: TorchOp) -> Call:
        first, *rest = a.operands(1)
        does = function(a.torch)
        other = rest[0].fill_(number) if rest else number
        return lambda: does(first, other)

    return build


def _lerp(a: TorchOp) -> Call:
    x, y = a.operands(2)[:2]
    return lambda: x.lerp_(y, 0.1)


def _addcdiv(a: TorchOp) -> Call:
    x, y, z = a.operands(3)[:3]
    return lambda: x.addcdiv_(y, z, value=0.0)


def _addcmul(a: TorchOp) -> Call:
    x, y, z = a.operands(3)[:3]
    return lambda: x.addcmul_(y, z, value=0.0)


def _threshold_backward(a: TorchOp) -> Call:
    x, y = a.operands(2)[:2]
    return lambda: a.torch.ops.aten.threshold_backward(x, y, 0)


def _cat(a: TorchOp) -> Call:
    tensors = a.operands(1)
    return lambda: a.torch.cat(tensors)


def _sum(a: TorchOp) -> Call:
    (x,) = a.operands(1)[:1]
    return lambda: x.sum(0, keepdim=True) if x.dim() > 1 else x.sum()


def _softmax(name: str) -> Builder:
    def build(a: TorchOp) -> Call:
        (x,) = a.operands(1)[:1]
        aten = a.torch.ops.aten
        does = aten._log_softmax if name == "log" else aten._softmax
        return lambda: does(x, -1, False)

    return build


def _log_softmax_backward(a: TorchOp) -> Call:
    x, y = a.operands(2)[:2]
    return lambda: a.torch.ops.aten._log_softmax_backward_data(x, y, -1, x.dtype)


def _nll_loss(a: TorchOp) -> Call:
    x, target = a.operands(2)[:2]
    return lambda: a.torch.ops.aten.nll_loss_forward(x, target, None, 1, -100)


def _addmm(a: TorchOp) -> Call:
    bias, x, y = a.operands(3)[:3]
    return lambda: a.torch.addmm(bias, x, y)


def _scaled_mm(a: TorchOp) -> Call:
    """Scaled fp8 product, one scale per operand, the second operand column-major."""
    x, y = a.operands(2)[:2]
    columns, one = y.t().contiguous().t(), a.torch.ones((), device=a.device)
    does, result = a.torch._scaled_mm, a.torch.bfloat16
    return lambda: does(x, columns, scale_a=one, scale_b=one, out_dtype=result)


def _index_select(a: TorchOp) -> Call:
    table, at = a.operands(2)[:2]
    _spread_indices(a, at, table.shape[0])
    return lambda: table.index_select(0, at)


def _embedding(a: TorchOp) -> Call:
    table, at = a.operands(2)[:2]
    _spread_indices(a, at, table.shape[0])
    return lambda: a.torch.nn.functional.embedding(at, table)


def _embedding_backward(a: TorchOp) -> Call:
    gradient, at = a.operands(2)[:2]
    rows = int(at.numel())
    _spread_indices(a, at, rows)
    return lambda: a.torch.ops.aten.embedding_dense_backward(gradient, at, rows, -1, False)


def _spread_indices(a: TorchOp, at: Any, rows: int) -> None:
    """Fill an index tensor with rows spread over the table, the same on every run."""
    order = a.torch.arange(at.numel(), device=at.device) * 7919 % max(1, rows)
    at.copy_(order.reshape(at.shape))


def _copied(source: str, target: str) -> Builder:
    """Builder of a copy between host (``h``) and device (``d``)."""

    def build(a: TorchOp) -> Call:
        (operand,) = a.parts.operands[:1] or (None,)
        if operand is None:
            raise a.refusal("says not what is copied")
        if (source, target, a.device.type) == ("h", "h", "cuda"):
            raise a.refusal("the host does it, no GPU; open the driver with device: cpu")
        places = {"h": a.torch.device("cpu"), "d": a.device}
        x, y = (a.tensor(operand, places[p]) for p in (source, target))
        if (
            source != target and a.device.type == "cuda"
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
    "addmm": _addmm,
    "lerp_": _lerp,
    "addcdiv_": _addcdiv,
    "addcmul_": _addcmul,
    "threshold_backward": _threshold_backward,
    "cat": _cat,
    "sum": _sum,
    "_softmax": _softmax("plain"),
    "_log_softmax": _softmax("log"),
    "_log_softmax_backward_data": _log_softmax_backward,
    "nll_loss_forward": _nll_loss,
    "index_select": _index_select,
    "embedding": _embedding,
    "embedding_dense_backward": _embedding_backward,
    "scaled_dot_product_attention": layers.attention,
    "_scaled_dot_product_flash_attention_for_cpu": layers.attention,
    "_scaled_dot_product_flash_attention_for_cpu_backward": layers.attention_backward,
    "_scaled_dot_product_flash_attention": layers.flash_attention,
    "_scaled_dot_product_flash_attention_backward": layers.flash_attention_backward,
    "_scaled_mm": _scaled_mm,
    "convolution": layers.convolution,
    "mkldnn_convolution": layers.convolution,
    "cudnn_convolution": layers.convolution,
    "_slow_conv2d_forward": layers.convolution,
    "convolution_backward": layers.convolution_backward,
    "_slow_conv2d_backward": layers.convolution_backward,
    "native_batch_norm": layers.batch_norm,
    "native_batch_norm_backward": layers.batch_norm_backward,
    "native_layer_norm": layers.layer_norm,
    "native_layer_norm_backward": layers.layer_norm_backward,
    "max_pool2d_with_indices": layers.pool,
    "max_pool2d_with_indices_backward": layers.pool_backward,
}
COPIES = {f"copy:{a}2{b}": _copied(a, b) for a in "hd" for b in "hd"}
BUILDERS: dict[str, Builder] = {
    **{f"compute:aten::{name}": _build_from_tensors(*how) for name, how in PLAIN.items()},
    **{f"compute:aten::{name}": _with_number(*how) for name, how in NUMBERED.items()},
    **{f"compute:aten::{name}": build for name, build in OTHERS.items()},
    **COPIES,
}
