"""Shape of an op on a GPU, independent of its name: properties that must match, and variable sizes.

A GEMM of any library is a GEMM of m, n and k. Op databases look up shapes and interpolate along
their axes; ``kernel_work`` derives the work of a kernel from them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from ...sim.facts.signature import Operand, Signature, parse_signature
from .demand import demand
from .matrix_product import matrix_product

Shape = tuple[float, ...]


class OpShape(NamedTuple):
    """Shape of an op.

    Parameters
    ----------
    family : kernel family of the op
    dtype : element type of the first operand
    exact : properties that must be equal for the time of one op to predict another's
    axes : sizes along which times may be interpolated, named in ``AXES``
    """

    family: str
    dtype: str
    exact: Shape
    axes: Shape


AXES = {
    "product": ("batch", "m", "n", "k"),
    "attention": ("batch", "heads", "queries", "keys"),
    "attention backward": ("batch", "heads", "queries", "keys"),
    "decode attention": ("batch", "heads", "keys"),
    "convolution": ("flop", "bytes"),
    "experts": ("tokens",),
    "norm": ("rows", "width"),
    "layer norm": ("rows", "width"),
    "softmax": ("rows", "width"),
    "activation": ("rows", "width"),
    "rope": ("rows", "query", "key"),
    "elementwise": ("read", "written"),
    "reduction": ("read", "written"),
    "gather": ("rows", "width", "table"),
    "gather of few": ("rows", "width", "table"),
    "stream": ("read", "written"),
}
"""Axes of each family; ``read`` and ``written`` are bytes.  Exact are, of attention, query heads to
each key head, width of a head, whether it is causal, window; of experts, hidden and inner size,
experts to each token, experts here, experts in all, whether gated; of rope, the width of a head."""

FEW = 16  # up to this number, torch handles indices one by one (indexSelectSmallIndex, Indexing.cu)
SDPA = ("scaled_dot_product", "flash_attention", "efficient_attention")
PACKED = ("mha_batch_prefill", "mha_varlen", "flash_attn_varlen")  # packed sequences
NORMS = (
    "rms_norm", "rms_norm_backward", "rmsnorm", "fused_add_rms_norm", "add_rmsnorm",
    "native_batch_norm", "cudnn_batch_norm", "miopen_batch_norm", "native_batch_norm_backward",
    "cudnn_batch_norm_backward", "miopen_batch_norm_backward", "native_group_norm",
)  # fmt: skip
LAYER_NORMS = ("native_layer_norm", "layer_norm", "native_layer_norm_backward")
SOFTMAXES = (
    "_softmax", "_log_softmax", "softmax", "log_softmax",
    "_softmax_backward_data", "_log_softmax_backward_data",
)  # fmt: skip
GATED = ("silu_and_mul", "gelu_and_mul", "act_and_mul", "swiglu")
ROPES = ("rotary_embedding", "apply_rotary", "rope")
GATHERS = ("embedding", "index_select", "embedding_dense_backward")
REDUCTIONS = (
    "sum", "mean", "max", "min", "amax", "amin", "argmax", "argmin", "prod", "norm",
    "linalg_vector_norm", "any", "all", "nll_loss_forward", "compute_scale",
)  # fmt: skip
EXPERTS = ("fused_experts", "fused_moe", "moe")
POINTWISE = """
    abs add addcdiv addcmul bitwise_and bitwise_or bitwise_not clamp clamp_min clamp_max cos div
    dropout native_dropout native_dropout_backward eq exp floor_divide ge gelu gelu_backward gt
    hardtanh isnan le leaky_relu lerp log logical_and logical_not logical_or lt masked_fill maximum
    minimum mul ne neg pow reciprocal relu remainder rsqrt rsub scale_matrix sigmoid
    sigmoid_backward silu silu_backward sin sqrt square sub tanh tanh_backward threshold
    threshold_backward where copy fill zero to _to_copy clone contiguous cat stack
""".split()  # noqa: SIM905  one word a name
QUANTIZED = "quantized"  # attribute of GEMMs whose operands were quantized by an earlier op
REGIONS = ("CompiledFunction", "CompiledFxGraph", "Compiled Region")  # of torch.compile
ONLY_WRITTEN = ("fill", "zero", "normal", "uniform", "bernoulli", "arange")


@lru_cache(maxsize=1 << 16)
def op_shape(signature: str) -> OpShape | None:
    """Shape of an op; None if it does not compute, or if its operands are unknown.

    A torch operator or kernel without a rule is assumed to stream its operands. An operator of
    another library, or a compiled region, may do anything with its operands and has no shape.

    Examples
    --------
    >>> op_shape("compute:aten::linear bf16[4x8x16] bf16[32x16]")
    OpShape(family='product', dtype='bf16', exact=(), axes=(1, 32, 32, 16))
    >>> op_shape("compute:aten::add bf16[8] bf16[8]").axes  # bytes read and written
    (32.0, 16.0)
    >>> op_shape("compute:aten::_foreach_add_ bf16[8] bf16[8]").axes  # of lists, in all
    (32.0, 16.0)
    >>> op_shape("compute:aten::roll bf16[8]").family, op_shape("compute:my::op bf16[8]")
    ('stream', None)
    """
    parts = parse_signature(signature)
    if parts.kind != "compute" or not parts.operands:
        return None
    whole, _, helper = parts.op.partition("/")
    name = whole.rpartition("::")[2].removesuffix("_").removeprefix("_foreach_")
    if helper:
        return _reduction_shape(parts) if name in REDUCTIONS and "reduce_kernel" in helper else None
    if "conv" in name:
        return _convolution_shape(parts, signature)
    for names, rule in RULES:
        if name in names:
            return rule(parts)
    if any(word in name for word in PACKED):
        return _packed_attention_shape(parts)
    if any(word in name for word in SDPA):
        return _attention_shape(parts)
    return None if _may_do_anything(whole) else _streamed_shape("stream", parts)


def _may_do_anything(name: str) -> bool:
    """True if an operator without a rule belongs to another library, or is a compiled region.

    >>> _may_do_anything("vllm::moe_forward"), _may_do_anything("CompiledFunctionBackward")
    (True, True)
    >>> _may_do_anything("aten::roll"), _may_do_anything("triton_poi_fused_add_0")
    (False, False)
    """
    library, named, _ = name.rpartition("::")
    return bool(named and library != "aten") or any(word in name for word in REGIONS)


def _product_shape(parts: Signature) -> OpShape | None:
    """Shape of a GEMM; includes quantization unless the signature has ``quantized=1``.

    >>> op_shape("compute:aten::_scaled_mm quantized=1 fp8[4x8] fp8[8x16]").exact
    (1.0,)
    """
    found = matrix_product(parts)
    exact = (1.0,) if QUANTIZED in parts.attributes else ()
    return None if found is None else OpShape("product", parts.dtype, exact, tuple(found))


def _convolution_shape(parts: Signature, signature: str) -> OpShape | None:
    """Shape of a convolution; its stride is that of its attributes, or 1."""
    asked = demand(signature)
    if not asked.flop:
        return None
    return OpShape("convolution", parts.dtype, (), (asked.flop, asked.footprint))


def _streamed_shape(family: str, parts: Signature) -> OpShape:
    """Shape of an op that reads its operands and writes a result of the size of the largest."""
    name = parts.op.rpartition("::")[2]
    tensors = [o for o in parts.operands if o.shape]
    sizes = [_bytes_touched(o, parts) for o in tensors]
    largest = max(sizes, default=max((o.bytes for o in parts.operands), default=0))
    read = sum(sizes) or largest
    if name.removesuffix("_") in ONLY_WRITTEN:
        return OpShape(family, parts.dtype, (), (0.0, float(largest)))
    if name == "copy_" and len(tensors) == 2:
        return OpShape(family, parts.dtype, (), (float(tensors[1].bytes), float(tensors[0].bytes)))
    if name in ("cat", "stack"):
        largest = read
    return OpShape(family, parts.dtype, (), (float(read), float(largest)))


LOOKS_UP = ("lookup", "index", "gather", "scatter", "cache", "prefill")
ROW = 512  # B accessed per index in a table of unknown width: 128 fp32 elements
TABLE = 4  # an operand with this many times more rows than indices is a table


def _bytes_touched(operand: Operand, parts: Signature) -> int:
    """Bytes of an operand that an op accesses; for a table with indices, one row per index."""
    whole = [o for o in parts.operands if o.dtype.startswith("int") and o.shape]
    indices = [math.prod(o.shape) for o in whole]
    most = max(indices, default=0)
    looks_up = any(word in parts.op for word in LOOKS_UP)
    if (
        operand.dtype.startswith("int")
        or not most
        or not looks_up
        or operand.shape[0] <= TABLE * most
    ):
        return operand.bytes
    row = operand.bytes // operand.shape[0] if len(operand.shape) > 1 else ROW
    return min(operand.bytes, most * row)


def _elementwise_shape(parts: Signature) -> OpShape:
    return _streamed_shape("elementwise", parts)


def _reduction_shape(parts: Signature) -> OpShape:
    return OpShape("reduction", parts.dtype, (), (float(parts.bytes), 0.0))


def _row_blocks_rule(family: str, last: int = 1) -> Callable[[Signature], OpShape]:
    """Rule for ops in which one thread block handles one row of the last ``last`` dimensions."""

    def rule(parts: Signature) -> OpShape:
        shape = max((o.shape for o in parts.operands), key=math.prod)
        rows = math.prod(shape[:-last]) if len(shape) > last else 1
        width = math.prod(shape[-last:])
        tensors = [o for o in parts.operands if math.prod(o.shape) == rows * width]
        return OpShape(family, parts.dtype, (float(len(tensors)),), (float(rows), float(width)))

    return rule


def _norm_shape(parts: Signature) -> OpShape:
    """Shape of a norm over the last dimension; for images, one row per channel."""
    found = _row_blocks_rule("norm")(parts)
    shape = max((o.shape for o in parts.operands), key=math.prod)
    if len(shape) < 4:
        return found
    channels = float(shape[1])
    return found._replace(axes=(channels, math.prod(shape) / channels))


def _activation_shape(parts: Signature) -> OpShape:
    """Shape of a gated activation, whose operand (gate and value) is twice as wide."""
    widest = max(parts.operands, key=lambda o: math.prod(o.shape))
    rows = math.prod(widest.shape[:-1])
    return OpShape("activation", parts.dtype, (), (float(rows), widest.shape[-1] / 2))


def _rope_shape(parts: Signature) -> OpShape | None:
    """Shape of a rotary embedding of queries and keys, each (tokens, heads x width).

    The head width is the ``head`` attribute, such as ``head=128``, if there is one.
    """
    two = [o for o in parts.operands if len(o.shape) >= 2 and not o.dtype.startswith("int")]
    if len(two) < 2:
        return None
    query, key = two[:2]
    rows = query.shape[0] if len(query.shape) == 2 else math.prod(query.shape[:-2])
    width = math.prod(query.shape) / max(rows, 1), math.prod(key.shape) / max(rows, 1)
    head = float(parts.attributes.get("head", 128 if len(query.shape) == 2 else query.shape[-1]))
    return OpShape("rope", parts.dtype, (head,), (float(rows), *width))


def _gather_shape(parts: Signature) -> OpShape | None:
    tables = [o for o in parts.operands if len(o.shape) >= 2 and not o.dtype.startswith("int")]
    indices = [o for o in parts.operands if o.dtype.startswith("int") and o.shape]
    if not tables or not indices:
        return None
    rows = math.prod(max(indices, key=lambda o: math.prod(o.shape)).shape)
    width, table = tables[0].shape[-1], tables[0].shape[0]
    family = "gather of few" if rows <= FEW else "gather"
    return OpShape(family, tables[0].dtype, (), (float(rows), float(width), float(table)))


def _attention_shape(parts: Signature) -> OpShape | None:
    """Shape of attention of (query, key, value), each (batch, heads, length, width).

    Operators of the flash-attention library have the length before the heads.
    """
    if "backward" in parts.op:
        return None
    four = [o for o in parts.operands if len(o.shape) == 4]
    if len(four) < 2:
        return None
    q, k = _heads_first(parts.op, four[0]), _heads_first(parts.op, four[1])
    batch, heads, queries, width = q
    keys, shared = k[2], max(k[1], 1)
    causal = float(parts.attributes.get("causal", "0") != "0")
    window = float(parts.attributes.get("window", "0"))
    exact = (heads / shared, float(width), causal, window)
    if queries == 1:
        one = (float(batch), float(heads), float(keys))
        return OpShape("decode attention", four[1].dtype, (exact[0], exact[1], 0.0, window), one)
    axes = (float(batch), float(heads), float(queries), float(keys))
    return OpShape("attention", parts.dtype, exact, axes)


def _attention_backward_shape(parts: Signature) -> OpShape | None:
    """Shape of fused attention backward of (gradient, query, key, value), as in described models.

    >>> op_shape(
    ...     "compute:fused::attention_backward causal=1 bf16[1x8x64x128] bf16[1x8x64x128] "
    ...     "bf16[1x2x64x128] bf16[1x2x64x128]"
    ... ).axes
    (1.0, 8.0, 64.0, 64.0)
    """
    if len(parts.operands) < 3:
        return None
    forward = _attention_shape(Signature(parts.kind, parts.name.replace("_backward", ""),
                                         parts.operands[1:]))  # fmt: skip
    return None if forward is None else forward._replace(family="attention backward")


def _packed_attention_shape(parts: Signature) -> OpShape | None:
    """Shape of causal attention of packed sequences: (tokens, heads, width), start offsets.

    All sequences are assumed to have the mean length. For a paged cache, the last operand lists the
    pages to read.

    >>> op_shape(
    ...     "compute:aiter::mha_batch_prefill bf16[4096x32x128] bf16[9000x8x128] "
    ...     "bf16[9000x8x128] int32[5] int32[5] int32[8192]"
    ... )  # doctest: +NORMALIZE_WHITESPACE
    OpShape(family='attention', dtype='bf16', exact=(4.0, 128.0, 1.0, 0.0),
        axes=(4.0, 32.0, 1024.0, 2048.0))
    """
    three = [o.shape for o in parts.operands if len(o.shape) == 3]
    whole = [o.shape[0] for o in parts.operands if o.dtype.startswith("int") and o.shape]
    if "backward" in parts.op or len(three) < 2 or not whole or whole[0] < 2:
        return None
    (tokens, heads, width), (rows, shared, _) = three[:2]
    batch = whole[0] - 1
    pages = [n for n in whole if n > whole[0]]
    keys = pages[-1] if pages else rows
    exact = (heads / max(shared, 1), float(width), 1.0, 0.0)
    axes = (float(batch), float(heads), max(tokens / batch, 1.0), max(keys / batch, 1.0))
    return OpShape("attention", parts.dtype, exact, axes)


def _heads_first(op: str, operand: Operand) -> tuple[int, ...]:
    b, s, h, d = operand.shape
    own = "_flash_attention" in op or "flash_attn" in op or op.startswith("xformers")
    return (b, h, s, d) if own and "scaled_dot" not in op else operand.shape


def _experts_shape(parts: Signature) -> OpShape | None:
    """Shape of fused experts, from vllm's operands: tokens, both weights, routing."""
    if len(parts.operands) < 4:
        return None
    x, first, second, chosen = (o.shape for o in parts.operands[:4])
    if len(first) != 3 or len(second) != 3 or len(x) != 2:
        return None
    inner, here = second[2], first[0]
    of = float(parts.attributes.get("experts", here))
    gated = float(first[1] == 2 * inner)
    exact = (float(x[1]), float(inner), float(chosen[-1]), float(here), of, gated)
    return OpShape("experts", parts.operands[1].dtype, exact, (float(x[0]),))


PRODUCTS = ("mm", "addmm", "bmm", "baddbmm", "linear", "_scaled_mm", "matmul")
Rule = Callable[[Signature], "OpShape | None"]
RULES: tuple[tuple[tuple[str, ...], Rule], ...] = (
    (PRODUCTS, _product_shape),
    (EXPERTS, _experts_shape),
    (("attention_backward",), _attention_backward_shape),
    (NORMS, _norm_shape),
    (LAYER_NORMS, _row_blocks_rule("layer norm")),
    (SOFTMAXES, _row_blocks_rule("softmax")),
    (GATED, _activation_shape),
    (ROPES, _rope_shape),
    (GATHERS, _gather_shape),
    (REDUCTIONS, _reduction_shape),
    (tuple(POINTWISE) + ONLY_WRITTEN, _elementwise_shape),
)
