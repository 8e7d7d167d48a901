"""Demand of an op on a processor, read from its signature: flop and bytes.

Also its family: ops that one fitted line may stand for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from ...sim.signature import Signature, parse

FAMILIES: dict[str, tuple[str, ...]] = {
    "gemm": ("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::linear"),
    "convolution": ("aten::convolution", "aten::mkldnn_convolution", "aten::cudnn_convolution"),
    "convolution backward": ("aten::convolution_backward",),
    "im2col convolution": ("aten::_slow_conv2d_forward",),
    "im2col convolution backward": ("aten::_slow_conv2d_backward",),
    "attention": (
        "aten::_scaled_dot_product_flash_attention_for_cpu",
        "aten::_scaled_dot_product_flash_attention",
        "aten::scaled_dot_product_attention",
        "aten::_scaled_dot_product_flash_attention_for_cpu_backward",
        "aten::_scaled_dot_product_flash_attention_backward",
    ),
    "batch norm": ("aten::native_batch_norm",),
    "batch norm backward": ("aten::native_batch_norm_backward",),
    "layer norm": ("aten::native_layer_norm",),
    "layer norm backward": ("aten::native_layer_norm_backward",),
    "softmax": ("aten::_log_softmax", "aten::_softmax"),
    "softmax backward": ("aten::_log_softmax_backward_data", "aten::_softmax_backward_data"),
    "sum": ("aten::sum", "aten::mean"),
    "pool": ("aten::max_pool2d_with_indices",),
    "pool backward": ("aten::max_pool2d_with_indices_backward",),
    "index": (
        "aten::index_select", "aten::embedding", "aten::embedding_dense_backward",
        "aten::nll_loss_forward", "aten::nll_loss_backward",
    ),
    "gelu": ("aten::gelu", "aten::gelu_backward"),
}  # fmt: skip
MEMORY = ("copy:h2h", "host:read", "host:fill")
"""Ops of one core that do nothing but move bytes: one line fits all of them, a copy twice."""
_FAMILY = {name: family for family, names in FAMILIES.items() for name in names}
BACKWARD = 2.5  # flop of attention's gradients over its own: five products against two
PASSES = {"copy": 2.0}  # a copy reads and writes; other ops move their operands once
LANES = 16  # fp32 numbers of one vector
FEW, SMALL = 16, 20480  # images from which, and numbers beyond which, torch has a better way


class Demand(NamedTuple):
    """Demand of one op on a processor: flop, bytes, inner loops, and what fills no vector.

    Parameters
    ----------
    flop : of multiply-adds two each; other arithmetic goes with the bytes
    bytes : B that go through the core, as often as they do: what is written where nothing was read
        counts twice, since its line comes first
    footprint : B of distinct memory
    pieces : inner loops: rows, channels of images, images that are done one by one; of elementwise
        ops, operands that are one number, which has to be brought to the type of the others
    ragged : of the flop, or of the numbers where none are counted, those that fill no vector
    clash : numbers whose cache line is lost before its others are used
    """

    flop: float = 0.0
    bytes: float = 0.0
    footprint: float = 0.0
    pieces: float = 0.0
    ragged: float = 0.0
    clash: float = 0.0


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
    found = _FAMILY.get(name, "elementwise")
    return f"im2col {found}" if name in UNSAID and _im2col(parts) else found


UNSAID = ("aten::convolution", "aten::convolution_backward")  # how it is done, torch chooses


def _im2col(parts: Signature) -> bool:
    """Whether torch, on one thread, multiplies matrices image by image.

    Few images, kernels of one point without stride; or one small image (``use_mkldnn`` of its
    ``Convolution.cpp``, 2.13).
    """
    four = [o.shape for o in parts.operands if len(o.shape) == 4]
    if len(four) < (3 if "backward" in parts.name else 2):
        return False
    x, weight = four[-2:]
    plain = _points(parts, four) == x[0] * math.prod(x[2:])
    points = plain and x[0] < FEW and weight[2:] == (1, 1)
    return points or (plain and x[0] == 1 and math.prod(x) <= SMALL)


def op_name(signature: str) -> str:
    """The op without kind, attributes and operands.

    >>> op_name("compute:aten::convolution stride=2 fp32[1x3x8x8]")
    'aten::convolution'
    """
    return parse(signature).op


@lru_cache(maxsize=1 << 16)
def demand(signature: str) -> Demand:
    """The demand of an op, from its signature.

    Examples
    --------
    >>> demand("compute:aten::mm fp32[2x3] fp32[3x4]")
    Demand(flop=48.0, bytes=104.0, footprint=104.0, pieces=0.0, ragged=48.0, clash=0.0)
    >>> demand("copy:h2h uint8[64]").bytes, demand("compute:aten::mul_ fp32[8] fp32[8]").bytes
    (128.0, 96.0)
    """
    parts = parse(signature)
    if not parts.name.startswith("aten::"):
        moved = PASSES.get(parts.kind, 1.0) * parts.bytes
        return Demand(0.0, moved, moved)
    kind = family(signature)
    if kind == "gemm":
        return _product(parts)
    if "convolution" in kind:
        return _convolution(parts, kind)
    if kind == "index":
        return _indexed(parts)
    flop = _attention(parts) if "attention" in kind else 0.0
    pieces, each = _pieces(parts, kind)
    return _streamed(parts)._replace(flop=flop, pieces=pieces, ragged=pieces * (each % LANES))


def _streamed(parts: Signature) -> Demand:
    """Operands, and a result as large as the largest of them, in its place or a new one."""
    sizes = [float(o.bytes) for o in parts.operands]
    whole, largest = sum(sizes), max(sizes, default=0.0)
    if parts.op in ONCE:
        return Demand(0.0, whole, whole)
    if parts.op.endswith("_"):
        return Demand(0.0, whole + largest, whole)
    return Demand(0.0, whole + 2 * largest, whole + largest)


ONCE = ("aten::sum", "aten::mean", "aten::fill_", "aten::zero_")  # only read, or only written


def _pieces(parts: Signature, kind: str) -> tuple[float, int]:
    """Inner loops of an op over its largest operand, and numbers of one."""
    shape = max((o.shape for o in parts.operands), key=math.prod, default=())
    if kind.startswith(("batch norm", "pool")):
        return float(math.prod(shape[:2])), math.prod(shape[2:])
    if kind.startswith("attention"):
        return float(math.prod(shape[:2])), 0
    if kind.startswith(("layer norm", "softmax")):
        return float(math.prod(shape[:-1])), shape[-1]
    numbers = sum(o.shape == () for o in parts.operands)
    return float(numbers if kind == "elementwise" else 0), 0


def _indexed(parts: Signature) -> Demand:
    """A row for each index, read and written; of a table nothing else."""
    floats = [o for o in parts.operands if o.dtype.startswith(("fp", "bf"))]
    rows = float(max((math.prod(o.shape) for o in parts.operands if o not in floats), default=0))
    width = floats[0].shape[-1] if floats and floats[0].shape else 1
    one = 1 if parts.name.startswith("aten::nll") else width
    moved = 3 * 4.0 * rows * one + 8.0 * rows
    return Demand(0.0, moved, moved, rows)


def _product(parts: Signature) -> Demand:
    """Of the last two operands; the result's width is the last size of the last one."""
    sizes = [float(o.bytes) for o in parts.operands]
    a, b = parts.operands[-2:]
    if len(a.shape) < 2 or len(b.shape) < 2:
        return Demand(0.0, sum(sizes), sum(sizes))
    rows, columns = math.prod(a.shape[:-1]), b.shape[-1]
    result = rows * columns * sizes[-2] / max(math.prod(a.shape), 1)
    moved = sum(sizes) + result
    flop = 2.0 * rows * a.shape[-1] * columns
    return Demand(flop, moved, moved, ragged=flop * _rest(columns))


def _rest(numbers: float) -> float:
    """The share of a loop that fills no vector.

    >>> _rest(20.0)
    0.2
    """
    return numbers % LANES / numbers if numbers else 0.0


def _convolution(parts: Signature, kind: str) -> Demand:
    """Multiply-adds at every output point; gradients are of the input and of the weights."""
    back = "backward" in parts.name
    four = [o for o in parts.operands if len(o.shape) == 4]
    if len(four) < (3 if back else 2):
        moved = 2.0 * parts.bytes
        return Demand(0.0, moved, moved)
    x, weight = four[-2:]
    points = _points(parts, [o.shape for o in four])
    flop = 2.0 * points * math.prod(weight.shape) * (2 if back else 1)
    y = 4.0 * points * weight.shape[0]
    ends = (x.bytes + weight.bytes) * (2 if back else 1) + y
    if not kind.startswith("im2col"):
        return Demand(flop, ends, ends)
    images = x.shape[0]
    again = (3 if back else 1) * (images - 1) * weight.bytes
    columns = 2.0 * x.bytes * math.prod(weight.shape[2:]) if weight.shape[2:] != (1, 1) else 0.0
    asked = Demand(flop, ends + again + columns, ends, float(images))
    return asked._replace(**image_by_image(points / images, images, weight.shape, back))


def image_by_image(
    points: float, images: int, weight: tuple[int, ...], back: bool
) -> dict[str, float]:
    """What multiplying the weights by the few points of each image costs beside its flop.

    The loop runs over points.  What fills no half vector is done in pieces of four, two and one.
    A product of fewer than ``THIN`` points packs nothing: each weight is loaded for itself, which
    takes as long as ``SLOW`` such pieces.  A single point is a matrix times a vector, and waits
    for the weights only.  The gradient of the input walks down the columns of the weights: see
    ``clashing``.

    >>> image_by_image(1, 8, (64, 32, 1, 1), False), image_by_image(16, 8, (64, 32, 1, 1), False)
    ({'ragged': 0.0, 'clash': 0.0}, {'ragged': 0.0, 'clash': 0.0})
    >>> image_by_image(14, 1, (1, 1, 1, 1), False)["ragged"]  # eight, four and two
    16.0
    """
    if points == 1:
        return {"ragged": 0.0, "clash": 0.0}
    numbers = float(images * math.prod(weight))
    thin = points < THIN
    pieces = SLOW if thin else (int(points) % 8).bit_count()
    lost = clashing(4 * math.prod(weight[1:])) if back else 0.0
    return {"ragged": 8.0 * numbers * pieces, "clash": numbers * lost * (SLOW if thin else 1)}


THIN, SLOW = 10, 5
WAY, WAYS, ROWS = (
    4096,
    8,
    32,
)  # B and ways of a first-level cache; rows that a product takes at once


def clashing(stride: int) -> float:
    """The share of a column's lines that are lost before their other numbers are used.

    Rows that lie a multiple of a cache's way apart share its sets, of which each keeps a few.

    >>> clashing(4096), clashing(2048), clashing(1024), clashing(2560)
    (0.75, 0.5, 0.0, 0.0)
    """
    kept = WAYS * WAY / math.gcd(stride, WAY)
    return max(0.0, 1.0 - kept / ROWS)


def _points(parts: Signature, four: Sequence[tuple[int, ...]]) -> float:
    """Output points: those of the gradient, or of the input over the stride in its name."""
    if "backward" in parts.name:
        return float(four[0][0] * math.prod(four[0][2:]))
    told = parts.attributes.get("stride", "")
    stride = int(told) if told.isdigit() else 1
    return float(four[-2][0] * math.prod(-(-s // stride) for s in four[-2][2:]))


def _attention(parts: Signature) -> float:
    """Two products of queries and keys."""
    four = [o for o in parts.operands if len(o.shape) == 4]
    if not four:
        return 0.0
    batch, heads, length, width = four[0].shape
    return 4.0 * batch * heads * length**2 * width * (BACKWARD if "backward" in parts.name else 1)
