"""What torch can be asked to do: one builder for each op of the allow-list.

A builder is given torch, a maker of tensors and the parts of the signature, and returns a call
without arguments.  Values are such that an in-place op may be repeated: nothing grows or fades.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..sim.errors import DriverFault
from ..sim.signature import Operand, Signature

Call = Callable[[], object]
DTYPES = {  # of a signature: of torch
    "fp64": "float64", "fp32": "float32", "fp16": "float16", "bf16": "bfloat16",
    "int64": "int64", "int32": "int32", "int16": "int16", "int8": "int8", "uint8": "uint8",
    "bool": "bool",
}  # fmt: skip


@dataclass(frozen=True)
class Asked:
    """One op to be built.

    Parameters
    ----------
    torch : the module
    device : where its tensors are
    parts : of the signature
    stride : of a convolution; 0 where nobody said
    """

    torch: Any
    device: Any
    parts: Signature
    stride: int = 0

    @property
    def tensors(self) -> list[Any]:
        """One for each operand: values around 1, indices all valid."""
        return [self.tensor(o) for o in self.parts.operands]

    def tensor(self, operand: Operand, device: Any = None) -> Any:
        """One operand."""
        name = DTYPES.get(operand.dtype)
        if name is None:
            raise self.refusal(f"torch has no {operand.dtype}")
        dtype = TYPES(self.torch)[name]
        where = self.device if device is None else device
        if operand.dtype in ("int64", "int32", "int16", "int8", "uint8", "bool"):
            return self.torch.zeros(operand.shape, dtype=dtype, device=where)
        made = self.torch.rand(operand.shape, device=where, dtype=self.torch.float32) + 0.5
        return made.to(dtype)

    def refusal(self, why: str) -> DriverFault:
        """What is wrong with this op."""
        return DriverFault("unsupported", f"{self.parts}: {why}")

    def need(self, count: int) -> list[Any]:
        """The tensors, when there are as many as the op takes."""
        if len(self.parts.operands) < count:
            raise self.refusal(f"has {len(self.parts.operands)} operands, needs {count}")
        return self.tensors


def TYPES(torch: Any) -> Mapping[str, Any]:  # noqa: N802  a table that needs torch
    """Element types by name."""
    return {
        "float64": torch.float64, "float32": torch.float32, "float16": torch.float16,
        "bfloat16": torch.bfloat16, "int64": torch.int64, "int32": torch.int32,
        "int16": torch.int16, "int8": torch.int8, "uint8": torch.uint8, "bool": torch.bool,
    }  # fmt: skip


Builder = Callable[[Asked], Call]


def _plain(function: Callable[[Any], Callable[..., object]], count: int) -> Builder:
    """An op that takes its tensors and nothing else."""

    def build(a: Asked) -> Call:
        tensors, does = a.need(count)[:count], function(a.torch)
        return lambda: does(*tensors)

    return build


def _with_number(function: Callable[[Any], Callable[..., object]], number: float) -> Builder:
    """An elementwise op of two tensors, or of one and a number."""

    def build(a: Asked) -> Call:
        first, *rest = a.need(1)
        does = function(a.torch)
        other = rest[0].fill_(number) if rest else number
        return lambda: does(first, other)

    return build


def _lerp(a: Asked) -> Call:
    x, y = a.need(2)[:2]
    return lambda: x.lerp_(y, 0.1)


def _addcdiv(a: Asked) -> Call:
    x, y, z = a.need(3)[:3]
    return lambda: x.addcdiv_(y, z, value=0.0)


def _addcmul(a: Asked) -> Call:
    x, y, z = a.need(3)[:3]
    return lambda: x.addcmul_(y, z, value=0.0)


def _threshold_backward(a: Asked) -> Call:
    x, y = a.need(2)[:2]
    return lambda: a.torch.ops.aten.threshold_backward(x, y, 0)


def _cat(a: Asked) -> Call:
    tensors = a.need(1)
    return lambda: a.torch.cat(tensors)


def _sum(a: Asked) -> Call:
    (x,) = a.need(1)[:1]
    return lambda: x.sum(0, keepdim=True) if x.dim() > 1 else x.sum()


def _softmax(name: str) -> Builder:
    def build(a: Asked) -> Call:
        (x,) = a.need(1)[:1]
        aten = a.torch.ops.aten
        does = aten._log_softmax if name == "log" else aten._softmax
        return lambda: does(x, -1, False)

    return build


def _log_softmax_backward(a: Asked) -> Call:
    x, y = a.need(2)[:2]
    return lambda: a.torch.ops.aten._log_softmax_backward_data(x, y, -1, x.dtype)


def _nll_loss(a: Asked) -> Call:
    x, target = a.need(2)[:2]
    return lambda: a.torch.ops.aten.nll_loss_forward(x, target, None, 1, -100)


def _addmm(a: Asked) -> Call:
    bias, x, y = a.need(3)[:3]
    return lambda: a.torch.addmm(bias, x, y)


def _index_select(a: Asked) -> Call:
    table, at = a.need(2)[:2]
    _spread_indices(a, at, table.shape[0])
    return lambda: table.index_select(0, at)


def _embedding(a: Asked) -> Call:
    table, at = a.need(2)[:2]
    _spread_indices(a, at, table.shape[0])
    return lambda: a.torch.nn.functional.embedding(at, table)


def _embedding_backward(a: Asked) -> Call:
    gradient, at = a.need(2)[:2]
    rows = int(at.numel())
    _spread_indices(a, at, rows)
    return lambda: a.torch.ops.aten.embedding_dense_backward(gradient, at, rows, -1, False)


def _spread_indices(a: Asked, at: Any, rows: int) -> None:
    """Rows all over the table, the same on every run."""
    order = a.torch.arange(at.numel(), device=at.device) * 7919 % max(1, rows)
    at.copy_(order.reshape(at.shape))


def _attention(a: Asked) -> Call:
    q, k, v = a.need(3)[:3]
    does = a.torch.nn.functional.scaled_dot_product_attention
    return lambda: does(q, k, v, is_causal=True)


def _attention_backward(a: Asked) -> Call:
    gradient, q, k, v = a.need(4)[:4]
    aten = a.torch.ops.aten
    forward, backward = (
        aten._scaled_dot_product_flash_attention_for_cpu,
        aten._scaled_dot_product_flash_attention_for_cpu_backward,
    )
    out, stats = forward(q, k, v, 0.0, True)
    return lambda: backward(gradient, q, k, v, out, stats, 0.0, True)


def _convolution(a: Asked) -> Call:
    x, weight, *rest = a.need(2)
    stride, padding = _stride(a), [s // 2 for s in weight.shape[2:]]
    bias = rest[0] if rest else None
    steps, ones, zeros = [stride] * len(padding), [1] * len(padding), [0] * len(padding)
    groups = x.shape[1] // weight.shape[1]
    does = a.torch.convolution
    return lambda: does(x, weight, bias, steps, padding, ones, False, zeros, groups)


def _convolution_backward(a: Asked) -> Call:
    gradient, x, weight = a.need(3)[:3]
    padding = [s // 2 for s in weight.shape[2:]]
    stride = strides_between(x.shape, weight.shape, gradient.shape)
    if not stride:
        raise a.refusal("no stride with padding of half a kernel gives these shapes")
    steps, ones, zeros = [stride] * len(padding), [1] * len(padding), [0] * len(padding)
    mask, does = [True, True, False], a.torch.ops.aten.convolution_backward
    return lambda: does(gradient, x, weight, None, steps, padding, ones, False, zeros, 1, mask)


def _stride(a: Asked) -> int:
    if not a.stride:
        raise a.refusal("a signature does not tell the stride; say it as 'stride=2' after the name")
    return a.stride


def strides_between(x: tuple[int, ...], weight: tuple[int, ...], out: tuple[int, ...]) -> int:
    """The stride that leads from one shape to another with padding of half a kernel; 0 for none.

    >>> strides_between((8, 3, 64, 64), (64, 3, 7, 7), (8, 64, 32, 32))
    2
    """
    for stride in (1, 2, 3, 4, 8, 14, 16, 32):
        sizes = [
            (n + 2 * (k // 2) - k) // stride + 1 for n, k in zip(x[2:], weight[2:], strict=True)
        ]
        if tuple(sizes) == tuple(out[2:]):
            return stride
    return 0


def _batch_norm(a: Asked) -> Call:
    x, weight, bias, mean, variance = a.need(5)[:5]
    does = a.torch.native_batch_norm
    return lambda: does(x, weight, bias, mean, variance, True, 0.1, 1e-5)


def _batch_norm_backward(a: Asked) -> Call:
    gradient, x, weight, *rest = a.need(5)
    mean, variance = rest[:2]
    saved = [*rest, mean, variance][-2:]
    does = a.torch.ops.aten.native_batch_norm_backward
    mask = [True, True, True]
    return lambda: does(gradient, x, weight, mean, variance, *saved, True, 1e-5, mask)


def _layer_norm(a: Asked) -> Call:
    x, weight, bias = a.need(3)[:3]
    return lambda: a.torch.native_layer_norm(x, weight.shape, weight, bias, 1e-5)


def _layer_norm_backward(a: Asked) -> Call:
    gradient, x, *_ = a.need(2)
    width = [x.shape[-1]]
    weight, bias = (a.torch.ones(width, dtype=x.dtype, device=x.device) for _ in range(2))
    _, mean, scale = a.torch.native_layer_norm(x, width, weight, bias, 1e-5)
    does, mask = a.torch.ops.aten.native_layer_norm_backward, [True, True, True]
    return lambda: does(gradient, x, width, mean, scale, weight, bias, mask)


def _pool(a: Asked) -> Call:
    (x,) = a.need(1)[:1]
    does = a.torch.ops.aten.max_pool2d_with_indices
    return lambda: does(x, [3, 3], [2, 2], [1, 1])


def _pool_backward(a: Asked) -> Call:
    gradient, x = a.need(2)[:2]
    _, at = a.torch.ops.aten.max_pool2d_with_indices(x, [3, 3], [2, 2], [1, 1])
    does = a.torch.ops.aten.max_pool2d_with_indices_backward
    return lambda: does(gradient, x, [3, 3], [2, 2], [1, 1], [1, 1], False, at)


def _copied(source: str, target: str) -> Builder:
    """A copy between a host (``h``) and the device (``d``)."""

    def build(a: Asked) -> Call:
        (operand,) = a.parts.operands[:1] or (None,)
        if operand is None:
            raise a.refusal("says not what is copied")
        places = {"h": a.torch.device("cpu"), "d": a.device}
        x, y = (a.tensor(operand, places[p]) for p in (source, target))
        return lambda: y.copy_(x)

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
    "scaled_dot_product_attention": _attention,
    "_scaled_dot_product_flash_attention_for_cpu": _attention,
    "_scaled_dot_product_flash_attention_for_cpu_backward": _attention_backward,
    "convolution": _convolution,
    "mkldnn_convolution": _convolution,
    "cudnn_convolution": _convolution,
    "_slow_conv2d_forward": _convolution,
    "convolution_backward": _convolution_backward,
    "_slow_conv2d_backward": _convolution_backward,
    "native_batch_norm": _batch_norm,
    "native_batch_norm_backward": _batch_norm_backward,
    "native_layer_norm": _layer_norm,
    "native_layer_norm_backward": _layer_norm_backward,
    "max_pool2d_with_indices": _pool,
    "max_pool2d_with_indices_backward": _pool_backward,
}
COPIES = {f"copy:{a}2{b}": _copied(a, b) for a in "hd" for b in "hd"}
BUILDERS: dict[str, Builder] = {
    **{f"compute:aten::{name}": _plain(*how) for name, how in PLAIN.items()},
    **{f"compute:aten::{name}": _with_number(*how) for name, how in NUMBERED.items()},
    **{f"compute:aten::{name}": build for name, build in OTHERS.items()},
    **COPIES,
}
