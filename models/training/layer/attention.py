"""Attention of a layer: projections, rotary embedding, and a fused or unfused core."""

from __future__ import annotations

from ....sim.facts.signature import WIDTH, Operand, Signature
from ..description.description import LatentAttention, Transformer
from .context import (
    BlockWorks,
    ScoreBlock,
    attention_blocks,
    gathered_attention_works,
    gathered_blocks,
    heads_for_tokens,
    ring_attention_works,
)
from .operations import (
    Operation,
    Split,
    Work,
    column_parallel,
    compute_signature,
    gemm_work,
    linear,
    memory_op,
    norm,
    row_parallel,
)

BACKWARD = 2.5  # GEMMs of fused attention backward relative to forward: five against two
MASK = 1  # B of a dropout mask per element


def attention(model: Transformer, split: Split) -> tuple[Operation, ...]:
    """Operations of attention, from the output of the norm to the input of the residual sum.

    Examples
    --------
    >>> tiny = Transformer(hidden=8, layers=1, heads=2, vocabulary=10, inner=32)
    >>> sum(o.weights for o in attention(tiny, Split(batch=1, sequence=4)))
    288
    """
    projected = (
        _projections(model, split)
        if model.attention.latent is None
        else _latent_projections(model, model.attention.latent, split)
    )
    core = (_fused_core if split.fused_attention else _written_core)(model, split)
    output = row_parallel(
        "attention output", split.tokens, model.heads * model.value_width, model.hidden, split,
        bias=model.block.biases == "all",
    )  # fmt: skip
    return (
        *projected,
        *_rotation(model, split),
        *_with_whole_sequences(model, split, core),
        output,
    )


def _projections(model: Transformer, split: Split) -> tuple[Operation, ...]:
    """Query, key and value projection as one GEMM.

    If there are fewer key heads than ranks, each rank computes one complete key head.
    """
    outputs = model.query_width + 2 * max(model.key_value_heads, split.tensor) * model.head_width
    return (
        column_parallel(
            "query, key, value", split.tokens, model.hidden, outputs, split,
            bias=model.block.biases != "none",
        ),
    )  # fmt: skip


def _latent_projections(
    model: Transformer, latent: LatentAttention, split: Split
) -> tuple[Operation, ...]:
    """Latent projections: latent vectors of all tokens on each rank, then the rank's own heads."""
    own, hidden = split.own_tokens, model.hidden
    query = model.heads * (latent.plain + latent.rotary)
    if latent.query_rank:
        queries: tuple[Operation, ...] = (
            linear("query down", own, hidden, latent.query_rank, split),
            norm("query norm", "rms", own, latent.query_rank, split),
            column_parallel("query up", split.tokens, latent.query_rank, query, split),
        )
    else:
        queries = (column_parallel("query", split.tokens, hidden, query, split),)
    both = model.heads * (latent.plain + latent.value)
    return (
        *queries,
        linear(
            "key, value down",
            own,
            hidden,
            latent.key_rank + latent.rotary,
            split,
            saves_input=False,
        ),
        norm("key, value norm", "rms", own, latent.key_rank, split),
        column_parallel("key, value up", split.tokens, latent.key_rank, both, split),
    )


def _rotation(model: Transformer, split: Split) -> tuple[Operation, ...]:
    """Rotary embedding; none if positions are learned."""
    if model.tokens.positions:
        return ()
    dtype, tokens = split.precision.activations, split.tokens
    query = model.query_width // split.tensor
    key = max(model.key_value_heads // split.tensor, 1) * model.head_width
    if model.attention.latent is not None:
        query = model.heads * model.attention.latent.rotary // split.tensor
        key = model.attention.latent.rotary
    head = model.head_width if model.attention.latent is None else model.attention.latent.rotary
    name = f"aten::rotary_embedding head={head}"
    one = compute_signature(name, (dtype, (tokens, query)), (dtype, (tokens, key)))
    moved = 2.0 * WIDTH[dtype] * tokens * (query + key)
    return (
        Operation((Work("rotation", one, 0.0, moved),),
                  (Work("rotation backward", one, 0.0, moved),)),
    )  # fmt: skip


def _with_whole_sequences(
    model: Transformer, split: Split, core: Operation
) -> tuple[Operation, ...]:
    """Attention core, between all-to-alls if context-parallel ranks divide heads (Ulysses)."""
    if split.context == 1 or split.context_by != "ulysses":
        return (core,)
    entering = split.tokens * model.heads // split.tensor * model.head_width
    entering += _keys_and_values(model, split)
    leaving = split.tokens * model.heads // split.tensor * model.value_width
    return (
        heads_for_tokens("query, key, value", entering, split),
        core,
        heads_for_tokens("attention", leaving, split),
    )


def _keys_and_values(model: Transformer, split: Split) -> int:
    """Number of elements in the keys and values of a rank's tokens."""
    shared = max(model.key_value_heads // split.tensor, 1)
    return split.tokens * shared * (model.head_width + model.value_width)


def _fused_core(model: Transformer, split: Split) -> Operation:
    """Flash attention (Dao 2023, arXiv:2307.08691).

    It saves queries, keys, values and one sum per row.
    """
    found = attention_blocks(model.attention.causal, split)
    ring = len(found) > 1 and split.context_by == "ring"
    if len(found) > 1 and not ring:
        found = gathered_blocks(found)
    works = [block and _fused_block(model, split, block) for block in found]
    moved = _keys_and_values(model, split)
    if ring:
        forward, backward = ring_attention_works(works, moved, split)
    elif split.context > 1 and split.context_by == "all-gather":
        forward, backward = gathered_attention_works(works, moved, split)
    else:
        forward = tuple(one.forward for one in works if one)
        backward = tuple(one.backward for one in works if one)
    queries = split.tokens * model.heads // split.tensor
    kept = float(split.width * (queries * model.head_width + moved))
    return Operation(forward, backward, kept + 4.0 * queries)


def _fused_block(model: Transformer, split: Split, block: ScoreBlock) -> BlockWorks:
    """Ops of fused attention for one block of queries and keys."""
    dtype, (b, _) = split.precision.activations, split.documents
    heads, shared = _heads(model, split)
    shapes = (
        (b, heads, block.queries, model.head_width),
        (b, shared, block.keys, model.head_width),
        (b, shared, block.keys, model.value_width),
    )
    operands = [Operand(dtype, shape) for shape in shapes]
    seen = 0.5 if block.causal else 1.0
    scores = seen * b * heads * block.queries * block.keys
    flop = 2.0 * scores * (model.head_width + model.value_width)
    gradient = Operand(dtype, (b, heads, block.queries, model.value_width))
    sums = Operand("fp32", gradient.shape[:-1])  # of each row of scores
    result = float(gradient.bytes)
    read = float(sum(o.bytes for o in operands))
    causal = f"causal={int(block.causal)}"
    forward = str(Signature("compute", f"fused::flash_attention {causal}", tuple(operands)))
    backward = str(
        Signature(
            "compute", f"fused::attention_backward {causal}", (gradient, *operands, gradient, sums)
        )
    )
    return BlockWorks(
        Work("attention", forward, flop, read + result),
        Work("attention backward", backward, BACKWARD * flop,
             2 * read + 2 * result + sums.bytes),
    )  # fmt: skip


def _written_core(model: Transformer, split: Split) -> Operation:
    """Attention that writes its scores to memory: GEMM, softmax, dropout, GEMM.

    It saves queries, keys, values, the softmax, the dropout result and its mask: 5 a s^2 b bytes
    and 6 s b h (Korthikanti et al. 2022, arXiv:2205.05198, section 4.1).
    """
    dtype, width = split.precision.activations, split.width
    heads, shared = _heads(model, split)
    (b, s), w, v = split.documents, model.head_width, model.value_width
    batch = b * heads
    scores, square = (batch, s, s), float(width * batch * s * s)
    mask = float(MASK * batch * s * s) if model.block.dropout else 0.0
    forward = [
        gemm_work("scores", s, w, s, dtype, width, batch),
        memory_op("softmax", "aten::_softmax", dtype, [scores], square),
        gemm_work("attention over values", s, s, v, dtype, width, batch),
    ]
    backward = [
        gemm_work("attention dgrad", s, v, s, dtype, width, batch),
        gemm_work("values wgrad", s, s, v, dtype, width, batch),
        memory_op("softmax backward", "aten::_softmax_backward_data", dtype, [scores] * 2, square),
        gemm_work("queries wgrad", s, s, w, dtype, width, batch),
        gemm_work("keys wgrad", s, s, w, dtype, width, batch),
    ]
    if model.block.dropout:
        drop, back = "aten::native_dropout", "aten::native_dropout_backward"
        forward.insert(2, memory_op("scores dropout", drop, dtype, [scores], square + mask))
        backward.insert(
            2, memory_op("scores dropout backward", back, dtype, [scores], square + mask)
        )
    inputs = width * b * s * (heads * w + shared * (w + v))
    core = square + (square + mask if model.block.dropout else 0.0)
    return Operation(tuple(forward), tuple(backward), inputs + core, core=core)


def _heads(model: Transformer, split: Split) -> tuple[int, int]:
    """Number of query heads and of key heads that one rank computes."""
    ranks = split.tensor * (split.context if split.context_by == "ulysses" else 1)
    return model.heads // ranks, max(model.key_value_heads // ranks, 1)
