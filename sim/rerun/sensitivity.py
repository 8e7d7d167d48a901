"""Effect of faster or free components on a run, determined by repeating it.

A derivative of the makespan does not exist when many ops end at the same time, which is normal.
A repeated run always has a result, and it is cheap.
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
    """Value of a metric in three runs: unchanged, a group of components faster, or at no time.

    Parameters
    ----------
    group : str
        Name of the group of components.
    base, faster, free : float
        Makespan (s) or another metric: unchanged, with the group ``factor`` times as fast, and with
        the group taking no time.
    """

    group: str
    base: float
    faster: float
    free: float

    @property
    def gain(self) -> float:
        """Relative change with the group faster: -0.014 is a makespan 1.4 % shorter."""
        return self.faster / self.base - 1 if self.base else 0.0

    @property
    def bound(self) -> float:
        """Relative change with the group infinitely fast: the limit of any improvement."""
        return self.free / self.base - 1 if self.base else 0.0


class ScaledBackend(Backend):
    """Backend that divides the times of a wrapped backend by a factor, on selected components.

    With an infinite factor, ops on these components take no time and share no rate of them.

    It uses a copy of the wrapped backend, since several scaled machines may run at once, and a
    backend's cached data belong to one machine. A device is not copied, and two runs never use it
    at once.
    """

    def __init__(self, inner: Backend, chosen: Sequence[int], factor: float):
        self.inner = inner if inner.online else copy(inner)
        self.chosen, self.factor = list(chosen), factor
        self.online, self.source = inner.online, inner.source

    def __copy__(self) -> ScaledBackend:
        """Copy that has its own copy of the wrapped backend."""
        return ScaledBackend(self.inner, self.chosen, self.factor)

    def open(self, system: System) -> None:
        """Open the wrapped backend."""
        self.inner.open(system)

    def knows(self, ops: Ops) -> NDArray[np.bool_]:
        """Boolean array: True for each op that the wrapped backend can time."""
        return self.inner.knows(ops)

    def timing_groups(self, system: System) -> NDArray[np.int64] | None:
        """Timing groups of the wrapped backend, each split into scaled and other components."""
        inner = self.inner.timing_groups(system)
        own = np.isin(np.arange(len(system.components)), self.chosen)
        return None if inner is None else 2 * inner + own

    def timing(self, ops: Ops, now: float = 0.0) -> Timing:
        """Timings of the wrapped backend, divided by the factor on the selected components."""
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
    """True for each op whose work is CPU time on a core that ops share."""
    assert ops.at is not None  # noqa: S101
    parts = ops.at.system.components
    cores = [c for c in np.unique(usage.component).tolist() if parts[c].kind == "core"]
    found = np.zeros(len(ops), bool)
    row = np.repeat(np.arange(len(usage)), np.diff(usage.indptr))
    found[row[np.isin(usage.component, cores)]] = True
    return found


def _own_component_usage(component: NDArray[np.int32]) -> Usage:
    """Usage in which each op uses only its own component, with weight 1."""
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
    """Effect on a metric if each group of components is ``factor`` times, or infinitely, faster.

    Parameters
    ----------
    run : function that runs a simulation, e.g. ``lambda s: s.run(graph)``
    groups : component numbers of each group, by the group's name
    factor : speed-up; 1.1 is 10 % faster
    map_function : ``map`` function over the runs; that of a thread pool does several at once
    base : unchanged value of the metric, if known; saves one run
    metric : metric of a result; by default its makespan

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
    """Simulation in which some components are ``factor`` times as fast; infinite means no time.

    Parameters
    ----------
    rates_only : change only rates; keep latencies, overheads and fixed times
    """
    components = simulation.system.components.with_changed(
        chosen, lambda part: _scaled_component(part, factor, rates_only)
    )
    own = () if rates_only else chosen
    return simulation.with_other_backends(
        simulation.system.with_components(components), lambda b: ScaledBackend(b, own, factor)
    )


def _scaled_component(part: Component, factor: float, rates_only: bool) -> Component:
    """Component with rate and capacity multiplied, and latency and overhead divided, by ``factor``.

    A component without rate, capacity, latency and overhead is returned unchanged. With
    ``rates_only``, latency and overhead stay as they are.
    """
    if part.capacity is not None:
        part = replace(part, capacity=int(min(part.capacity * factor, MOST)))
    facts: dict[str, float] = {}
    if not rates_only and (part.latency or part.overhead):
        facts |= {"latency": part.latency / factor, "overhead": part.overhead / factor}
    if part.rate is not None and np.isfinite(factor):
        facts |= {"rate": part.rate * factor, "max_rate": part.top * factor}
    return part.renamed(part.name, **facts) if facts else part
