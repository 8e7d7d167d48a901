"""Memory check of a training step, and changes that would make it fit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from ....sim.errors import PlanError
from ....sim.units import Bytes
from ..description.description import Model
from .parallel_plan import SETTINGS, ParallelPlan, Recompute
from .rank_memory import RESERVE, RankMemory, memory_of_stages

GIB = 2**30
SHOWN = 3  # number of settings that a message lists
MOST = 256  # largest multiple of the GPUs that is tried
KEPT = ("micro_batch", "recompute_layers", "recompute", "zero", "sequence_parallel")
"""Fields to keep unchanged if the plan fits, most expensive in time first."""


def peak_memory(model: Model, plan: ParallelPlan, reserve: Bytes = RESERVE) -> RankMemory:
    """Memory of the stage that needs the most.

    >>> from ..description.description import Transformer
    >>> tiny = Transformer(hidden=8, layers=2, heads=2, vocabulary=10, inner=32)
    >>> peak_memory(tiny, ParallelPlan(batch=2, sequence=4, pipeline=2), reserve=0).stage
    0
    """
    return max(memory_of_stages(model, plan, reserve), key=lambda one: one.peak)


def require_fit(
    model: Model,
    plan: ParallelPlan,
    capacity: Bytes,
    reserve: Bytes = RESERVE,
    host: tuple[Bytes, int] | None = None,
) -> None:
    """Raise an error for a plan that does not fit into memory, with changes that would make it fit.

    Parameters
    ----------
    host : host memory of a machine, and its number of GPUs; None if unknown

    Raises
    ------
    PlanError
        The plan does not fit; the message names the largest users of memory, and settings that fit.

    Examples
    --------
    >>> from ..description.description import Transformer
    >>> tiny = Transformer(hidden=8, layers=2, heads=2, vocabulary=10, inner=32)
    >>> require_fit(tiny, ParallelPlan(batch=2, sequence=4), 32e3, reserve=0)
    Traceback (most recent call last):
    foretrace.sim.errors.PlanError: workload: does not fit: ...
    """
    most = peak_memory(model, plan, reserve)
    if most.peak <= capacity:
        return
    told = ", ".join(
        f"{name} {size / GIB:.3g}" for name, size in sorted(most.parts.items(), key=lambda p: -p[1])
    )
    cures = list(_fitting_changes(model, plan, capacity, reserve, host))[:SHOWN]
    several = "" if cures else _several_changes(model, plan, capacity, reserve)
    cure = f"it fits with {', or '.join(cures)}" if cures else several
    raise PlanError(
        f"workload: does not fit: a rank of stage {most.stage} needs {most.peak / GIB:.3g} GiB "
        f"({told}) at {most.when()}, and has {capacity / GIB:.3g} GiB; {cure}"
    )


def require_host_fit(
    model: Model, plan: ParallelPlan, memory: Bytes | None, gpus: int, reserve: Bytes = RESERVE
) -> None:
    """Raise an error if an offloaded optimizer does not fit into a machine's host memory.

    Parameters
    ----------
    memory : host memory in B; None if unknown
    gpus : number of GPUs per machine; ranks are placed in order

    Raises
    ------
    PlanError
        The optimizer does not fit; the message says how much it needs, and which ZeRO stage fits.

    Examples
    --------
    >>> from ..description.description import Transformer
    >>> tiny = Transformer(hidden=8, layers=2, heads=2, vocabulary=10, inner=32)
    >>> require_host_fit(tiny, ParallelPlan(batch=2, sequence=4, offload=True), 20e3, 8)
    Traceback (most recent call last):
    foretrace.sim.errors.PlanError: workload.memory.offload: ...
    """
    if not plan.offload:
        return
    if memory is None:
        raise PlanError(
            "workload.memory.offload: the memory of a machine's host is unknown; write "
            "cluster.node.memory, for example {model: xeon-8480c-dual}, or memory.offload: none"
        )
    need = host_memory(model, plan, gpus, reserve)
    if need <= memory:
        return
    others = (replace(plan, zero=zero) for zero in range(plan.zero + 1, 4))
    cures = [
        f"parallel.zero: {one.zero}"
        for one in others
        if one.is_allowed(model) and host_memory(model, one, gpus, reserve) <= memory
    ]
    cure = f"take {cures[0]}" if cures else "take more machines, or hosts with more memory"
    raise PlanError(
        f"workload.memory.offload: does not fit: the optimizers of the ranks of a machine need "
        f"{need / GIB:.3g} GiB of its host, which has {memory / GIB:.3g} GiB; {cure}"
    )


def host_memory(model: Model, plan: ParallelPlan, gpus: int, reserve: Bytes = RESERVE) -> Bytes:
    """Largest memory that the ranks of one machine need on its host, in B."""
    each = [one.host for one in memory_of_stages(model, plan, reserve)]
    ranks = np.repeat(each, plan.tensor * plan.copies)
    return float(np.add.reduceat(ranks, np.arange(0, len(ranks), gpus)).max())


def _fitting_changes(
    model: Model,
    plan: ParallelPlan,
    capacity: Bytes,
    reserve: Bytes,
    host: tuple[Bytes, int] | None,
) -> Iterator[str]:
    """Changes of a single setting, on the same GPUs, that make the plan fit; cheapest first."""
    for words, changed in _changes(plan):
        try:
            changed.check(model)
        except PlanError:
            continue
        if peak_memory(model, changed, reserve).peak <= capacity:
            yield words
    if host is not None and not plan.offload:
        changed = replace(plan, offload=True)
        room = host_memory(model, changed, host[1], reserve) <= host[0]
        if room and peak_memory(model, changed, reserve).peak <= capacity:
            yield "memory.offload: optimizer"


def _changes_of_layers(plan: ParallelPlan) -> Iterator[tuple[str, ParallelPlan]]:
    """Plans that recompute more layers, if the plan recomputes some."""
    if plan.recompute_layers:
        yield "memory.recompute_layers: null", replace(plan, recompute_layers=0)


def _changes(plan: ParallelPlan) -> Iterator[tuple[str, ParallelPlan]]:
    for zero in range(plan.zero + 1, 4):
        yield f"parallel.zero: {zero}", replace(plan, zero=zero)
    if plan.tensor > 1 and not plan.sequence_parallel:
        yield "parallel.sequence: true", replace(plan, sequence_parallel=True)
    ways: tuple[Recompute, ...] = ("none", "selective", "full")
    for way in ways[ways.index(plan.recompute) + 1 :]:
        yield f"memory.recompute: {way}", replace(plan, recompute=way)
    yield from _changes_of_layers(plan)
    if plan.exchange != "normal":
        yield "execution.experts.exchange: normal", replace(plan, exchange="normal")
    size = plan.micro_batch
    while size > 1:
        size //= 2
        yield f"parallel.micro_batch: {size}", replace(plan, micro_batch=size)
    for setting in ("tensor", "pipeline"):
        degree = 2 * getattr(plan, setting)
        other = plan.pipeline if setting == "tensor" else plan.tensor
        while degree * other <= plan.ranks:
            if plan.ranks % (degree * other) == 0:
                changed = replace(plan, data=plan.ranks // (degree * other))
                yield f"parallel.{setting}: {degree}", changed.with_value(setting, degree)
            degree *= 2
    if plan.zero < 3 and plan.pipeline == 1:
        yield "parallel.zero: 3 and memory.recompute: full", replace(plan, zero=3, recompute="full")


def _several_changes(model: Model, plan: ParallelPlan, capacity: Bytes, reserve: Bytes) -> str:
    """Message about several changes that together make the plan fit, on the fewest GPUs."""
    none = f"no plan of it fits on up to {MOST * plan.ranks} GPUs; take a smaller model, shorter "
    none += "sequences, or GPUs with more memory"
    if reserve >= capacity:
        return none
    ranks = plan.ranks
    while ranks <= MOST * plan.ranks:
        for small in _smallest_plans(plan, ranks):
            if _fits(model, small, capacity, reserve):
                changes = _needed_changes(model, plan, small, capacity, reserve)
                told = " and ".join(_message_text(changes))
                where = "" if ranks == plan.ranks else f" on {ranks} GPUs"
                return f"it fits{where} with {told}" if told else f"it fits{where}"
        ranks *= 2
    return none


def _smallest_plans(plan: ParallelPlan, ranks: int) -> Iterator[ParallelPlan]:
    """Plans with the least memory on this number of GPUs, those with the least sharding first."""
    doubled = [2**k for k in range(ranks.bit_length())]
    degrees = [(plan.tensor * a, plan.pipeline * b) for a in doubled for b in doubled]
    for tensor, pipeline in sorted(degrees, key=lambda d: (d[0] * d[1], d[1])):
        copy = tensor * pipeline * plan.context
        if ranks % copy == 0:
            yield replace(
                plan,
                tensor=tensor,
                pipeline=pipeline,
                data=ranks // copy,
                sequence_parallel=tensor > 1,
                zero=3 if pipeline == 1 else max(plan.zero, 1),
                recompute="full",
                recompute_layers=0,
                micro_batch=1,
            )


def _needed_changes(
    model: Model, plan: ParallelPlan, small: ParallelPlan, capacity: Bytes, reserve: Bytes
) -> dict[str, Any]:
    """Changes from ``plan`` to ``small`` that are all needed to fit: new values by field name."""
    for name in KEPT:
        back = small.with_value(name, getattr(plan, name))
        if _fits(model, back, capacity, reserve):
            small = back
    names = ("tensor", "pipeline", *KEPT)
    return {n: getattr(small, n) for n in names if getattr(small, n) != getattr(plan, n)}


def _fits(model: Model, plan: ParallelPlan, capacity: Bytes, reserve: Bytes) -> bool:
    if not plan.is_allowed(model):
        return False
    try:
        plan.check(model)  # layers as single ops have rules of their own
    except PlanError:
        return False
    return peak_memory(model, plan, reserve).peak <= capacity


def _message_text(changes: dict[str, Any]) -> Iterator[str]:
    """Texts of changed settings, as in a scenario file.

    >>> list(_message_text({"sequence_parallel": True, "zero": 3}))
    ['parallel.sequence: true', 'parallel.zero: 3']
    """
    for name, value in changes.items():
        word = str(value).lower() if isinstance(value, bool) else value
        yield f"{SETTINGS[name]}: {'null' if name == 'recompute_layers' else word}"
