"""Flop and bytes of a recorded operator, from its arguments.

Counted are the multiplications and additions of matrix products, convolutions and attention (half
of them where the arguments say that a mask is causal), and the bytes of every tensor, read or
written once; twice read is what a batch norm reads, for its sums and to be scaled.  Of tables only
rows that are touched count.  Other arithmetic counts as 0 flop: pointwise ops wait for memory.  An
operator without a rule here, or called with other arguments than its rule knows, is unknown.
Models that are described count alike (``models/training/``), which tests compare.

Of an operator that launched several kernels (split sums, transposed layouts, both gradients of a
convolution) the names say which of them multiply: those share its flop and bytes.  Each of
the others reads and writes one tensor of middle size, or, where none multiplies, all of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import lru_cache
from math import nan, prod
from typing import NamedTuple

from ...sim.facts.signature import Operand
from ...sim.units import Bytes
from .events.operands import parse_operands

Tensors = tuple[Operand, ...]
Settings = list[str]


class OpWork(NamedTuple):
    """Flop and bytes of an operator; NaN where unknown."""

    flop: float
    bytes: Bytes


UNKNOWN = OpWork(nan, nan)
Rule = Callable[[Tensors, Settings], OpWork]


@lru_cache(maxsize=1 << 14)
def op_work(name: str, shapes: str, dtypes: str, scalars: str) -> OpWork:
    """Flop and bytes of one call of an operator.

    Parameters
    ----------
    name : of the operator
    shapes, dtypes, scalars : of its arguments, as the profiler writes them

    Examples
    --------
    >>> op_work("aten::mm", "[[4, 8], [8, 2]]", '["float", "float"]', "")
    OpWork(flop=128.0, bytes=224.0)
    >>> op_work("aten::add_", "[[8], [8]]", '["float", "float"]', "")
    OpWork(flop=0.0, bytes=96.0)
    >>> op_work("my::op", "[[8]]", '["float"]', "").flop
    nan
    """
    rule = RULES.get(name.removeprefix("aten::"))
    if rule is None:
        return UNKNOWN
    try:
        work = rule(parse_operands(shapes, dtypes), json.loads(scalars) if scalars else [])
    except (IndexError, ValueError):  # called with other arguments than the rule knows
        return UNKNOWN
    return OpWork(float(work.flop), float(work.bytes))


TURNS = re.compile(
    r"transpose|nchw|nhwc|converttensor|subtensor|im2col|col2im|reduce|memset|fill|copy|cast|bias"
    r"|data4x4|output4x4|delta4x4|filter4x4|elementwise|scale|workspace|offset",
    re.IGNORECASE,
)
MULTIPLIES = re.compile(
    r"gemm|gemv|gemmk1|cutlass|xmma|mma|conv|cijk|wgrad|dgrad|winograd|scudnn|attention|attn|flash"
    r"|fmha|xdl|dot_kernel",
    re.IGNORECASE,
)


def is_gemm_kernel(kernel: str) -> bool:
    """Whether a kernel does the products of its operator, by its name.

    >>> is_gemm_kernel("volta_sgemm_64x64_nt")
    True
    >>> is_gemm_kernel("void splitKreduce_kernel<32, 16>(float)")
    False
    >>> is_gemm_kernel("igemm_fwd_gtcx3_nhwc_bf16_bx0")
    True
    >>> is_gemm_kernel("batched_transpose_32x32_half")
    False
    """
    if kernel.startswith(("igemm", "Cijk", "cutlass", "void cutlass")):
        return True
    return bool(MULTIPLIES.search(kernel)) and not TURNS.search(kernel.partition("(")[0])


PREPARES = re.compile(r"compute\w*OffsetsKernel|generateWinogradTiles")  # of cuDNN


def is_index_kernel(kernel: str) -> bool:
    """Whether a kernel only works out where its operator's others read, by its name.

    >>> is_index_kernel("cask_cudnn::computeBOffsetsKernel(cask_cudnn::ComputeBOffsetsParams)")
    True
    """
    return bool(PREPARES.search(kernel))


def multiplication_savings(kernel: str) -> float:
    """How many times fewer products an operator needs that has this kernel; 1 for most.

    Tiles of 4 x 4 results of 3 x 3 weights need 36 products for 144 (Winograd; Lavin and Gray
    2016, arXiv:1509.09308), which a kernel of their own multiplies.  Kernels that turn and multiply
    at once spend what they spare, and count as others.

    >>> kernel = "void cudnn::winograd_nonfused::winogradForwardData4x4<float, float>(Params)"
    >>> multiplication_savings(kernel)
    4.0
    >>> multiplication_savings("volta_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1")
    1.0
    """
    return 4.0 if "winograd_nonfused" in kernel else 1.0


def kernel_share_of_work(
    work: OpWork, tensors: int, multiplies: bool, multiplying_kernels: int, kernels: int
) -> OpWork:
    """Work of one of several kernels of an operator.

    Parameters
    ----------
    work : of the operator
    tensors : that it reads and writes
    multiplies : whether this kernel multiplies
    multiplying_kernels : kernels that do
    kernels : of the operator

    Examples
    --------
    >>> kernel_share_of_work(OpWork(8e6, 3e3), 3, True, 1, 2)
    OpWork(flop=8000000.0, bytes=3000.0)
    >>> kernel_share_of_work(OpWork(8e6, 3e3), 3, False, 1, 2)
    OpWork(flop=0.0, bytes=2000.0)
    """
    if work.flop == 0:
        return OpWork(0.0, work.bytes)
    if not multiplying_kernels:
        return OpWork(work.flop / kernels, work.bytes / kernels)
    if multiplies:
        return OpWork(work.flop / multiplying_kernels, work.bytes / multiplying_kernels)
    return OpWork(0.0 * work.flop, 2 * work.bytes / max(tensors, 2))


def _bytes_moved(tensors: Tensors, *written: Operand) -> Bytes:
    """Bytes of operands read and results written."""
    return sum(t.bytes for t in (*tensors, *written))


def _matmul_work(tensors: Tensors, _: Settings) -> OpWork:
    """Matrix product of the last two operands: (…, m, k) by (…, k, n)."""
    a, b = tensors[-2], tensors[-1]
    *batch, m, k = a.shape
    if b.shape[-2] != k:
        raise ValueError
    out = Operand(a.dtype, (*batch, m, b.shape[-1]))
    return OpWork(2 * k * prod(out.shape), _bytes_moved(tensors, out))


def _scaled_matmul_work(tensors: Tensors, _: Settings) -> OpWork:
    """Product of the first two operands, (m, k) by (k, n), which scales follow; bf16 comes out."""
    a, b = tensors[:2]
    if b.shape[-2] != a.shape[-1]:
        raise ValueError
    out = Operand("bf16", (*a.shape[:-1], b.shape[-1]))
    return OpWork(2 * a.shape[-1] * prod(out.shape), _bytes_moved(tensors, out))


def _linear_layer_work(tensors: Tensors, _: Settings) -> OpWork:
    """Linear layer of (input, weight, …): (…, k) by (n, k)."""
    x, weight = tensors[0], tensors[1]
    out = Operand(x.dtype, (*x.shape[:-1], weight.shape[0]))
    return OpWork(2 * prod(x.shape) * weight.shape[0], _bytes_moved(tensors, out))


def _convolution_rule(padding: int, stride: int, dilation: int | None = None) -> Rule:
    """Convolution of (input, weight, …); each parameter is the position of that argument."""

    def rule(tensors: Tensors, settings: Settings) -> OpWork:
        x, weight = tensors[0], tensors[1]
        filters = weight.shape[2:]
        pad, step = _parse_integers(settings[padding]), _parse_integers(settings[stride])
        spread = _parse_integers(settings[dilation]) if dilation is not None else [1] * len(filters)
        shape = zip(x.shape[2:], filters, pad, step, spread, strict=True)
        sizes = [(n + 2 * p - d * (f - 1) - 1) // s + 1 for n, f, p, s, d in shape]
        out = Operand(x.dtype, (x.shape[0], weight.shape[0], *sizes))
        return OpWork(_convolution_flop(out, weight), _bytes_moved(tensors, out))

    return rule


def _convolution_flop(out: Operand, weight: Operand) -> int:
    """Flop of a convolution: each output pixel of each image needs every weight once."""
    return 2 * out.shape[0] * prod(out.shape[2:]) * prod(weight.shape)


def _parse_integers(text: str) -> list[int]:
    """Integers of a list that was written as text.

    >>> _parse_integers("[3, -1]")
    [3, -1]
    """
    return [int(n) for n in re.findall(r"-?\d+", text)]


def _convolution_backward_rule(mask: int) -> Rule:
    """Backward pass of a convolution: (gradient, input, weight, …).

    `mask` is the position of the argument that says which gradients are asked for.
    """

    def rule(tensors: Tensors, settings: Settings) -> OpWork:
        gradient, x, weight = tensors[:3]
        wanted = re.findall("True|False", settings[mask])
        of = [t for t, say in zip((x, weight), wanted, strict=False) if say == "True"]
        return OpWork(
            len(of) * _convolution_flop(gradient, weight), _bytes_moved((gradient, x, weight), *of)
        )

    return rule


def _attention_rule(causal: int, length: int = 2) -> Rule:
    """Attention of (query, key, value), each (batch, heads, length, width).

    Parameters
    ----------
    causal : position of the argument that says whether a mask is causal
    length : place of the length in a shape; 1 where it stands before the heads
    """

    def rule(tensors: Tensors, settings: Settings) -> OpWork:
        q, k, v = tensors[:3]
        flop = 2 * _attention_scores(q, k, settings, causal, length) * (q.shape[3] + v.shape[3])
        out = Operand(q.dtype, (*q.shape[:3], v.shape[3]))
        return OpWork(flop, _bytes_moved(tensors if length == 2 else tensors[:3], out))

    return rule


def _attention_backward_rule(causal: int) -> Rule:
    """Backward pass of attention: (gradient, query, key, value, …); scores are computed again."""

    def rule(tensors: Tensors, settings: Settings) -> OpWork:
        q, k, v = tensors[1:4]
        flop = 2 * _attention_scores(q, k, settings, causal) * (3 * q.shape[3] + 2 * v.shape[3])
        return OpWork(flop, _bytes_moved(tensors, q, k, v))

    return rule


def _attention_scores(
    q: Operand, k: Operand, settings: Settings, causal: int, length: int = 2
) -> float:
    """Scores of queries and keys, half of them where a mask is said to be causal."""
    masked = settings[causal : causal + 1] == ["True"]
    return prod(q.shape[:3]) * k.shape[length] * (0.5 if masked else 1.0)


def _input_gradient_work(tensors: Tensors, _: Settings) -> OpWork:
    """Gradient of a convolution's input: (gradient, weight), and the input's shape before."""
    gradient, weight = [t for t in tensors if len(t.shape) >= 3][:2]
    flop = _convolution_flop(gradient, weight)
    return OpWork(flop, 2 * gradient.bytes + weight.bytes)


def _weight_gradient_work(tensors: Tensors, settings: Settings) -> OpWork:
    """Gradient of a convolution's weight: (gradient, input), and the weight's shape before.

    Without that shape, the operands of the operator around it: (input, gradient, weight).
    """
    three = [t for t in tensors if len(t.shape) >= 3]
    if settings:
        gradient, x = three[:2]
        weight = Operand(x.dtype, tuple(_parse_integers(settings[0])))
    else:
        x, gradient, weight = three
    return OpWork(_convolution_flop(gradient, weight), _bytes_moved((gradient, x), weight))


def _fused_adam_work(tensors: Tensors, _: Settings) -> OpWork:
    """Adam on lists (weights, gradients, mean, variance, …): all but the gradients are written."""
    weights, _gradients, mean, variance = tensors[:4]
    return OpWork(0, _bytes_moved(tensors, weights, mean, variance))


def _binary_work(tensors: Tensors, settings: Settings) -> OpWork:
    """Pointwise operators of two operands; a third is the place of the result."""
    return _pointwise_work(tensors[:2], settings)


def _pointwise_work(tensors: Tensors, _: Settings) -> OpWork:
    """Operators with one result as large as the largest operand."""
    largest = max(tensors, key=lambda t: prod(t.shape))
    return OpWork(0, _bytes_moved(tensors, largest))


def _first_operand_sized_work(tensors: Tensors, _: Settings) -> OpWork:
    """Operators with one result of the shape of the first operand."""
    return OpWork(0, _bytes_moved(tensors, tensors[0]))


def _batch_norm_work(tensors: Tensors, _: Settings) -> OpWork:
    """Norm over all images of a channel: its input is read for the sums, and to be scaled."""
    return OpWork(0, _bytes_moved(tensors, tensors[0], tensors[0]))


def _batch_norm_backward_work(tensors: Tensors, _: Settings) -> OpWork:
    """Backward pass of (gradient, input, …), both read twice; miopen's has them the other way."""
    one, other = tensors[:2]
    return OpWork(0, _bytes_moved(tensors, one, other, one))


def _reduction_work(tensors: Tensors, settings: Settings) -> OpWork:
    """Sum or mean of some dimensions, where they are told."""
    x = tensors[0]
    if not settings:
        return OpWork(0, x.bytes)
    dims = _parse_integers(settings[1]) if settings[1].startswith("[") else range(len(x.shape))
    out = prod(x.shape) // max(prod(x.shape[d] for d in dims), 1)
    return OpWork(0, _bytes_moved((x, Operand(x.dtype, (out,)))))


def _row_lookup_work(tensors: Tensors, _: Settings) -> OpWork:
    """Rows of a table, (table, indices): read and written."""
    table, index = tensors[:2]
    return OpWork(0, index.bytes + 2 * prod(index.shape) * _row_bytes(table))


def _lookup_gradient_work(tensors: Tensors, _: Settings) -> OpWork:
    """Rows of (gradient, indices) added to those of a table."""
    gradient, index = tensors[:2]
    return OpWork(0, index.bytes + 3 * gradient.bytes)


def _row_bytes(table: Operand) -> int:
    return table.bytes // table.shape[0]


def _index_add_work(tensors: Tensors, _: Settings) -> OpWork:
    """Rows of the last operand added to those of the first."""
    return OpWork(0, _bytes_moved(tensors[:3], tensors[0]))


def _top_k_work(tensors: Tensors, settings: Settings) -> OpWork:
    """The largest so many of each row, and their places."""
    x, count = tensors[0], int(settings[1])
    found = prod(x.shape[:-1]) * count
    return OpWork(0, _bytes_moved((x, Operand(x.dtype, (found,)), Operand("int64", (found,)))))


def _nll_loss_work(tensors: Tensors, _: Settings) -> OpWork:
    """One number of each row of (logarithms, classes); their mean, and how many they are."""
    x, target = tensors[:2]
    read = Operand(x.dtype, (prod(target.shape) + 2,))
    return OpWork(0, _bytes_moved((target, read)))


def _nll_loss_backward_work(tensors: Tensors, _: Settings) -> OpWork:
    """Gradient of (gradient, logarithms, classes, …, count): all is written, little read."""
    gradient, x, target = tensors[:3]
    return OpWork(0, _bytes_moved((gradient, x, target, tensors[-1])))


def _max_pool_work(tensors: Tensors, settings: Settings) -> OpWork:
    """Largest number of each window of (input, window, stride, padding, spread), and its place."""
    x = tensors[0]
    window, step, pad, spread = (_parse_integers(settings[i]) for i in range(1, 5))
    more = [s - 1 if settings[5] == "True" else 0 for s in step or window]
    sides = zip(x.shape[-2:], window, step or window, pad, spread, more, strict=True)
    out = [(n + 2 * p - d * (w - 1) - 1 + m) // s + 1 for n, w, s, p, d, m in sides]
    shape = (*x.shape[:-2], *out)
    return OpWork(0, _bytes_moved((x, Operand(x.dtype, shape), Operand("int64", shape))))


def _max_pool_backward_work(tensors: Tensors, _: Settings) -> OpWork:
    """Gradient of (gradient, input, places): as large as the input, which is not read."""
    return OpWork(0, _bytes_moved(tensors))


def _zeros_work(tensors: Tensors, settings: Settings) -> OpWork:
    """New tensor of the size that is told."""
    return OpWork(0, Operand(tensors[0].dtype, tuple(_parse_integers(settings[1]))).bytes)


def _first_operand_only_work(tensors: Tensors, _: Settings) -> OpWork:
    """Operators that only read or only write their first operand; the rest is small beside it."""
    return OpWork(0, tensors[0].bytes)


def _copy_work(tensors: Tensors, _: Settings) -> OpWork:
    """Copy between the first two operands."""
    return OpWork(0, _bytes_moved(tensors[:2]))


BINARY = ("add", "div", "mul", "sub")
POINTWISE = """
    abs addcdiv addcmul bitwise_and clamp clamp_min cos eq exp ge gelu gelu_backward gt
    le lerp log lt masked_fill maximum minimum ne neg pow reciprocal relu rsqrt rsub sigmoid
    sigmoid_backward silu silu_backward sin sqrt tanh tanh_backward threshold_backward where
""".split()  # noqa: SIM905  one word a name
LIKE_FIRST = """
    _log_softmax _log_softmax_backward_data _softmax _softmax_backward_data native_layer_norm
    native_layer_norm_backward
""".split()  # noqa: SIM905
NORMS_OF_IMAGES = ("native", "cudnn", "miopen")
ONE_TENSOR = """
    bernoulli_ fill_ linalg_vector_norm normal_ ones_like uniform_ zero_ zeros_like
""".split()  # noqa: SIM905  one word a name

RULES: dict[str, Rule] = {
    **dict.fromkeys(("mm", "addmm", "bmm", "baddbmm"), _matmul_work),
    "_scaled_mm": _scaled_matmul_work,
    "linear": _linear_layer_work,
    # as ATen's native_functions.yaml orders their arguments
    "mkldnn_convolution": _convolution_rule(3, 4, 5),
    "miopen_convolution": _convolution_rule(3, 4, 5),
    "cudnn_convolution": _convolution_rule(2, 3, 4),
    "convolution": _convolution_rule(4, 3, 5),
    **dict.fromkeys(("_fused_adam_", "_fused_adamw_"), _fused_adam_work),
    "_slow_conv2d_forward": _convolution_rule(5, 4),
    "convolution_backward": _convolution_backward_rule(10),
    "cudnn_convolution_backward_input": _input_gradient_work,
    "cudnn_convolution_backward_weight": _weight_gradient_work,
    "_slow_conv2d_backward": _convolution_backward_rule(6),
    "_scaled_dot_product_flash_attention_for_cpu": _attention_rule(4),
    "_scaled_dot_product_flash_attention": _attention_rule(4),
    "_scaled_dot_product_efficient_attention": _attention_rule(6),
    "_flash_attention_forward": _attention_rule(8, length=1),
    "_scaled_dot_product_flash_attention_for_cpu_backward": _attention_backward_rule(7),
    "_scaled_dot_product_flash_attention_backward": _attention_backward_rule(11),
    "_scaled_dot_product_efficient_attention_backward": _attention_backward_rule(11),
    **dict.fromkeys([*BINARY, *(f"{name}_" for name in BINARY)], _binary_work),
    **dict.fromkeys([*POINTWISE, *(f"{name}_" for name in POINTWISE)], _pointwise_work),
    **dict.fromkeys(LIKE_FIRST, _first_operand_sized_work),
    **{f"{of}_batch_norm": _batch_norm_work for of in NORMS_OF_IMAGES},
    **{f"{of}_batch_norm_backward": _batch_norm_backward_work for of in NORMS_OF_IMAGES},
    **dict.fromkeys(("sum", "mean"), _reduction_work),
    **dict.fromkeys(("embedding", "index_select"), _row_lookup_work),
    "embedding_dense_backward": _lookup_gradient_work,
    **dict.fromkeys(("index_add", "index_add_"), _index_add_work),
    "topk": _top_k_work,
    "nll_loss_forward": _nll_loss_work,
    "nll_loss_backward": _nll_loss_backward_work,
    "max_pool2d_with_indices": _max_pool_work,
    "max_pool2d_with_indices_backward": _max_pool_backward_work,
    "new_zeros": _zeros_work,
    "copy_": _copy_work,
    "clone": _first_operand_sized_work,
    **dict.fromkeys(ONE_TENSOR, _first_operand_only_work),
}
