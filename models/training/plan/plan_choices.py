"""Search space of parallel plans for a model, a batch and a number of GPUs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from ..description.description import Transformer
from .parallel_plan import ParallelPlan

MICRO_BATCHES = (1, 2, 4, 8, 16)
CHUNKS = (1, 2, 4)
RECOMPUTE = ("none", "selective", "full")


def allowed_plans(
    model: Transformer, start: ParallelPlan, gpus: int, node: int, kept: Collection[str] = ()
) -> Iterator[ParallelPlan]:
    """Every valid plan on all GPUs: degrees, micro-batch, ZeRO stage and recomputation vary.

    Tensor-parallel ranks stay in one machine, as Narayanan et al. 2021 (arXiv:2104.04473, takeaway
    1) advise, and use sequence parallelism if there are several (Korthikanti et al. 2022,
    arXiv:2205.05198).

    Parameters
    ----------
    start : plan with the fixed settings: batch, sequence, schedule, precision
    node : number of GPUs per machine
    kept : names of fields that keep their value in ``start``

    Examples
    --------
    >>> tiny = Transformer(hidden=8, layers=2, heads=2, vocabulary=10, inner=32)
    >>> start = ParallelPlan(batch=4, sequence=16)
    >>> kept = ("zero", "recompute", "micro_batch")
    >>> [(p.tensor, p.pipeline, p.data) for p in allowed_plans(tiny, start, 4, 4, kept)]
    [(1, 1, 4), (1, 2, 2), (2, 1, 2), (2, 2, 1)]
    """
    choices: dict[str, Sequence[Any]] = {
        "tensor": [t for t in _divisors(node) if model.heads % t == 0],
        "pipeline": _divisors(model.layers),
        "expert": _divisors(model.experts.count) if model.experts else [1],
        "micro_batch": MICRO_BATCHES,
        "zero": [0, 1, 2, 3],
        "recompute": RECOMPUTE,
        "chunks": CHUNKS if start.schedule in ("1f1b", "combined-1f1b") else (1,),
    }
    choices |= {name: [getattr(start, name)] for name in choices if name in kept}
    for values in product(*choices.values()):
        plan = _with_copies(start, dict(zip(choices, values, strict=True)), gpus, kept)
        if plan is not None and not _zero_has_no_effect(plan, kept) and plan.is_allowed(model):
            yield plan


def _with_copies(
    start: ParallelPlan, chosen: dict[str, Any], gpus: int, kept: Collection[str]
) -> ParallelPlan | None:
    """Plan with as many model copies as fit on the GPUs; None if that is not an integer."""
    data, rest = divmod(gpus, chosen["tensor"] * chosen["pipeline"] * start.context)
    if rest or not data or ("data" in kept and data != start.data):
        return None
    shared = start.sequence_parallel if "sequence_parallel" in kept else chosen["tensor"] > 1
    return replace(start, **chosen, data=data, sequence_parallel=shared)


def _zero_has_no_effect(plan: ParallelPlan, kept: Collection[str]) -> bool:
    """True if the plan equals one without ZeRO, because no two ranks hold the same weights.

    False if the ZeRO stage is a setting to keep.
    """
    return plan.zero > 0 and plan.data == 1 and "zero" not in kept


def _divisors(number: int) -> list[int]:
    return [d for d in range(1, number + 1) if number % d == 0]
