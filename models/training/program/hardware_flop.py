"""Flop that the GPUs execute in a step, including recomputation."""

from __future__ import annotations

from ..description.description import Model
from ..plan.parallel_plan import ParallelPlan
from ..plan.stages import backward_works, chunks_of_stage


def hardware_flop(model: Model, plan: ParallelPlan) -> float:
    """Flop of all ops of a step on all ranks: the basis of HFU.

    Masked attention scores count if they are computed, which a fused kernel does not do.

    >>> from ..description.description import AttentionOptions, Transformer
    >>> sees_all = AttentionOptions(causal=False)
    >>> tiny = Transformer(hidden=8, layers=2, heads=2, vocabulary=10, inner=32, attention=sees_all)
    >>> from ..layer.model_size import model_flop
    >>> plan = ParallelPlan(batch=1, sequence=4, fused_attention=False)
    >>> hardware_flop(tiny, plan) == model_flop(tiny, 4)
    True
    """
    layers = [
        layer
        for stage in range(plan.pipeline)
        for place in range(plan.places)
        for chunk in chunks_of_stage(model, plan, stage, place)
        for layer in chunk
    ]
    each = sum(
        work.flop for layer in layers for work in (*layer.forward, *backward_works(layer, plan))
    )
    ways = 2 if plan.schedule == "dualpipe" else 1  # half of the micro-batches in each direction
    return each / ways * plan.micro_batches * plan.tensor * plan.copies / plan.places
