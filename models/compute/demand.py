"""Resource demand of an op on a CPU, derived from its signature: flop, bytes, footprint, loops.

Also the family of an op: ops whose time one linear model can fit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from ...sim.facts.signature import WIDTH, Signature, parse_signature
from .matrix_product import matrix_product

FAMILIES: dict[str, tuple[str, ...]] = {
    "gemm": (
        "aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::linear", "aten::_scaled_mm",
    ),
    "convolution": (
        "aten::convolution", "aten::mkldnn_convolution", "aten::cudnn_convolution",
        "aten::miopen_convolution",
    ),
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
"""Ops of one core that only move bytes, with the number of times they move their operands."""
_FAMILY = {name: family for family, names in FAMILIES.items() for name in names}
BACKWARD = 2.5  # flop of attention backward relative to forward: five GEMMs against two
PASSES = {"copy": 2.0}  # a copy reads and writes; other ops move their operands once
LANES = 16  # fp32 numbers of one vector
FEW, SMALL = 16, 20480  # limits in images and elements above which torch does not use im2col


class Demand(NamedTuple):
    """Resource demand of one op.

    Parameters
    ----------
    flop : floating-point operations, two per multiply-add; elementwise arithmetic is not counted
    bytes : B loaded and stored by the core; a store to memory that was not read counts twice, since
        its cache line is loaded first (write-allocate)
    footprint : distinct memory touched, in B
    pieces : number of inner loops: rows, image channels, or images; for elementwise ops the number
        of scalar operands
    ragged : flop (or elements, if flop is 0) in loop remainders that do not fill a vector
    clash : elements that miss because of set conflicts
    """

    flop: float = 0.0
    bytes: float = 0.0
    footprint: float = 0.0
    pieces: float = 0.0
    ragged: float = 0.0
    clash: float = 0.0


def family(signature: str) -> str:
    """Family of an op. An op outside ``FAMILIES`` is elementwise, or forms a family of its own.

    >>> family("compute:aten::addmm fp32[8] fp32[4x8] fp32[8x8]"), family("compute:aten::mul_")
    ('gemm', 'elementwise')
    >>> family("copy:h2h uint8[64]"), family("host:chase uint8[64]")
    ('memory', 'host:chase')
    """
    parts = parse_signature(signature)
    name = op_name(signature)
    if parts.kind != "compute" or not name.startswith("aten::"):
        full = f"{parts.kind}:{name}"
        return "memory" if full in MEMORY else full
    found = _FAMILY.get(name, "elementwise")
    return f"im2col {found}" if name in EITHER_WAY and _runs_as_im2col(parts) else found


EITHER_WAY = ("aten::convolution", "aten::convolution_backward")  # torch chooses the algorithm


def _runs_as_im2col(parts: Signature) -> bool:
    """True if single-threaded torch runs a convolution as one GEMM per image (im2col).

    This is the case for few images with 1x1 kernels without stride, or for one small image
    (``use_mkldnn`` in its ``Convolution.cpp``, 2.13), and only for fp32 and fp64. GPU libraries
    never do it; their kernels have other names.
    """
    if parts.dtype not in ("fp32", "fp64"):
        return False
    four = [o.shape for o in parts.operands if len(o.shape) == 4]
    if len(four) < (3 if "backward" in parts.name else 2):
        return False
    x, weight = four[-2:]
    plain = _output_points(parts, four) == x[0] * math.prod(x[2:])
    points = plain and x[0] < FEW and weight[2:] == (1, 1)
    return points or (plain and x[0] == 1 and math.prod(x) <= SMALL)


def op_name(signature: str) -> str:
    """Name of an op, without kind, attributes and operands.

    >>> op_name("compute:aten::convolution stride=2 fp32[1x3x8x8]")
    'aten::convolution'
    """
    return parse_signature(signature).op


@lru_cache(maxsize=1 << 16)
def demand(signature: str) -> Demand:
    """Compute the resource demand of an op from its signature.

    Examples
    --------
    >>> demand("compute:aten::mm fp32[2x3] fp32[3x4]")
    Demand(flop=48.0, bytes=104.0, footprint=104.0, pieces=0.0, ragged=48.0, clash=0.0)
    >>> demand("copy:h2h uint8[64]").bytes, demand("compute:aten::mul_ fp32[8] fp32[8]").bytes
    (128.0, 96.0)
    >>> demand("compute:aten::_fused_adamw_ fp32[8]").bytes  # 28 a weight
    224.0
    """
    parts = parse_signature(signature)
    if not parts.name.startswith("aten::"):
        moved = PASSES.get(parts.kind, 1.0) * parts.bytes
        return Demand(0.0, moved, moved)
    kind = family(signature)
    if kind == "gemm":
        return _product_demand(parts)
    if "convolution" in kind:
        return _convolution_demand(parts, kind)
    if kind == "index":
        return _gather_demand(parts)
    flop = _attention_flop(parts) if "attention" in kind else 0.0
    pieces, each = _inner_loops(parts, kind)
    return _elementwise_demand(parts)._replace(
        flop=flop, pieces=pieces, ragged=pieces * (each % LANES)
    )


def _elementwise_demand(parts: Signature) -> Demand:
    """Demand of an op that streams its operands and writes a result of the size of the largest."""
    sizes = [float(o.bytes) for o in parts.operands]
    whole, largest = sum(sizes), max(sizes, default=0.0)
    if parts.op in ONCE:
        return Demand(0.0, whole, whole)
    if parts.op in ADAM:  # all but the gradients are written: weights and two moments
        return Demand(0.0, 7 * largest, 4 * largest)
    if parts.op.endswith("_"):
        return Demand(0.0, whole + largest, whole)
    return Demand(0.0, whole + 2 * largest, whole + largest)


ADAM = ("aten::_fused_adam_", "aten::_fused_adamw_")
ONCE = ("aten::sum", "aten::mean", "aten::fill_", "aten::zero_")  # only read, or only written


def _inner_loops(parts: Signature, kind: str) -> tuple[float, int]:
    """Number of inner loops over an op's largest operand, and elements per loop."""
    shape = max((o.shape for o in parts.operands), key=math.prod, default=())
    if kind.startswith(("batch norm", "pool")):
        return float(math.prod(shape[:2])), math.prod(shape[2:])
    if kind.startswith("attention"):
        return float(math.prod(shape[:2])), 0
    if kind.startswith(("layer norm", "softmax")):
        return float(math.prod(shape[:-1])), shape[-1]
    numbers = sum(o.shape == () for o in parts.operands)
    return float(numbers if kind == "elementwise" else 0), 0


def _gather_demand(parts: Signature) -> Demand:
    """Demand of a gather or scatter: one row per index."""
    floats = [o for o in parts.operands if o.dtype.startswith(("fp", "bf"))]
    rows = float(max((math.prod(o.shape) for o in parts.operands if o not in floats), default=0))
    width = floats[0].shape[-1] if floats and floats[0].shape else 1
    one = 1 if parts.name.startswith("aten::nll") else width
    moved = 3 * 4.0 * rows * one + 8.0 * rows
    return Demand(0.0, moved, moved, rows)


def _product_demand(parts: Signature) -> Demand:
    """Demand of a GEMM; its result has the element type of its first operand."""
    read = float(parts.bytes)
    p = matrix_product(parts)
    if p is None:
        return Demand(0.0, read, read)
    width = next(WIDTH[o.dtype] for o in parts.operands if len(o.shape) >= 2)
    moved = read + float(p.batch * p.m * p.n * width)
    flop = 2.0 * math.prod(p)
    return Demand(flop, moved, moved, ragged=flop * _remainder_share(p.n))


def _remainder_share(numbers: float) -> float:
    """Fraction of a loop's elements that are in the remainder and do not fill a vector.

    >>> _remainder_share(20.0)
    0.2
    """
    return numbers % LANES / numbers if numbers else 0.0


def _convolution_demand(parts: Signature, kind: str) -> Demand:
    """Demand of a convolution, or of its gradients if its name contains ``backward``.

    Parameters
    ----------
    kind : family of its kernel; families that begin with ``im2col`` also copy columns

    Examples
    --------
    >>> name = "compute:aten::convolution_backward{} fp32[1x4x8x8] fp32[1x3x8x8] fp32[4x3x3x3]"
    >>> both, weights = (demand(name.format(told)) for told in ("", " input=0"))
    >>> both.flop / weights.flop, both.bytes - weights.bytes  # the samples' gradient is not made
    (2.0, 768.0)
    """
    back = "backward" in parts.name
    samples = parts.attributes.get("input") == "0"  # input samples need no gradient
    four = [o for o in parts.operands if len(o.shape) == 4]
    if len(four) < (3 if back else 2):
        moved = 2.0 * parts.bytes
        return Demand(0.0, moved, moved)
    x, weight = four[-2:]
    points = _output_points(parts, [o.shape for o in four])
    flop = 2.0 * points * math.prod(weight.shape) * (2 if back and not samples else 1)
    y = 4.0 * points * weight.shape[0]
    ends = (x.bytes + weight.bytes) * (2 if back else 1) + y - (x.bytes if samples else 0)
    if not kind.startswith("im2col"):
        return Demand(flop, ends, ends)
    images = x.shape[0]
    again = (3 if back else 1) * (images - 1) * weight.bytes
    columns = 2.0 * x.bytes * math.prod(weight.shape[2:]) if weight.shape[2:] != (1, 1) else 0.0
    needs = Demand(flop, ends + again + columns, ends, float(images))
    return needs._replace(**small_product_remainders(points / images, images, weight.shape, back))


def small_product_remainders(
    points: float, images: int, weight: tuple[int, ...], back: bool
) -> dict[str, float]:
    """Loop remainders and conflict misses of an im2col convolution with few output points.

    The vector loop runs over output points; a remainder below half a vector runs in steps of four,
    two and one. Below ``THIN`` points the weights are not packed, which costs as much as ``SLOW``
    remainder steps. One output point is a matrix-vector product without remainder. The gradient of
    the input reads columns of the weights with a stride: see ``conflict_misses``.

    >>> small_product_remainders(1, 8, (64, 32, 1, 1), False)
    {'ragged': 0.0, 'clash': 0.0}
    >>> small_product_remainders(14, 1, (1, 1, 1, 1), False)["ragged"]  # eight, four and two
    16.0
    """
    if points == 1:
        return {"ragged": 0.0, "clash": 0.0}
    numbers = float(images * math.prod(weight))
    thin = points < THIN
    pieces = SLOW if thin else (int(points) % 8).bit_count()
    lost = conflict_misses(4 * math.prod(weight[1:])) if back else 0.0
    return {"ragged": 8.0 * numbers * pieces, "clash": numbers * lost * (SLOW if thin else 1)}


THIN, SLOW = 10, 5
WAY, WAYS, ROWS = (
    4096,
    8,
    32,
)  # L1 cache size in B and ways; rows per GEMM block


def conflict_misses(stride: int) -> float:
    """Fraction of a column's cache lines that set conflicts evict before reuse.

    Rows whose stride shares a factor with the way size map to the same few sets.

    >>> conflict_misses(4096), conflict_misses(2048), conflict_misses(1024), conflict_misses(2560)
    (0.75, 0.5, 0.0, 0.0)
    """
    kept = WAYS * WAY / math.gcd(stride, WAY)
    return max(0.0, 1.0 - kept / ROWS)


def _output_points(parts: Signature, four: Sequence[tuple[int, ...]]) -> float:
    """Number of output points of a convolution over all images.

    They follow from the operands: the gradient of a backward op, otherwise the input and the
    stride.
    """
    if "backward" in parts.name:
        return float(four[0][0] * math.prod(four[0][2:]))
    stride_text = parts.attributes.get("stride", "")
    stride = int(stride_text) if stride_text.isdigit() else 1
    return float(four[-2][0] * math.prod(-(-s // stride) for s in four[-2][2:]))


def _attention_flop(parts: Signature) -> float:
    """Flop of attention: two GEMMs per head; 2.5 times as many for the gradients.

    Operands are query, key and value, each (batch, heads, length, width); a backward op has the
    gradient first.
    """
    back = "backward" in parts.name
    four = [o.shape for o in parts.operands if len(o.shape) == 4][1 if back else 0 :]
    if not four:
        return 0.0
    batch, heads, length, width = four[0]
    keys = four[1][2] if len(four) > 1 else length
    wide = width + (four[2][3] if len(four) > 2 else width)
    return 2.0 * batch * heads * length * keys * wide * (BACKWARD if back else 1)
