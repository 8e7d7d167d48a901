"""What an op asks of a processor, read from its signature: arithmetic and bytes.

Also its family: ops that one fitted line may stand for.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache

from ...sim.signature import Operand, Signature, parse

STRIDE = re.compile(r"\bstride=(\d+)\b")
FAMILIES: dict[str, tuple[str, ...]] = {
    "gemm": ("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::linear"),
    "convolution": ("aten::convolution", "aten::mkldnn_convolution", "aten::cudnn_convolution"),
    "slow convolution": ("aten::_slow_conv2d_forward", "aten::_slow_conv2d_backward"),
    "convolution backward": ("aten::convolution_backward",),
    "attention": (
        "aten::_scaled_dot_product_flash_attention_for_cpu",
        "aten::_scaled_dot_product_flash_attention",
        "aten::scaled_dot_product_attention",
    ),
    "attention backward": (
        "aten::_scaled_dot_product_flash_attention_for_cpu_backward",
        "aten::_scaled_dot_product_flash_attention_backward",
    ),
    "norm": (
        "aten::native_batch_norm", "aten::native_layer_norm", "aten::_log_softmax",
        "aten::_softmax",
    ),
    "reduction": (
        "aten::sum", "aten::mean", "aten::max_pool2d_with_indices",
        "aten::max_pool2d_with_indices_backward",
    ),
    "norm backward": (
        "aten::native_batch_norm_backward", "aten::native_layer_norm_backward",
        "aten::_log_softmax_backward_data", "aten::_softmax_backward_data",
    ),
    "gelu": ("aten::gelu", "aten::gelu_backward", "aten::tanh", "aten::sigmoid", "aten::exp"),
}  # fmt: skip
MEMORY = ("copy:h2h", "host:read", "host:fill")
"""Ops of one core that do nothing but move bytes: one line fits all of them, a copy twice."""
_FAMILY = {name: family for family, names in FAMILIES.items() for name in names}
BACKWARD = 2.5  # flop of attention's gradients over its own: five products against two
PASSES = {"copy": 2.0}  # a copy reads and writes; other ops move their operands once


def family(signature: str) -> str:
    """The family of an op; an op of no family named above is elementwise, or its own kind.

    >>> family("compute:aten::addmm fp32[8] fp32[4x8] fp32[8x8]"), family("compute:aten::mul_")
    ('gemm', 'elementwise')
    >>> family("copy:h2h uint8[64]"), family("host:chase uint8[64]")
    ('memory', 'host:chase')
    """
    parts = parse(signature)
    name = op_name(signature)
    if parts.kind != "compute" or not name.startswith("aten::"):
        full = f"{parts.kind}:{name}"
        return "memory" if full in MEMORY else full
    return _FAMILY.get(name, "elementwise")


def op_name(signature: str) -> str:
    """The op without kind, attributes and operands.

    >>> op_name("compute:aten::convolution stride=2 fp32[1x3x8x8]")
    'aten::convolution'
    """
    return parse(signature).name.split(" ", 1)[0]


@lru_cache(maxsize=1 << 16)
def demand(signature: str) -> tuple[float, float]:
    """Flop and bytes of an op.

    Products and convolutions count two flop a multiply-add; what else there is counts none, its
    time goes with its bytes: operands, and a result as large as the largest of them.

    Examples
    --------
    >>> demand("compute:aten::mm fp32[2x3] fp32[3x4]")
    (48.0, 104.0)
    >>> demand("copy:h2h uint8[64]"), demand("compute:aten::mul_ fp32[8] fp32[8]")
    ((0.0, 128.0), (0.0, 96.0))
    """
    parts = parse(signature)
    sizes = [float(o.bytes) for o in parts.operands]
    if not parts.name.startswith("aten::"):
        return 0.0, PASSES.get(parts.kind, 1.0) * sum(sizes)
    kind = family(signature)
    if kind == "gemm":
        return _product(parts, sizes)
    if "convolution" in kind:
        return _convolution(parts, sizes)
    flop = _attention(parts, kind) if "attention" in kind else 0.0
    return flop, sum(sizes) + max(sizes, default=0.0)


def _product(parts: Signature, sizes: list[float]) -> tuple[float, float]:
    """Of the last two operands; the result's width is the last size of the last one."""
    a, b = parts.operands[-2:]
    if len(a.shape) < 2 or len(b.shape) < 2:
        return 0.0, sum(sizes)
    rows, columns = math.prod(a.shape[:-1]), b.shape[-1]
    result = rows * columns * sizes[-2] / max(math.prod(a.shape), 1)
    return 2.0 * rows * a.shape[-1] * columns, sum(sizes) + result


def _convolution(parts: Signature, sizes: list[float]) -> tuple[float, float]:
    """Multiply-adds at every output point; gradients are of the input and of the weights."""
    back = "backward" in parts.name
    four = [o for o in parts.operands if len(o.shape) == 4]
    if len(four) < (3 if back else 2):
        return 0.0, 2 * sum(sizes)
    x, weight = four[-2:]
    points = _points(four[0], x, parts, back)
    flop = 2.0 * points * math.prod(weight.shape)
    result = 4.0 * points * weight.shape[0]
    return flop * (2 if back else 1), sum(sizes) + (x.bytes + weight.bytes if back else result)


def _points(first: Operand, x: Operand, parts: Signature, back: bool) -> float:
    """Output points: those of the gradient, or of the input over the stride in its name."""
    if back:
        return float(first.shape[0] * math.prod(first.shape[2:]))
    found = STRIDE.search(parts.name)
    stride = int(found[1]) if found else 1
    return float(x.shape[0] * math.prod(-(-s // stride) for s in x.shape[2:]))


def _attention(parts: Signature, kind: str) -> float:
    """Two products of queries and keys."""
    four = [o for o in parts.operands if len(o.shape) == 4]
    if not four:
        return 0.0
    batch, heads, length, width = four[0].shape
    return 4.0 * batch * heads * length**2 * width * (BACKWARD if "backward" in kind else 1)
