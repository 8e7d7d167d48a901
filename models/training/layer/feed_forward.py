"""Feed-forward network of a layer: dense, or a mixture of experts with token exchange."""

from __future__ import annotations

from ....sim.facts.signature import WIDTH
from ....sim.facts.splits import all_to_all_name
from ..description.description import Experts, Transformer
from .operations import (
    EXPERT,
    Operation,
    Split,
    Work,
    collective_work,
    column_parallel,
    compute_signature,
    linear,
    memory_op,
    quantize_works,
    row_parallel,
)


def feed_forward(model: Transformer, split: Split, inner: int = 0) -> tuple[Operation, ...]:
    """Dense feed-forward network: two GEMMs with an activation between them.

    Parameters
    ----------
    inner : width of the network; default: that of the model

    Examples
    --------
    >>> tiny = Transformer(hidden=8, layers=1, heads=2, vocabulary=10, inner=32)
    >>> sum(o.weights for o in feed_forward(tiny, Split(batch=1, sequence=4)))
    552
    """
    wide, bias = inner or model.inner, model.block.biases == "all"
    outputs = (2 if model.block.gated else 1) * wide
    return (
        column_parallel("feed-forward in", split.tokens, model.hidden, outputs, split, bias=bias),
        activation(model.block.gated, split.tokens, wide // split.tensor, split),
        row_parallel("feed-forward out", split.tokens, wide, model.hidden, split, bias=bias),
    )


def activation(gated: bool, rows: int, width: int, split: Split, batch: int = 1) -> Operation:
    """SwiGLU of adjacent gate and value, or GELU; saves its input.

    Parameters
    ----------
    batch : number of experts, each with ``rows`` rows

    Examples
    --------
    >>> activation(True, 4, 8, Split(batch=1, sequence=4)).kept
    128.0
    """
    dtype = split.precision.activations
    size = float(WIDTH[dtype] * batch * rows * width)
    several = (batch, rows) if batch > 1 else (rows,)
    one = (*several, width)
    if gated:
        both = (*several, 2 * width)
        forward = Work(
            "swiglu", compute_signature("aten::silu_and_mul", (dtype, both)), 0.0, 3 * size
        )
        backward = memory_op("swiglu backward", "aten::silu_and_mul_backward", dtype,
                            [one, both], 2 * size)  # fmt: skip
        return Operation((forward,), (backward,), 2 * size)
    return Operation(
        (memory_op("gelu", "aten::gelu", dtype, [one], size),),
        (memory_op("gelu backward", "aten::gelu_backward", dtype, [one, one], size),),
        size,
    )


def mixture(model: Transformer, experts: Experts, split: Split) -> tuple[Operation, ...]:
    """Mixture of experts: routing, token exchange, grouped GEMMs, exchange back.

    Each rank has ``count / expert`` experts, and their tokens come from all ranks of its expert
    group (GShard, Lepikhin et al. 2020, arXiv:2006.16668).

    Examples
    --------
    >>> from ..description.description import BlockOptions
    >>> tiny = Transformer(hidden=8, layers=1, heads=2, vocabulary=10, inner=32,
    ...     block=BlockOptions(biases="none", gated=True), experts=Experts(4, 2, 32))
    >>> sum(o.weights for o in mixture(tiny, tiny.experts, Split(batch=1, sequence=4)))
    3104
    """
    own, here = split.own_tokens, experts.count // split.expert
    pairs = own * experts.chosen
    by_experts = experts.chosen_by == "experts"
    rows = _rows_of_each_expert(pairs, here, split)
    plain = split.precision.activations
    inputs = (2 if model.block.gated else 1) * experts.inner
    before = after = _permutation(pairs, model.hidden, split)
    if by_experts:
        before = _gather_chosen_rows(own, pairs, model.hidden, split)
        after = _sum_expert_outputs(own, pairs, model.hidden, split)
    input_dtype = split.precision.to_experts if split.expert > 1 and split.tensor == 1 else ""
    parts = [
        *([_branch_to_router_and_experts(own, model.hidden, split)] if by_experts else []),
        linear("router", own, model.hidden, experts.count, split, dtype=plain, saves_input=False),
        _selection(own, experts, split),
        before,
        *([_dispatch(pairs, own, model.hidden, split)] if split.expert > 1 else []),
        column_parallel("experts in", rows, model.hidden, inputs, split, batch=here, expert=True,
                        input_dtype=input_dtype),
        activation(model.block.gated, rows, experts.inner // split.tensor, split, batch=here),
        row_parallel("experts out", rows, experts.inner, model.hidden, split, batch=here,
                     expert=True, gradient_dtype=input_dtype),
        *([_combine(pairs, own, model.hidden, split)] if split.expert > 1 else []),
        after,
        *([_weighting(own, experts.count, model.hidden, split)] if by_experts else []),
    ]  # fmt: skip
    if experts.shared:
        parts += feed_forward(model, split, experts.shared * experts.inner)
    return tuple(parts)


def _rows_of_each_expert(pairs: int, here: int, split: Split) -> int:
    """Number of tokens per expert of a rank, from all ranks of its group, assuming equal load."""
    ways = split.tensor if split.sequence_parallel else 1
    return max(round(pairs * ways * split.imbalance / here), 1)


def _selection(rows: int, experts: Experts, split: Split) -> Operation:
    """Router softmax and top-k selection, with a learned bias if the model has one.

    Before the library's token exchange, the host waits for the number of tokens per expert. The
    low-latency exchange has space for all tokens and reads the counts on the GPU.
    """
    shape = ("fp32", (rows, experts.count))
    size = 4.0 * rows * experts.count
    forward = [Work("routing", compute_signature("aten::_softmax", shape), 0.0, 2 * size)]
    if experts.chosen_by == "experts":
        found = (WIDTH["fp32"] + WIDTH["int64"]) * rows * experts.chosen
        choice = compute_signature("aten::topk", ("fp32", (experts.count, rows)))
        forward.append(Work("choice of tokens", choice, 0.0, size + found))
    waits = split.expert > 1 and split.exchange == "normal"
    forward[-1] = forward[-1]._replace(awaited=waits)
    back = compute_signature("aten::_softmax_backward_data", shape, shape)
    return Operation(
        tuple(forward),
        (Work("routing backward", back, 0.0, 3 * size),),
        size,
        ((experts.count,),) if experts.selection_bias else (),
    )


def _gather_chosen_rows(rows: int, pairs: int, hidden: int, split: Split) -> Operation:
    """Gather of the rows that experts have chosen (expert choice)."""
    dtype = split.precision.activations
    whole = float(WIDTH[dtype] * rows * hidden)
    zeros = Work(
        "choice zeros", compute_signature("aten::new_zeros", (dtype, (pairs, hidden))), 0.0, whole
    )
    return Operation(
        (_read_rows_by_index("choice", rows, pairs, hidden, dtype),),
        (zeros, _add_rows_by_index("choice backward", rows, pairs, hidden, dtype)),
        float(WIDTH["int64"] * pairs),
    )


def _branch_to_router_and_experts(rows: int, hidden: int, split: Split) -> Operation:
    """Use of tokens by router and experts: no op forward, the sum of both gradients backward."""
    dtype, size = split.precision.activations, float(split.width * rows * hidden)
    sums = memory_op("router and choice backward", "aten::add", dtype, [(rows, hidden)] * 2, size)
    return Operation((), (sums,))


def _sum_expert_outputs(rows: int, pairs: int, hidden: int, split: Split) -> Operation:
    """Sum of the expert outputs of each token (expert choice)."""
    dtype = split.precision.activations
    whole = float(WIDTH[dtype] * rows * hidden)
    zeros = Work(
        "sum zeros", compute_signature("aten::zeros_like", (dtype, (rows, hidden))), 0.0, whole
    )
    return Operation(
        (zeros, _add_rows_by_index("sum of experts", rows, pairs, hidden, dtype)),
        (_read_rows_by_index("sum of experts backward", rows, pairs, hidden, dtype),),
    )


def _weighting(rows: int, count: int, hidden: int, split: Split) -> Operation:
    """Multiplication of tokens by the sum of their router weights."""
    dtype, whole, column = split.precision.activations, (rows, hidden), (rows, 1)
    size, few = float(WIDTH[dtype] * rows * hidden), float(WIDTH[dtype] * rows)
    times = memory_op("weighting", "aten::mul", dtype, [whole, column], size)
    return Operation(
        (memory_op("weights", "aten::sum", dtype, [(rows, count)], few), times),
        (
            memory_op("weights backward", "aten::mul", dtype, [whole, whole], size),
            times._replace(label="weighting backward"),
            memory_op("sum of weights backward", "aten::sum", dtype, [whole], few),
        ),
        size + few,
    )


def _read_rows_by_index(label: str, rows: int, pairs: int, hidden: int, dtype: str) -> Work:
    """Op that reads rows by index."""
    index = WIDTH["int64"] * pairs
    name = compute_signature("aten::index_select", (dtype, (rows, hidden)), ("int64", (pairs,)))
    return Work(label, name, 0.0, 2.0 * WIDTH[dtype] * pairs * hidden + index)


def _add_rows_by_index(label: str, rows: int, pairs: int, hidden: int, dtype: str) -> Work:
    """Op that adds rows to indexed rows."""
    whole, some = (dtype, (rows, hidden)), (dtype, (pairs, hidden))
    moved = WIDTH[dtype] * (2.0 * rows * hidden + pairs * hidden) + WIDTH["int64"] * pairs
    return Work(
        label, compute_signature("aten::index_add", whole, ("int64", (pairs,)), some), 0.0, moved
    )


def _permutation(pairs: int, hidden: int, split: Split) -> Operation:
    """Permutation of rows into expert order, or back."""
    dtype = split.precision.activations
    size = float(WIDTH[dtype] * pairs * hidden)
    one = memory_op("permutation", "aten::copy_", dtype, [(pairs, hidden)], size)
    return Operation((one,), (one._replace(label="permutation backward"),))


def _dispatch(pairs: int, rows: int, hidden: int, split: Split) -> Operation:
    """Dispatch of tokens to the ranks of their experts; in the backward pass, gradients return."""
    there = _to_experts(pairs, rows, hidden, split, "tokens")
    return Operation(there, (_from_experts(pairs, hidden, split, " backward"),))


def _combine(pairs: int, rows: int, hidden: int, split: Split) -> Operation:
    """Return of expert outputs to the ranks of their tokens; gradients go the other way."""
    there = _to_experts(pairs, rows, hidden, split, "gradients", " backward")
    return Operation((_from_experts(pairs, hidden, split),), there)


def _to_experts(
    pairs: int, rows: int, hidden: int, split: Split, what: str, then: str = ""
) -> tuple[Work, ...]:
    """All-to-all towards the experts in the ``dispatch`` type; rows are cast before it."""
    plain, dtype = split.precision.activations, split.precision.to_experts
    name = all_to_all_name(receive=split.shares, kernel=_kernel(split))
    there = _all_to_all(pairs, hidden, split, name, dtype, then)
    cast = quantize_works(what, rows, hidden, split.precision, plain, dtype, copies=1)
    if not cast and dtype != plain:
        written = float(WIDTH[dtype] * rows * hidden)
        cast = (
            memory_op(f"{what} to {dtype}", "aten::_to_copy", plain, [(rows, hidden)], written),
        )
    return *cast, there


def _from_experts(pairs: int, hidden: int, split: Split, then: str = "") -> Work:
    name = all_to_all_name(send=split.shares, kernel=_kernel(split))
    return _all_to_all(pairs, hidden, split, name, split.precision.activations, then)


def _kernel(split: Split) -> str:
    """Kernel of the token exchange as written in its signature; "" for the library's all-to-all."""
    return "" if split.exchange == "normal" else split.exchange


def exchange_buffers(experts: Experts, hidden: int, split: Split) -> float:
    """Size in B of a rank's buffers for the low-latency exchange, with space for every token.

    There is one row per token of the rank and expert, for sending and for receiving, twice because
    consecutive exchanges alternate (deepseek-ai/DeepEP, csrc/config.hpp, ``LowLatencyLayout``).

    >>> split = Split(batch=1, sequence=128, expert=8, exchange="low-latency")
    >>> exchange_buffers(Experts(256, 8, 2048), 7168, split) / 2**30
    1.75
    """
    if split.exchange == "normal":
        return 0.0
    return 2 * 2 * experts.count * split.own_tokens * hidden * split.width


def _all_to_all(
    pairs: int, hidden: int, split: Split, name: str, dtype: str, then: str = ""
) -> Work:
    """All-to-all of tokens among the ranks that share experts; it ends with the busiest rank."""
    crowded = 1.0 if split.shares else split.imbalance
    numbers = round(pairs * hidden * crowded)
    width = split.precision.width(dtype)
    return collective_work(f"tokens all-to-all{then}", name, EXPERT, dtype, numbers, width=width)
