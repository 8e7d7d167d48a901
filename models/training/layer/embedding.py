"""First and last layer of a transformer: embeddings, and the output layer with its loss."""

from __future__ import annotations

import math

from ....sim.facts.signature import WIDTH
from ..description.description import Patches, Transformer
from .operations import (
    TENSOR,
    Operation,
    Split,
    Work,
    collective_work,
    column_parallel,
    compute_signature,
    cross_entropy,
    linear,
    memory_op,
    norm,
)


def embedding(model: Transformer, split: Split) -> tuple[Operation, ...]:
    """Lookup in an embedding table divided among tensor-parallel ranks, plus learned positions.

    >>> from ..description.description import TokenOptions
    >>> learned = TokenOptions(positions=4)
    >>> tiny = Transformer(hidden=8, layers=1, heads=2, vocabulary=10, inner=32, tokens=learned)
    >>> sum(o.weights for o in embedding(tiny, Split(batch=1, sequence=4)))
    112
    """
    if model.tokens.patches is not None:
        return _patches(model, model.tokens.patches, split)
    dtype, tokens = split.precision.activations, split.tokens
    rows = -(-model.vocabulary // split.tensor)
    size = float(WIDTH[dtype] * tokens * model.hidden)
    table, whole = (dtype, (rows, model.hidden)), (dtype, (tokens, model.hidden))
    index = ("int64", (tokens,))
    named = WIDTH["int64"] * tokens
    forward = [
        Work("embedding", compute_signature("aten::embedding", table, index), 0.0, 2 * size + named)
    ]
    backward = [
        Work("embedding backward",
             compute_signature("aten::embedding_dense_backward", whole, index), 0.0,
             3 * size + named, of_weights=True)
    ]  # fmt: skip
    if split.tensor > 1:
        names = ("reduce-scatter", "all-gather") if split.sequence_parallel else ("all-reduce", "")
        numbers = tokens * model.hidden
        forward.append(collective_work(f"embedding {names[0]}", names[0], TENSOR, dtype, numbers))
        if names[1]:
            gather = collective_work("embedding all-gather", names[1], TENSOR, dtype, numbers)
            backward.insert(0, gather._replace(of_weights=True))
    weights = ((rows, model.hidden),)
    parts = [Operation(tuple(forward), tuple(backward), 0.0, weights, kept_for_weights=size)]
    parts += _positions(model, split)
    return tuple(parts)


def _patches(model: Transformer, patches: Patches, split: Split) -> tuple[Operation, ...]:
    """Patch embedding by a convolution, with a class token and learned positions."""
    dtype, h, side = split.precision.activations, model.hidden, patches.image // patches.patch
    images = (split.batch, patches.channels, patches.image, patches.image)
    weight = (h, patches.channels, patches.patch, patches.patch)
    out = (split.batch, h, side, side)
    numbers = math.prod(weight)
    flop = 2.0 * split.batch * side**2 * numbers
    moved = float(split.width * (math.prod(images) + math.prod(out) + numbers))
    operands = (dtype, images), (dtype, weight)
    stride = f"stride={patches.patch}"
    back = compute_signature(
        f"aten::convolution_backward {stride} input=0", (dtype, out), *operands
    )
    learnt = moved + split.width * numbers
    vectors = Operation(
        (
            Work(
                "patches", compute_signature(f"aten::convolution {stride}", *operands), flop, moved
            ),
        ),
        (Work("patches backward", back, flop, learnt, of_weights=True),),
        float(split.width * math.prod(images)),
        ((h,), weight, (1, 1, h)),  # a bias, and last the class token
        kept_for_weights=float(split.width * math.prod(out)),
    )
    return (vectors, *_positions(model, split))


def _positions(model: Transformer, split: Split) -> list[Operation]:
    """Learned position and segment embeddings, with the norm and dropout after them."""
    own, one = split.own_tokens, (split.own_tokens, model.hidden)
    dtype, size = split.precision.activations, float(split.width * split.own_tokens * model.hidden)
    if not model.tokens.positions:
        return []
    types = model.encoder.token_types if model.encoder else 0
    mask = float(own * model.hidden) if model.block.dropout else 0.0
    each = (own // split.batch, model.hidden)  # shared by all sequences
    few = float(split.width * math.prod(each))
    forward = [memory_op("positions", "aten::add", dtype, [one, each], size + mask)]
    backward = [memory_op("positions backward", "aten::sum", dtype, [one], few)]
    if model.tokens.patches is None:  # images use all positions
        table, index = (dtype, (model.tokens.positions, model.hidden)), ("int64", each[:1])
        named = WIDTH["int64"] * each[0]
        look = compute_signature("aten::embedding", table, index)
        back = compute_signature("aten::embedding_dense_backward", (dtype, each), index)
        forward.insert(0, Work("position embedding", look, 0.0, 2 * few + named))
        backward.append(Work("position embedding backward", back, 0.0, 3 * few + named))
    weights = tuple((n, model.hidden) for n in (model.tokens.positions, types) if n)
    found = [Operation(tuple(forward), tuple(backward), mask, weights)]
    if model.encoder:
        found.append(norm("embedding norm", model.block.norm, own, model.hidden, split))
    return found


def output(model: Transformer, split: Split) -> tuple[Operation, ...]:
    """Output layer: last norm, GEMM with the vocabulary, cross-entropy of fp32 logits.

    A tied output layer has no weights of its own here. If it is on another pipeline stage than the
    embedding, that stage holds a copy.
    """
    own, plain = split.own_tokens, split.precision.activations
    wide = -(-model.vocabulary // split.tensor) * split.tensor  # padded, as Megatron-LM does
    rows, of_images = _predictions(model, split), model.tokens.patches is not None
    layer = column_parallel("output", rows, model.hidden, wide, split, dtype=plain, bias=of_images)
    parts = [] if model.encoder else [norm("last norm", model.block.norm, own, model.hidden, split)]
    parts += _pooler(model, split)
    parts += [layer._replace(parameters=()) if model.tokens.tied else layer, _loss(model, split)]
    return tuple(parts)


def _predictions(model: Transformer, split: Split) -> int:
    """Number of rows with a prediction: tokens, or images."""
    return split.batch if model.tokens.patches is not None else split.tokens


def _pooler(model: Transformer, split: Split) -> list[Operation]:
    """Pooling layer of an encoder, applied to the first token."""
    if not (model.encoder and model.encoder.pooler):
        return []
    return [linear("pooler", split.batch, model.hidden, model.hidden, split, bias=True)]


def _loss(model: Transformer, split: Split) -> Operation:
    """Cross-entropy over a vocabulary divided among tensor-parallel ranks.

    The ranks exchange three numbers per token: the largest logit, the target's logit, and the sum.
    """
    tokens, here = _predictions(model, split), -(-model.vocabulary // split.tensor)
    loss = cross_entropy(tokens, here, split)
    if split.tensor == 1:
        return loss
    shared = collective_work("loss all-reduce", "all-reduce", TENSOR, "fp32", 3 * tokens)
    return loss._replace(forward=(*loss.forward, shared))
