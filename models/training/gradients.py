"""Exchange of gradients and weights among data-parallel ranks: buckets, and volumes of ZeRO."""

from __future__ import annotations

import math
from collections.abc import Iterable

from .operations import Work, exchanged
from .parallel_plan import ParallelPlan

DATA, EXPERT_DATA = "data", "expert data"  # groups of ranks that hold the same weights


def reduction(plan: ParallelPlan, group: str, numbers: int, label: str) -> Work:
    """All-reduce of gradients; a reduce-scatter where ZeRO shares what is made of them.

    >>> reduction(ParallelPlan(batch=8, sequence=8, data=8, zero=1), "data", 10, "x").signature
    'collective:reduce-scatter fp32[10]'
    """
    name = "reduce-scatter" if plan.zero else "all-reduce"
    dtype = plan.precision.communication
    width = plan.precision.width(dtype)
    return exchanged(f"{label} {name}", name, group, dtype, numbers, width=width)


def gathering(
    plan: ParallelPlan, group: str, numbers: int, label: str, dtype: str = ""
) -> Work:  # fmt: skip
    """All-gather of weights that ZeRO shares, or that were updated in shares.

    Parameters
    ----------
    dtype : in which they are stored; that of ``weights`` unless said
    """
    dtype = dtype or plan.precision.weights
    width = plan.precision.width(dtype, weights=True)
    return exchanged(f"{label} all-gather", "all-gather", group, dtype, numbers, width=width)


def replicas(plan: ParallelPlan, group: str) -> int:
    """Ranks that hold the same weights; in a pipeline from both ends those of two stages.

    >>> replicas(ParallelPlan(batch=8, sequence=8, data=8, expert=2), EXPERT_DATA)
    4
    """
    twins = 2 if plan.schedule == "dualpipe" else 1
    return twins * (plan.copies if group == DATA else plan.copies // plan.expert)


def bucket_size(plan: ParallelPlan, part: int) -> float:
    """Parameters that a bucket of a part of the model holds before it is closed.

    Only the first part has more buckets than one, since nothing in the pipeline runs before its
    forward pass or after its backward pass.  Megatron-LM, core/distributed/
    distributed_data_parallel.py: ``bucket_size = None`` where the pipeline rank is more than 0;
    training/training.py: ``disable_bucketing`` of chunks after the first.  ZeRO-3 exchanges a layer
    at a time in all parts.

    Parameters
    ----------
    part : as ``parts_of_stage`` counts; of a pipeline from both ends it is on two stages

    Examples
    --------
    >>> plan = ParallelPlan(batch=8, sequence=8, data=2, pipeline=2, chunks=2, zero=1, bucket=100)
    >>> [bucket_size(plan, part) for part in range(plan.parts)]
    [100, inf, inf, inf]
    """
    if plan.zero == 3:
        return 1
    return math.inf if part else plan.bucket


def buckets(sizes: Iterable[int], most: float) -> list[list[int]]:
    """Numbers of consecutive gradients in each bucket: closed once it holds ``most``.

    PyTorch DDP's rule (Li et al. 2020, arXiv:2006.15704, section 3.2.3).

    >>> buckets([5, 5, 5, 20, 1], 10)
    [[0, 1], [2, 3], [4]]
    """
    found: list[list[int]] = []
    held, inside = 0, []
    for number, size in enumerate(sizes):
        inside.append(number)
        held += size
        if held >= most:
            found.append(inside)
            held, inside = 0, []
    return [*found, inside] if inside else found
