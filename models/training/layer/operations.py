"""Differentiable operations of a layer: forward ops, backward ops, saved data and weights.

A layer is a sequence of :class:`Operation`, run forward in order and backward in reverse.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from ....sim.facts.signature import WIDTH, Operand, Signature
from .precision import COPIES, PRECISIONS, SCALED, Precision

TENSOR, CONTEXT, EXPERT = "tensor", "context", "expert"  # groups whose members share a layer
RING = "ring"  # instead of a group: the next context-parallel rank
ContextBy = Literal["ring", "all-gather", "ulysses"]
ExchangeBy = Literal["normal", "low-latency"]
Loss = Literal["fused", "written"]
Shape = tuple[int, ...]


class Work(NamedTuple):
    """One op of one rank.

    Parameters
    ----------
    label : purpose of the op
    signature : signature of the op, which backends look up (``docs/signatures.md``)
    flop, bytes : floating-point operations of a GEMM, otherwise 0; bytes moved, or the size of a
        collective in B
    group : participants of a collective; ``RING`` for a message to or from a neighbour in the ring
    beside : number of following ops that do not wait for this one
    of_weights : True if only weight gradients need it, so that it can be delayed
    awaited : True if the host waits for its end before it dispatches more ops
    """

    label: str
    signature: str
    flop: float = 0.0
    bytes: float = 0.0
    group: str = ""
    beside: int = 0
    of_weights: bool = False
    awaited: bool = False


class Operation(NamedTuple):
    """Differentiable operation on one micro-batch.

    Parameters
    ----------
    forward, backward : ops in order
    kept : size in B of the data saved from the forward to the backward pass
    parameters : shapes of the rank's parameters, in the order in which their gradients are computed
    expert : True if the parameters belong to experts, whose copies are on other ranks than those of
        other weights
    core : part of ``kept``, in B, that selective recomputation recreates by running the op again
    tables : number of parameters that the backward pass updates directly, row by row
    kept_for_weights : size in B of the data saved for delayed weight gradients: inputs, and
        gradients of results
    trained : True if the weights are trained; frozen weights have no gradients
    channels : channels of a batch norm, whose statistics are not parameters; 0 for other operations
    """

    forward: tuple[Work, ...] = ()
    backward: tuple[Work, ...] = ()
    kept: float = 0.0
    parameters: tuple[Shape, ...] = ()
    expert: bool = False
    core: float = 0.0
    kept_for_weights: float = 0.0
    tables: int = 0
    trained: bool = True
    channels: int = 0

    @property
    def weights(self) -> int:
        """Number of parameters on the rank."""
        return sum(map(math.prod, self.parameters))


@dataclass(frozen=True)
class Split:
    """Part of a micro-batch and of its layers that one rank processes.

    Parameters
    ----------
    batch, sequence : sequences per micro-batch, and tokens per sequence
    tensor : tensor-parallel degree
    sequence_parallel : True if tensor-parallel ranks divide norms and dropouts by tokens
    context : context-parallel degree
    context_by : how context-parallel ranks combine their queries with all keys
    balanced : True if each context-parallel rank has an early and a late part of the sequence, so
        that causal attention is equal work for all (zigzag)
    place : index of the rank among context-parallel ranks, if their work differs
    document : tokens per document in a packed sequence, which attend only to their own document; 0
        for one document
    expert : expert-parallel degree
    imbalance : tokens of the busiest rank's experts divided by the mean
    exchange : how tokens are sent to experts: the library's all-to-all, or a kernel in which each
        rank writes directly into the memory of the others
    shares : relative number of this rank's tokens that go to the experts of each rank, shape
        (ranks,); () if unknown, in which case all ranks exchange as much as the busiest
    fused_attention : True if attention scores are never written to memory (flash attention)
    loss : ``fused``: one op in each direction; ``written``: the ops of torch
    precision : element types

    Examples
    --------
    >>> Split(batch=2, sequence=1024, tensor=4, sequence_parallel=True).own_tokens
    512
    """

    batch: int
    sequence: int
    tensor: int = 1
    sequence_parallel: bool = False
    context: int = 1
    context_by: ContextBy = "ring"
    balanced: bool = True
    place: int = 0
    document: int = 0
    expert: int = 1
    imbalance: float = 1.0
    exchange: ExchangeBy = "normal"
    shares: tuple[int, ...] = ()
    fused_attention: bool = True
    loss: Loss = "fused"
    precision: Precision = PRECISIONS["bf16"]

    @property
    def tokens(self) -> int:
        """Number of tokens of a micro-batch on this rank, which has a part of each sequence."""
        return self.batch * self.sequence // self.context

    @property
    def documents(self) -> tuple[int, int]:
        """Number of documents of a micro-batch, and tokens of each.

        >>> Split(batch=2, sequence=1024, document=256).documents
        (8, 256)
        """
        length = self.document or self.sequence
        return self.batch * self.sequence // length, length

    @property
    def own_tokens(self) -> int:
        """Number of tokens for which this rank computes norms, dropouts and residual sums."""
        return self.tokens // self.tensor if self.sequence_parallel else self.tokens

    @property
    def width(self) -> float:
        """Bytes per element of an activation."""
        return WIDTH[self.precision.activations]


def select_works(works: Sequence[Work], chosen: Sequence[bool]) -> tuple[Work, ...]:
    """Selected ops of a chain, with overlap counts adapted to the remaining ops."""
    return tuple(
        work._replace(beside=sum(chosen[row + 1 : row + 1 + work.beside]))
        for row, work in enumerate(works)
        if chosen[row]
    )


def compute_signature(name: str, *operands: tuple[str, tuple[int, ...]]) -> str:
    """Signature of a compute op, from its name and operands.

    >>> compute_signature("aten::mm", ("bf16", (4, 8)), ("bf16", (8, 2)))
    'compute:aten::mm bf16[4x8] bf16[8x2]'
    """
    return str(Signature("compute", name, tuple(Operand(*o) for o in operands)))


def gemm_work(
    label: str, m: int, k: int, n: int, dtype: str, width: float, batch: int = 1,
    scales: tuple[float, float] = (0.0, 0.0), bias: bool = False,
) -> Work:  # fmt: skip
    """GEMM of an m x k and a k x n matrix; ``width`` is the size in B of each result element.

    Parameters
    ----------
    scales : bytes of scales read with each element of the two operands

    Examples
    --------
    >>> gemm_work("qkv", 4, 8, 2, "bf16", 2).flop
    128.0
    >>> gemm_work("qkv", 64, 64, 64, "fp8", 2, scales=(1 / 32, 1 / 32)).signature
    'compute:aten::_scaled_mm quantized=1 fp8[64x64] fp8[64x64]'
    >>> gemm_work("qkv", 4, 8, 2, "bf16", 2, bias=True).signature
    'compute:aten::addmm bf16[2] bf16[4x8] bf16[8x2]'
    """
    if bias and batch == 1 and dtype not in SCALED:
        plain = gemm_work(label, m, k, n, dtype, width)
        signature = compute_signature(
            "aten::addmm", (dtype, (n,)), (dtype, (m, k)), (dtype, (k, n))
        )
        return plain._replace(signature=signature, bytes=plain.bytes + WIDTH[dtype] * n)
    name = "aten::bmm" if batch > 1 else "aten::_scaled_mm" if dtype in SCALED else "aten::mm"
    name += " quantized=1" if dtype in SCALED else ""  # by separate ops before
    first: tuple[int, ...] = (m, k) if batch == 1 else (batch, m, k)
    second: tuple[int, ...] = (k, n) if batch == 1 else (batch, k, n)
    one, other = (WIDTH[dtype] + each for each in scales)
    moved = batch * (one * m * k + other * k * n + width * m * n)
    signature = compute_signature(name, (dtype, first), (dtype, second))
    return Work(label, signature, 2.0 * batch * m * k * n, float(moved))


def memory_op(
    label: str, name: str, dtype: str, read: Iterable[tuple[int, ...]], written: float
) -> Work:
    """Op that only moves bytes, with operands of one element type."""
    return work_with_operands(label, name, tuple(Operand(dtype, shape) for shape in read), written)


def work_with_operands(label: str, name: str, read: tuple[Operand, ...], written: float) -> Work:
    """Op that only moves bytes: reads its operands, and writes ``written`` B."""
    signature = str(Signature("compute", name, read))
    return Work(label, signature, 0.0, sum(o.bytes for o in read) + written)


def quantize_works(
    label: str, rows: int, width: int, types: Precision, source: str, dtype: str,
    copies: int = COPIES, weights: bool = False,
) -> tuple[Work, ...]:  # fmt: skip
    """Ops that convert a tensor to or from a low-precision type: it is read once, and written.

    If the scale is the tensor's current maximum, another op reads the tensor before. There are no
    ops if neither type is of low precision, or if the tensor already has all the copies that are
    needed.

    Parameters
    ----------
    source, dtype : element type before and after
    copies : number of copies in the result type: 2 by rows and by columns, 1 by rows only; one less
        if the tensor already has that type, since the copy by rows then exists

    Examples
    --------
    >>> [w.bytes for w in quantize_works("x", 32, 64, PRECISIONS["fp8"], "bf16", "fp8")]
    [8192.0]
    >>> [w.label for w in quantize_works("x", 32, 64, PRECISIONS["nvfp4"], "bf16", "fp4")]
    ['x amax', 'x to fp4']
    """
    copies = copies if dtype in SCALED else 1
    copies -= source == dtype
    if not copies or not {source, dtype} & set(SCALED):
        return ()
    name, read = f"fused::quantize to={dtype}", types.width(source, weights) * rows * width
    if types.scales.block and dtype in SCALED:
        name += f" block={types.scales.block}"
    written = copies * types.width(dtype, weights) * rows * width
    signature = compute_signature(name, (source, (rows, width)))
    cast = Work(f"{label} to {dtype}", signature, 0.0, float(read + written))
    if not types.scales.current or dtype not in SCALED or source == dtype:
        return (cast,)
    return memory_op(f"{label} amax", "aten::amax", source, [(rows, width)], 0.0), cast


def collective_work(
    label: str, name: str, group: str, dtype: str, numbers: int, beside: int = 0, width: float = 0.0
) -> Work:
    """Collective of a group, on a buffer of ``numbers`` elements.

    Parameters
    ----------
    width : bytes per element including scales, which makes it a buffer of bytes; default: that of
        its type

    Examples
    --------
    >>> collective_work("gather", "all-gather", "tensor", "bf16", 10).bytes
    20.0
    >>> collective_work("tokens", "all-to-all", "expert", "fp8", 64, width=1.03125).signature
    'collective:all-to-all uint8[66]'
    """
    operand = Operand(dtype, (numbers,))
    if width > WIDTH[dtype]:
        operand = Operand("uint8", (math.ceil(numbers * width),))
    signature = str(Signature("collective", name, (operand,)))
    return Work(label, signature, 0.0, float(operand.bytes), group, beside)


def linear(
    label: str, rows: int, inputs: int, outputs: int, split: Split, *,
    bias: bool = False, dtype: str = "", overlapped_work: Work | None = None,
    saves_input: bool = True,
    batch: int = 1, expert: bool = False, input_dtype: str = "", gradient_dtype: str = "",
    is_sample: bool = False,
) -> Operation:  # fmt: skip
    """Linear layer: one GEMM forward, two backward.

    Low-precision operands are quantized before all GEMMs that use them: the input in the forward
    pass and the gradient in the backward pass, each by rows and by columns; weights after their
    update.

    Parameters
    ----------
    dtype : element type of the operands; default: that of ``products``
    input_dtype, gradient_dtype : element types of the incoming input, and of the incoming gradient;
        default: that of ``activations``
    overlapped_work : op that may overlap with the weight gradient, once the input gradient is known
    saves_input : True if its input must be saved; False if another operation already saves it
    batch : number of experts, each with ``rows`` rows
    is_sample : True if its input is the samples, which need no gradient

    Examples
    --------
    >>> layer = linear("proj", 16, 8, 4, Split(batch=1, sequence=16), bias=True)
    >>> [w.label for w in layer.backward], layer.kept, layer.weights
    (['proj dgrad', 'proj wgrad', 'proj bias'], 256.0, 36)
    """
    types, width = split.precision, split.width
    kind, every = dtype or types.products, batch * rows
    own, weight = (types.width(kind, w) - WIDTH[kind] for w in (False, True))
    forward = gemm_work(label, rows, inputs, outputs, kind, width, batch, (own, weight), bias)
    input_dtype, gradient_dtype = (
        input_dtype or types.activations,
        gradient_dtype or types.activations,
    )
    before = (
        quantize_works(f"{label} input", every, inputs, types, input_dtype, kind)
        if saves_input
        else ()
    )
    dgrad = gemm_work(f"{label} dgrad", rows, outputs, inputs, kind, width, batch, (own, weight))
    backward = [*quantize_works(f"{label} gradient", every, outputs, types, gradient_dtype, kind)]
    backward += [] if is_sample else [dgrad]
    backward += [overlapped_work] if overlapped_work else []
    of_weights = [
        gemm_work(f"{label} wgrad", inputs, rows, outputs, kind, width, batch, (own, own))
    ]
    if bias:
        shape = (batch * rows, outputs)
        size = float(WIDTH[split.precision.gradients] * outputs)
        dtype = split.precision.activations
        of_weights.append(memory_op(f"{label} bias", "aten::sum", dtype, [shape], size))
    backward += [work._replace(of_weights=True) for work in of_weights]
    kept = float(every * inputs * types.width(kind)) if saves_input else 0.0
    several = (batch,) if batch > 1 else ()
    parameters: tuple[Shape, ...] = ((*several, outputs, inputs),)
    if bias:  # whose gradient is done first
        parameters = ((*several, outputs), *parameters)
    later = kept + width * batch * rows * outputs
    return Operation(
        (*before, forward), tuple(backward), kept, parameters, expert, kept_for_weights=later
    )


def column_parallel(
    label: str, rows: int, inputs: int, outputs: int, split: Split, *,
    bias: bool = False, dtype: str = "", batch: int = 1, expert: bool = False,
    input_dtype: str = "",
) -> Operation:  # fmt: skip
    """Column-parallel linear layer: outputs are divided among tensor-parallel ranks (Megatron's f).

    With sequence parallelism its input is gathered, in the forward and again in the backward pass,
    and only the rank's own tokens are saved (Korthikanti et al. 2022, arXiv:2205.05198, section
    4.2.2). The backward collective overlaps with the weight gradient, as in Megatron-LM.

    Parameters
    ----------
    rows : rows of the complete input
    outputs : outputs of all ranks
    """
    t, dtypes = split.tensor, split.precision.activations
    numbers, bias_here = batch * rows * inputs, bias
    if t == 1:
        return linear(label, rows, inputs, outputs, split, bias=bias_here, dtype=dtype, batch=batch,
                      expert=expert, input_dtype=input_dtype)  # fmt: skip
    name = "reduce-scatter" if split.sequence_parallel else "all-reduce"
    back = collective_work(f"{label} {name}", name, TENSOR, dtypes, numbers, beside=1)
    of = linear(label, rows, inputs, outputs // t, split, bias=bias_here, dtype=dtype,
                overlapped_work=back,
                batch=batch, expert=expert, input_dtype=input_dtype)  # fmt: skip
    if not split.sequence_parallel:
        return of
    gather = collective_work(f"{label} all-gather", "all-gather", TENSOR, dtypes, numbers)
    inputs_gradient = next(n for n, w in enumerate(of.backward) if w.label == f"{label} dgrad")
    again = gather._replace(
        label=f"{label} all-gather again", beside=inputs_gradient + 1, of_weights=True
    )
    return of._replace(
        forward=(gather, *of.forward),
        backward=(again, *of.backward),
        kept=of.kept / t,
        kept_for_weights=of.kept_for_weights - of.kept * (t - 1) / t,
    )


def row_parallel(
    label: str, rows: int, inputs: int, outputs: int, split: Split, *,
    bias: bool = False, dtype: str = "", batch: int = 1, expert: bool = False,
    gradient_dtype: str = "",
) -> Operation:  # fmt: skip
    """Row-parallel linear layer: inputs are divided among tensor-parallel ranks (Megatron's g)."""
    t, dtypes = split.tensor, split.precision.activations
    of = linear(label, rows, inputs // t, outputs, split, bias=bias, dtype=dtype, batch=batch,
                expert=expert, gradient_dtype=gradient_dtype)  # fmt: skip
    if t == 1:
        return of
    numbers = batch * rows * outputs
    if not split.sequence_parallel:
        joined = collective_work(f"{label} all-reduce", "all-reduce", TENSOR, dtypes, numbers)
        return of._replace(forward=(*of.forward, joined))
    scatter = collective_work(f"{label} reduce-scatter", "reduce-scatter", TENSOR, dtypes, numbers)
    gather = collective_work(f"{label} all-gather", "all-gather", TENSOR, dtypes, numbers)
    return of._replace(forward=(*of.forward, scatter), backward=(gather, *of.backward))


def norm(label: str, kind: str, rows: int, width: int, split: Split) -> Operation:
    """Norm of the last dimension, ``rms`` or ``layer``; saves its input.

    >>> norm("norm", "rms", 16, 8, Split(batch=1, sequence=16)).kept
    256.0
    """
    dtype, layer = split.precision.activations, kind == "layer"
    size, one = float(WIDTH[dtype] * rows * width), Operand(dtype, (rows, width))
    name = "aten::native_layer_norm" if layer else "aten::rms_norm"
    weights = (Operand(dtype, (width,)),) * (2 if layer else 1)
    found = (Operand("fp32", (rows, 1)),) * (2 if layer else 0)  # mean and deviation of each row
    return Operation(
        (work_with_operands(label, name, (one, *weights), size),),
        (work_with_operands(f"{label} backward", f"{name}_backward", (one, one, *found, *weights),
                        size),),
        size,
        ((width,),) * len(weights),
    )  # fmt: skip


def residual(label: str, rows: int, width: int, split: Split, dropout: bool) -> Operation:
    """Sum with the residual stream, after a dropout that saves one byte per element."""
    dtype, one = split.precision.activations, (rows, width)
    size = float(WIDTH[dtype] * rows * width)
    name = "aten::native_dropout" if dropout else "aten::add"
    mask = float(rows * width) if dropout else 0.0
    back = [memory_op(f"{label} backward", "aten::add", dtype, [one, one], size)]
    if dropout:
        back.append(memory_op(f"{label} dropout backward", "aten::native_dropout_backward", dtype,
                             [one], size + mask))  # fmt: skip
    return Operation((memory_op(label, name, dtype, [one, one], size + mask),), tuple(back), mask)


def cross_entropy(rows: int, classes: int, split: Split) -> Operation:
    """Cross-entropy loss of fp32 logits; saves the logarithms of all probabilities.

    If ``split.loss`` is ``fused``, the loss works in place, with the passes over the logits that a
    vocabulary divided over ranks needs. If it is ``written``, the ops are those of
    ``torch.nn.functional.cross_entropy``.

    >>> [w.label for w in cross_entropy(4, 8, Split(1, 4, loss="written")).forward]
    ['loss', 'loss of classes']
    """
    logits, size = ("fp32", (rows, classes)), 4.0 * rows * classes
    back = "aten::_log_softmax_backward_data"
    if split.loss == "fused":
        one = Work("loss", compute_signature("aten::_log_softmax", logits), 0.0, 2.5 * size)
        last = Work("loss backward", compute_signature(back, logits, logits), 0.0, 2.5 * size)
        return Operation((one,), (last,), size)
    number, target, named = ("fp32", ()), ("int64", (rows,)), float(WIDTH["int64"] * rows)
    forward = (
        Work("loss", compute_signature("aten::_log_softmax", logits), 0.0, 2 * size),
        Work("loss of classes", compute_signature("aten::nll_loss_forward", logits, target), 0.0,
             named + 4.0 * (rows + 2)),
    )  # fmt: skip
    nll_backward = compute_signature("aten::nll_loss_backward", number, logits, target, number)
    backward = (
        Work("gradient of the loss", compute_signature("aten::ones_like", number), 0.0, 4.0),
        Work("loss of classes backward", nll_backward, 0.0, size + named + 8.0),
        Work("loss backward", compute_signature(back, logits, logits), 0.0, 3 * size),
    )
    return Operation(forward, backward, size)
