"""Pipeline stages: layers of each chunk, and which of them are recomputed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate, chain

from ..description.description import Model, Transformer
from ..layer.layers import (
    Layer,
    dense_layer,
    embedding_layer,
    expert_layer,
    output_layer,
    prediction_layer,
    whole_network,
)
from ..layer.operations import Split, Work, select_works
from .parallel_plan import ParallelPlan
from .schedules import PassKind

Chunk = tuple[Layer, ...]


def model_parts_of_stage(plan: ParallelPlan, stage: int) -> tuple[int, ...]:
    """Index of the model part in each chunk of a stage, counted from the embedding.

    >>> model_parts_of_stage(ParallelPlan(batch=8, sequence=8, pipeline=4, chunks=2), 1)
    (1, 5)
    >>> model_parts_of_stage(ParallelPlan(batch=8, sequence=8, pipeline=4, schedule="dualpipe"), 1)
    (1, 2)
    """
    if plan.is_folded:
        return stage, plan.parts - 1 - stage
    return tuple(chunk * plan.pipeline + stage for chunk in range(plan.chunks))


@lru_cache(maxsize=256)  # cached for the programs, memory and flop of one plan
def chunks_of_stage(
    model: Model, plan: ParallelPlan, stage: int, place: int = 0
) -> tuple[Chunk, ...]:
    """Layers of each chunk of a stage, in forward order.

    Parameters
    ----------
    place : index of the rank among context-parallel ranks, if their work differs

    Examples
    --------
    >>> tiny = Transformer(hidden=8, layers=4, heads=2, vocabulary=10, inner=32)
    >>> plan = ParallelPlan(batch=2, sequence=4, pipeline=2)
    >>> [layer.name for layer in chunks_of_stage(tiny, plan, 1)[0]]
    ['dense layer', 'dense layer', 'output']
    """
    split = plan.split_at(place)
    if not isinstance(model, Transformer):
        return (whole_network(model, split),)
    every = _layers(model, plan.ends, split)
    parts = plan.parts
    ends = tuple(accumulate(plan.stages or [len(every) // parts] * parts, initial=0))
    chunks = []
    for part in model_parts_of_stage(plan, stage):
        chunk = [layer for layer in every[ends[part] : ends[part + 1]] if layer]
        chunk = _with_never_recomputed(chunk, plan.recompute_layers)
        if part == 0:
            chunk.insert(0, embedding_layer(model, split))
        if part == parts - 1:
            chunk.append(output_layer(model, split))
        chunks.append(tuple(chunk))
    return tuple(chunks)


def _with_never_recomputed(chunk: list[Layer], again: int) -> list[Layer]:
    """Layers of a chunk; all after the first ``again`` are marked as never recomputed.

    None is marked if ``again`` is 0. This matches Megatron-LM's ``--recompute-method block
    --recompute-num-layers``.
    """
    if not again:
        return chunk
    never_recomputed = {id(layer): replace(layer, never_recomputed=True) for layer in chunk[again:]}
    return [*chunk[:again], *(never_recomputed[id(layer)] for layer in chunk[again:])]


@lru_cache(maxsize=64)  # cached for all stages of a plan
def _layers(model: Transformer, ends: int, split: Split) -> tuple[Layer | None, ...]:
    """Layers divided among stages; None for an end that counts as a layer."""
    dense, predicted = min(model.dense_layers, model.layers), model.tokens.predicted
    nobody: tuple[Layer | None, ...] = (None,) * ends
    return (
        *nobody,
        *((dense_layer(model, split),) * dense if dense else ()),
        *((expert_layer(model, split),) * (model.layers - dense) if model.layers > dense else ()),
        *((prediction_layer(model, split),) * predicted if predicted else ()),
        *nobody,
    )


def describe_layers(chunks: tuple[Chunk, ...]) -> str:
    """Text with the number of layers of each kind in a stage, chunk by chunk.

    >>> tiny = Transformer(hidden=8, layers=4, heads=2, vocabulary=10, inner=32)
    >>> describe_layers(chunks_of_stage(tiny, ParallelPlan(batch=2, sequence=4, pipeline=2), 1))
    '2 dense layers, output'
    """
    return "; ".join(", ".join(_counted(chunk)) for chunk in chunks)


def _counted(chunk: Chunk) -> Iterator[str]:
    for name, count in Counter(layer.name for layer in chunk).items():
        yield name if count == 1 else f"{count} {name}s"


def shares_embedding(model: Model, plan: ParallelPlan, stage: int) -> bool:
    """True if a stage trains one of the two copies of a tied embedding.

    In a folded pipeline the same ranks hold both ends of the model, so there is no second copy.
    """
    with_adapters = isinstance(model, Transformer) and model.adapters is not None
    return _holds_copy(model, plan, stage) and not with_adapters


def _holds_copy(model: Model, plan: ParallelPlan, stage: int) -> bool:
    """True if a stage holds one of the two copies of a tied embedding."""
    if not isinstance(model, Transformer):
        return False
    both = model.tokens.tied or model.tokens.predicted > 0
    ends = stage in (0, plan.pipeline - 1)
    return both and ends and plan.pipeline > 1 and not plan.is_folded


def shared_embedding(model: Model, plan: ParallelPlan) -> int:
    """Number of parameters that each rank holds of an embedding copied on two pipeline stages."""
    assert isinstance(model, Transformer)  # noqa: S101  asked for where an embedding is shared
    return -(-model.vocabulary // plan.tensor) * model.hidden


def message_elements(model: Model, plan: ParallelPlan) -> int:
    """Number of elements in a message between stages: the residual stream of a rank's tokens."""
    assert isinstance(model, Transformer)  # noqa: S101  nothing else has several stages
    return plan.split.own_tokens * model.hidden


def stage_weights(model: Model, plan: ParallelPlan, stage: int) -> tuple[int, int]:
    """Numbers of trained parameters on a rank of a stage: outside experts, and in experts.

    >>> tiny = Transformer(hidden=8, layers=4, heads=2, vocabulary=10, inner=32)
    >>> stage_weights(tiny, ParallelPlan(batch=1, sequence=4), 0)
    (3584, 0)
    """
    layers = [layer for chunk in chunks_of_stage(model, plan, stage) for layer in chunk]
    own = sum(layer.weights for layer in layers)
    if stage > 0 and shares_embedding(model, plan, stage):
        own += shared_embedding(model, plan)
    return own, sum(layer.expert_weights for layer in layers)


def frozen_weights(model: Model, plan: ParallelPlan, stage: int) -> tuple[int, int]:
    """Numbers of frozen parameters on a rank of a stage: outside experts, and in experts.

    >>> tiny = Transformer(hidden=8, layers=4, heads=2, vocabulary=10, inner=32)
    >>> frozen_weights(tiny, ParallelPlan(batch=1, sequence=4), 0)
    (0, 0)
    """
    layers = [layer for chunk in chunks_of_stage(model, plan, stage) for layer in chunk]
    own = sum(layer.frozen for layer in layers)
    if stage > 0 and _holds_copy(model, plan, stage) and not shares_embedding(model, plan, stage):
        own += shared_embedding(model, plan)
    return own, sum(layer.frozen_experts for layer in layers)


def is_recomputed(layer: Layer, plan: ParallelPlan) -> bool:
    """True if the forward pass of a layer is repeated in the backward pass, from its input."""
    if plan.recompute != "full" or layer.never_recomputed:
        return False
    return layer.name not in ("embedding", "output")


def backward_works(
    layer: Layer, plan: ParallelPlan, what: PassKind = PassKind.BACKWARD
) -> tuple[Work, ...]:
    """Ops of a layer's backward pass, including recomputation, for one kind of pass."""
    return tuple(chain.from_iterable(backward_pieces(layer, plan, what)))


def backward_pieces(
    layer: Layer, plan: ParallelPlan, what: PassKind = PassKind.BACKWARD
) -> list[tuple[Work, ...]]:
    """Ops of a layer's backward pass, one tuple per operation, last operation first."""
    pieces = _all_backward_pieces(layer, plan)
    if what is PassKind.BACKWARD:
        return pieces
    weights = what is PassKind.WEIGHT
    return [select_works(works, [w.of_weights == weights for w in works]) for works in pieces]


def _all_backward_pieces(layer: Layer, plan: ParallelPlan) -> list[tuple[Work, ...]]:
    last_first = layer.operations[::-1]
    if is_recomputed(layer, plan):
        first, *more = (operation.backward for operation in last_first)
        return [_again(layer.forward) + first, *more]
    if plan.recompute != "selective":
        return [operation.backward for operation in last_first]
    return [_again(o.forward if o.core else ()) + o.backward for o in last_first]


def _again(works: tuple[Work, ...]) -> tuple[Work, ...]:
    return tuple(work._replace(label=f"{work.label} again") for work in works)


def saved_bytes(layer: Layer, plan: ParallelPlan) -> float:
    """Bytes that a layer saves per micro-batch from the forward to the backward pass."""
    if is_recomputed(layer, plan):
        return layer.entering
    if plan.recompute != "selective":
        return layer.kept
    return layer.kept - sum(o.core for o in layer.operations)
