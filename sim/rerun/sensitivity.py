"""Effect of faster or free components on a run, found by running again.

With mass ties, the normal case, the derivative of a makespan does not exist; a re-run always
has an answer, and it is cheap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..facts.backend import Backend, Timing, Usage
from ..facts.ops import Ops
from ..facts.system import Component, System
from ..run.simulation import Simulation

if TYPE_CHECKING:
    from ..run.result import Result

MOST = 2**63 - 1  # of an unlimited capacity


@dataclass(frozen=True)
class SpeedupEffect:
    """Metric of a run as it is, with some components faster, and with them infinitely fast.

    Parameters
    ----------
    group : str
        What the components are called together.
    base, faster, free : float
        Makespan (s), or what else was asked for, as it is, with them ``factor`` times as fast, and
        with them taking no time.
    """

    group: str
    base: float
    faster: float
    free: float

    @property
    def gain(self) -> float:
        """Relative change when faster; of a makespan, -0.014 is 1.4 % shorter."""
        return self.faster / self.base - 1 if self.base else 0.0

    @property
    def bound(self) -> float:
        """Relative change when free: no purchase of this part can gain more."""
        return self.free / self.base - 1 if self.base else 0.0


class ScaledBackend(Backend):
    """Backend of a machine on which some components take ``1 / factor`` of the time.

    With an infinite factor their ops take no time and nobody has to share them.

    It asks a copy of the other backend, since several altered machines are asked at once and what
    a backend keeps is of one; a device is itself, and never asked beside another run.
    """

    def __init__(self, inner: Backend, chosen: Sequence[int], factor: float):
        self.inner = inner if inner.online else copy(inner)
        self.chosen, self.factor = list(chosen), factor
        self.online, self.source = inner.online, inner.source

    def __copy__(self) -> ScaledBackend:
        """Copy, with a copy of the altered backend."""
        return ScaledBackend(self.inner, self.chosen, self.factor)

    def open(self, system: System) -> None:
        """Open the altered backend."""
        self.inner.open(system)

    def knows(self, ops: Ops) -> NDArray[np.bool_]:
        """What the altered backend knows."""
        return self.inner.knows(ops)

    def timing_groups(self, system: System) -> NDArray[np.int64] | None:
        """Groups of components that are answered alike for, split by whether they are altered."""
        inner = self.inner.timing_groups(system)
        own = np.isin(np.arange(len(system.components)), self.chosen)
        return None if inner is None else 2 * inner + own

    def timing(self, ops: Ops, now: float = 0.0) -> Timing:
        """Answer of the altered backend, with times of the chosen components divided."""
        said = self.inner.timing(ops, now)
        assert ops.at is not None  # noqa: S101  the simulation always says where ops run
        own = np.isin(ops.at.component, self.chosen)
        fixed = np.where(own, said.fixed / self.factor, said.fixed)
        if said.work is None:
            return replace(said, fixed=fixed)
        usage = said.usage or _own_component_usage(ops.at.component)
        work = np.where(own & _works_are_core_times(usage, ops), said.work / self.factor, said.work)
        if np.isfinite(self.factor):
            return replace(said, fixed=fixed, work=work)
        row = np.repeat(np.arange(len(usage)), np.diff(usage.indptr))
        keep = ~np.isin(usage.component, self.chosen)
        indptr = np.zeros(len(usage) + 1, np.int64)
        np.cumsum(np.bincount(row[keep], minlength=len(usage)), out=indptr[1:])
        limit = np.full(len(ops), np.inf) if said.limit is None else said.limit
        bounded = (np.diff(indptr) > 0) | np.isfinite(limit)
        return replace(
            said,
            fixed=fixed,
            work=np.where(bounded, work, 0.0),
            usage=Usage(indptr, usage.component[keep], usage.weight[keep]),
        )


def _works_are_core_times(usage: Usage, ops: Ops) -> NDArray[np.bool_]:
    """(n,) whether the work of ops is a time of their own that they share a core for."""
    assert ops.at is not None  # noqa: S101
    parts = ops.at.system.components
    cores = [c for c in np.unique(usage.component).tolist() if parts[c].kind == "core"]
    found = np.zeros(len(ops), bool)
    row = np.repeat(np.arange(len(usage)), np.diff(usage.indptr))
    found[row[np.isin(usage.component, cores)]] = True
    return found


def _own_component_usage(component: NDArray[np.int32]) -> Usage:
    """Usage in which each op takes only the component that was asked."""
    n = len(component)
    return Usage(np.arange(n + 1, dtype=np.int64), component, np.ones(n))


def speedup_effects(
    simulation: Simulation,
    run: Callable[[Simulation], Result],
    groups: Mapping[str, Sequence[int]],
    factor: float = 1.1,
    map_function: Callable[..., Iterable[float]] = map,
    base: float | None = None,
    metric: Callable[[Result], float] = lambda result: result.makespan,
) -> list[SpeedupEffect]:
    """Change of the metric with each group of components ``factor`` times, then infinitely, faster.

    Parameters
    ----------
    run : how to run a simulation, e.g. ``lambda s: s.run(graph)``
    groups : numbers of components by a name for them
    factor : 1.1 is 10 % faster
    map_function : goes over the runs; the ``map`` of a pool of threads has several under way
    base : the number as it is, where it is known: one run less
    metric : number of a result that is compared; its makespan unless said

    Examples
    --------
    >>> from foretrace.sim.facts.backend import Backend, Timing
    >>> from foretrace.sim.facts.graph import Builder
    >>> from foretrace.sim.facts.ops import Kind
    >>> class Constant(Backend):
    ...     def timing(self, ops, now=0.0):
    ...         return Timing.of([1.1] * len(ops))
    >>> build = Builder("one")
    >>> _ = build.op(Kind.COMPUTE)
    >>> system = System((Component("node0.gpu0", "gpu", slots=1),), ("node0.gpu0",))
    >>> simulation = Simulation(system, {"node0.gpu0": Constant()}, engine="reference")
    >>> change, = speedup_effects(simulation, lambda s: s.run(build.graph()), {"gpu": [0]})
    >>> change.base, change.faster, change.free
    (1.1, 1.0, 0.0)
    """
    asked = [
        scale_components(simulation, chosen, by)
        for chosen in groups.values()
        for by in (factor, np.inf)
    ]
    if base is None:
        base = metric(run(simulation))
    found = [*map_function(lambda s: metric(run(s)), asked)]
    return [
        SpeedupEffect(group, base, *both)
        for group, both in zip(groups, zip(found[::2], found[1::2], strict=True), strict=True)
    ]


def scale_components(
    simulation: Simulation, chosen: Sequence[int], factor: float, rates_only: bool = False
) -> Simulation:
    """Simulation with some components ``factor`` times as fast; infinite is free.

    Parameters
    ----------
    rates_only : latencies, overheads and what backends answer of fixed times stay
    """
    components = simulation.system.components.with_changed(
        chosen, lambda part: _scaled_component(part, factor, rates_only)
    )
    own = () if rates_only else chosen
    return simulation.with_other_backends(
        simulation.system.with_components(components), lambda b: ScaledBackend(b, own, factor)
    )


def _scaled_component(part: Component, factor: float, rates_only: bool) -> Component:
    """Component with rate and capacity times ``factor``, latency and overhead divided by it.

    One of none of these is itself.
    """
    if part.capacity is not None:
        part = replace(part, capacity=int(min(part.capacity * factor, MOST)))
    facts: dict[str, float] = {}
    if not rates_only and (part.latency or part.overhead):
        facts |= {"latency": part.latency / factor, "overhead": part.overhead / factor}
    if part.rate is not None and np.isfinite(factor):
        facts |= {"rate": part.rate * factor, "max_rate": part.top * factor}
    return part.renamed(part.name, **facts) if facts else part
