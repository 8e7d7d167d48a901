"""Stages of a pipeline: which layers each chunk of a stage has, and what of them is run twice."""

from __future__ import annotations

from collections.abc import Iterator

from .description import Transformer
from .layers import Layer, dense_layer, embedding_layer, expert_layer, output_layer
from .operations import Work
from .parallel_plan import ParallelPlan

Chunk = tuple[Layer, ...]


def chunks_of_stage(model: Transformer, plan: ParallelPlan, stage: int) -> tuple[Chunk, ...]:
    """Layers of each chunk of a stage, in order of the forward pass.

    >>> tiny = Transformer(hidden=8, layers=4, heads=2, vocabulary=10, inner=32)
    >>> plan = ParallelPlan(batch=2, sequence=4, pipeline=2)
    >>> [layer.name for layer in chunks_of_stage(tiny, plan, 1)[0]]
    ['dense layer', 'dense layer', 'output']
    """
    every = tuple(_layers(model, plan))
    sizes = plan.stages or [model.layers // (plan.pipeline * plan.chunks)] * (
        plan.pipeline * plan.chunks
    )
    chunks = []
    for chunk in range(plan.chunks):
        number = chunk * plan.pipeline + stage
        first = sum(sizes[:number])
        chunks.append(every[first : first + sizes[number]])
    split = plan.split
    if stage == 0:
        chunks[0] = (embedding_layer(model, split), *chunks[0])
    if stage == plan.pipeline - 1:
        chunks[-1] = (*chunks[-1], output_layer(model, split))
    return tuple(chunks)


def _layers(model: Transformer, plan: ParallelPlan) -> Iterator[Layer]:
    for number in range(model.layers):
        of = dense_layer if number < model.dense_layers else expert_layer
        yield of(model, plan.split)


def holds_copy_of_embedding(model: Transformer, plan: ParallelPlan, stage: int) -> bool:
    """Whether a stage has a tied output layer whose embedding is on another stage."""
    return model.tied and plan.pipeline > 1 and stage == plan.pipeline - 1


def stage_weights(model: Transformer, plan: ParallelPlan, stage: int) -> tuple[int, int]:
    """Parameters on a rank of a stage: of all but experts, and of experts.

    >>> tiny = Transformer(hidden=8, layers=4, heads=2, vocabulary=10, inner=32)
    >>> stage_weights(tiny, ParallelPlan(batch=1, sequence=4), 0)
    (3584, 0)
    """
    layers = [layer for chunk in chunks_of_stage(model, plan, stage) for layer in chunk]
    own = sum(layer.weights for layer in layers)
    if holds_copy_of_embedding(model, plan, stage):
        own += -(-model.vocabulary // plan.tensor) * model.hidden
    return own, sum(layer.expert_weights for layer in layers)


def is_recomputed(layer: Layer, plan: ParallelPlan) -> bool:
    """Whether a layer is run forward once more, from what came in."""
    return plan.recompute == "full" and layer.name not in ("embedding", "output")


def backward_works(layer: Layer, plan: ParallelPlan) -> tuple[Work, ...]:
    """Ops backward of a layer, with those that run again for it."""
    if is_recomputed(layer, plan):
        again = tuple(w._replace(label=f"{w.label} again") for w in layer.forward)
        return again + layer.backward
    if plan.recompute == "none":
        return layer.backward
    works: list[Work] = []
    for operation in reversed(layer.operations):
        if operation.core:
            works += [w._replace(label=f"{w.label} again") for w in operation.forward]
        works += operation.backward
    return tuple(works)


def kept_bytes(layer: Layer, plan: ParallelPlan) -> float:
    """Bytes that a layer keeps of each micro-batch from forward to backward."""
    if is_recomputed(layer, plan):
        return layer.entering
    if plan.recompute == "none":
        return layer.kept
    return layer.kept - sum(o.core for o in layer.operations)
