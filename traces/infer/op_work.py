"""Flop and bytes of a recorded operator, computed from its arguments.

Flop are the multiplications and additions of GEMMs, convolutions and attention; for attention with
a causal mask, half of them. Bytes are those of every tensor, read or written once. Exception: a
batch norm reads its input twice, for the sums and for scaling. Lookup tables count only the rows
that are touched. Other arithmetic counts as 0 flop, because pointwise ops are bound by memory. The
work is unknown if an operator has no rule here, or if its arguments do not fit the rule. Described
models count in the same way (``models/training/``); tests compare both.

An operator may launch several kernels (split sums, transposed layouts, both gradients of a
convolution). The kernel names show which of them multiply; these divide the operator's flop and
bytes. Each other kernel reads and writes one tensor of mean size. If no kernel multiplies, all
divide the work.
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
    """Flop and bytes of an operator; NaN if unknown."""

    flop: float
    bytes: Bytes


UNKNOWN = OpWork(nan, nan)
Rule = Callable[[Tensors, Settings], OpWork]


@lru_cache(maxsize=1 << 14)
def op_work(name: str, shapes: str, dtypes: str, scalars: str) -> OpWork:
    """Flop and bytes of one call of an operator.

    Parameters
    ----------
    name : name of the operator
    shapes, dtypes, scalars : texts about its arguments, as the profiler writes them

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
    """True if a kernel does the multiplications of its operator (GEMM or convolution), by its name.

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
    """True if a kernel only computes indices for its operator's other kernels, by its name.

    >>> is_index_kernel("cask_cudnn::computeBOffsetsKernel(cask_cudnn::ComputeBOffsetsParams)")
    True
    """
    return bool(PREPARES.search(kernel))


def multiplication_savings(kernel: str) -> float:
    """Factor by which an operator with this kernel needs fewer multiplications; 1 for most kernels.

    Winograd convolution with 3x3 weights and 4x4 output tiles needs 36 multiplications in place of
    144 (Lavin and Gray 2016, arXiv:1509.09308), done by a separate kernel. Kernels that transform
    and multiply in one pass lose what they save, so their factor is 1.

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
    """Part of an operator's work that one of its kernels does.

    Parameters
    ----------
    work : work of the operator
    tensors : number of tensors that the operator reads and writes
    multiplies : True if this kernel multiplies
    multiplying_kernels : number of the operator's kernels that multiply
    kernels : number of kernels of the operator

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
    """Total bytes of the operands read and the results written."""
    return sum(t.bytes for t in (*tensors, *written))


def _matmul_work(tensors: Tensors, _: Settings) -> OpWork:
    """Work of a GEMM of the last two operands: (…, m, k) by (…, k, n)."""
    a, b = tensors[-2], tensors[-1]
    *batch, m, k = a.shape
    if b.shape[-2] != k:
        raise ValueError
    out = Operand(a.dtype, (*batch, m, b.shape[-1]))
    return OpWork(2 * k * prod(out.shape), _bytes_moved(tensors, out))


def _scaled_matmul_work(tensors: Tensors, _: Settings) -> OpWork:
    """Work of a scaled GEMM: (m, k) by (k, n), then scales; the result is bf16."""
    a, b = tensors[:2]
    if b.shape[-2] != a.shape[-1]:
        raise ValueError
    out = Operand("bf16", (*a.shape[:-1], b.shape[-1]))
    return OpWork(2 * a.shape[-1] * prod(out.shape), _bytes_moved(tensors, out))


def _linear_layer_work(tensors: Tensors, _: Settings) -> OpWork:
    """Work of a linear layer (input, weight, …): (…, k) by (n, k)."""
    x, weight = tensors[0], tensors[1]
    out = Operand(x.dtype, (*x.shape[:-1], weight.shape[0]))
    return OpWork(2 * prod(x.shape) * weight.shape[0], _bytes_moved(tensors, out))


def _convolution_rule(padding: int, stride: int, dilation: int | None = None) -> Rule:
    """Rule for a convolution (input, weight, …); the parameters are positions of its arguments."""

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
    """Flop of a convolution: each output pixel of each image uses every weight once."""
    return 2 * out.shape[0] * prod(out.shape[2:]) * prod(weight.shape)


def _parse_integers(text: str) -> list[int]:
    """Integers of a list written as text.

    >>> _parse_integers("[3, -1]")
    [3, -1]
    """
    return [int(n) for n in re.findall(r"-?\d+", text)]


def _convolution_backward_rule(mask: int) -> Rule:
    """Rule for the backward pass of a convolution: (gradient, input, weight, …).

    `mask` is the position of the argument that selects the gradients to compute.
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
    """Rule for attention of (query, key, value), each (batch, heads, length, width).

    Parameters
    ----------
    causal : position of the argument that says if the mask is causal
    length : axis of the sequence length; 1 if it comes before the heads
    """

    def rule(tensors: Tensors, settings: Settings) -> OpWork:
        q, k, v = tensors[:3]
        flop = 2 * _attention_scores(q, k, settings, causal, length) * (q.shape[3] + v.shape[3])
        out = Operand(q.dtype, (*q.shape[:3], v.shape[3]))
        return OpWork(flop, _bytes_moved(tensors if length == 2 else tensors[:3], out))

    return rule


def _attention_backward_rule(causal: int) -> Rule:
    """Rule for the backward pass of attention: (gradient, query, key, value, …).

    It includes recomputation of the scores.
    """

    def rule(tensors: Tensors, settings: Settings) -> OpWork:
        q, k, v = tensors[1:4]
        flop = 2 * _attention_scores(q, k, settings, causal) * (3 * q.shape[3] + 2 * v.shape[3])
        return OpWork(flop, _bytes_moved(tensors, q, k, v))

    return rule


def _attention_scores(
    q: Operand, k: Operand, settings: Settings, causal: int, length: int = 2
) -> float:
    """Number of attention scores of queries and keys; half of them with a causal mask."""
    masked = settings[causal : causal + 1] == ["True"]
    return prod(q.shape[:3]) * k.shape[length] * (0.5 if masked else 1.0)


def _input_gradient_work(tensors: Tensors, _: Settings) -> OpWork:
    """Work of the gradient of a convolution's input: input shape, then (gradient, weight)."""
    gradient, weight = [t for t in tensors if len(t.shape) >= 3][:2]
    flop = _convolution_flop(gradient, weight)
    return OpWork(flop, 2 * gradient.bytes + weight.bytes)


def _weight_gradient_work(tensors: Tensors, settings: Settings) -> OpWork:
    """Work of the gradient of a convolution's weight: weight shape, then (gradient, input).

    If the weight's shape is missing, the operands are those of the enclosing operator: (input,
    gradient, weight).
    """
    three = [t for t in tensors if len(t.shape) >= 3]
    if settings:
        gradient, x = three[:2]
        weight = Operand(x.dtype, tuple(_parse_integers(settings[0])))
    else:
        x, gradient, weight = three
    return OpWork(_convolution_flop(gradient, weight), _bytes_moved((gradient, x), weight))


def _fused_adam_work(tensors: Tensors, _: Settings) -> OpWork:
    """Work of fused Adam on lists (weights, gradients, mean, variance, …).

    Gradients are only read.
    """
    weights, _gradients, mean, variance = tensors[:4]
    return OpWork(0, _bytes_moved(tensors, weights, mean, variance))


def _binary_work(tensors: Tensors, settings: Settings) -> OpWork:
    """Work of a pointwise operator with two operands; a third one is the output tensor."""
    return _pointwise_work(tensors[:2], settings)


def _pointwise_work(tensors: Tensors, _: Settings) -> OpWork:
    """Work of an operator whose result has the size of its largest operand."""
    largest = max(tensors, key=lambda t: prod(t.shape))
    return OpWork(0, _bytes_moved(tensors, largest))


def _first_operand_sized_work(tensors: Tensors, _: Settings) -> OpWork:
    """Work of an operator whose result has the shape of its first operand."""
    return OpWork(0, _bytes_moved(tensors, tensors[0]))


def _batch_norm_work(tensors: Tensors, _: Settings) -> OpWork:
    """Work of a batch norm; its input is read twice, for the sums and for scaling."""
    return OpWork(0, _bytes_moved(tensors, tensors[0], tensors[0]))


def _batch_norm_backward_work(tensors: Tensors, _: Settings) -> OpWork:
    """Work of the backward pass of batch norm: (gradient, input, …), both read twice.

    MIOpen's operator has the two in the opposite order.
    """
    one, other = tensors[:2]
    return OpWork(0, _bytes_moved(tensors, one, other, one))


def _reduction_work(tensors: Tensors, settings: Settings) -> OpWork:
    """Work of a sum or mean over some dimensions, if these are recorded."""
    x = tensors[0]
    if not settings:
        return OpWork(0, x.bytes)
    dims = _parse_integers(settings[1]) if settings[1].startswith("[") else range(len(x.shape))
    out = prod(x.shape) // max(prod(x.shape[d] for d in dims), 1)
    return OpWork(0, _bytes_moved((x, Operand(x.dtype, (out,)))))


def _row_lookup_work(tensors: Tensors, _: Settings) -> OpWork:
    """Work of a row lookup (table, indices): the rows are read and written."""
    table, index = tensors[:2]
    return OpWork(0, index.bytes + 2 * prod(index.shape) * _row_bytes(table))


def _lookup_gradient_work(tensors: Tensors, _: Settings) -> OpWork:
    """Work of adding rows of (gradient, indices) to rows of a table."""
    gradient, index = tensors[:2]
    return OpWork(0, index.bytes + 3 * gradient.bytes)


def _row_bytes(table: Operand) -> int:
    return table.bytes // table.shape[0]


def _index_add_work(tensors: Tensors, _: Settings) -> OpWork:
    """Work of adding the rows of the last operand to rows of the first."""
    return OpWork(0, _bytes_moved(tensors[:3], tensors[0]))


def _top_k_work(tensors: Tensors, settings: Settings) -> OpWork:
    """Work of top-k: the k largest values of each row, and their indices."""
    x, count = tensors[0], int(settings[1])
    found = prod(x.shape[:-1]) * count
    return OpWork(0, _bytes_moved((x, Operand(x.dtype, (found,)), Operand("int64", (found,)))))


def _nll_loss_work(tensors: Tensors, _: Settings) -> OpWork:
    """Work of the NLL loss: reads one value per row, writes the mean and the count."""
    x, target = tensors[:2]
    read = Operand(x.dtype, (prod(target.shape) + 2,))
    return OpWork(0, _bytes_moved((target, read)))


def _nll_loss_backward_work(tensors: Tensors, _: Settings) -> OpWork:
    """Work of the gradient of the NLL loss: the complete gradient is written, little is read."""
    gradient, x, target = tensors[:3]
    return OpWork(0, _bytes_moved((gradient, x, target, tensors[-1])))


def _max_pool_work(tensors: Tensors, settings: Settings) -> OpWork:
    """Work of max pooling: writes the maximum of each window and its index.

    Arguments: (input, window, stride, padding, dilation).
    """
    x = tensors[0]
    window, step, pad, spread = (_parse_integers(settings[i]) for i in range(1, 5))
    more = [s - 1 if settings[5] == "True" else 0 for s in step or window]
    sides = zip(x.shape[-2:], window, step or window, pad, spread, more, strict=True)
    out = [(n + 2 * p - d * (w - 1) - 1 + m) // s + 1 for n, w, s, p, d, m in sides]
    shape = (*x.shape[:-2], *out)
    return OpWork(0, _bytes_moved((x, Operand(x.dtype, shape), Operand("int64", shape))))


def _max_pool_backward_work(tensors: Tensors, _: Settings) -> OpWork:
    """Work of the gradient of max pooling: as large as the input, which is not read."""
    return OpWork(0, _bytes_moved(tensors))


def _zeros_work(tensors: Tensors, settings: Settings) -> OpWork:
    """Work of creating a tensor of the recorded size."""
    return OpWork(0, Operand(tensors[0].dtype, tuple(_parse_integers(settings[1]))).bytes)


def _first_operand_only_work(tensors: Tensors, _: Settings) -> OpWork:
    """Work of an operator that only reads or only writes its first operand.

    Other operands are small.
    """
    return OpWork(0, tensors[0].bytes)


def _copy_work(tensors: Tensors, _: Settings) -> OpWork:
    """Work of a copy between the first two operands."""
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
