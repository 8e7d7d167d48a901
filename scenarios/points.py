"""A point is one variant with all its settings: built, run, measured."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ..models.compute.jitter import spread, typical
from ..models.compute.recorded import Recorded
from ..sim.backend import Backend
from ..sim.graph import Graph
from ..sim.metrics import Samples, measure
from ..sim.place import place
from ..sim.process import Process, Running, Steps
from ..sim.result import Result
from ..sim.simulation import Simulation
from .machine import backends, failures, system
from .price import cost_per_million_tokens, price
from .problems import InvalidScenarioError
from .scenario import Scenario
from .unanswered import unanswered
from .workloads import build, open_starts

if TYPE_CHECKING:
    from .loop.coupling import Coupled

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Point:
    """One variant, ready to run.

    Parameters
    ----------
    scenario : Scenario
    graph : Graph
        With the durations of the recording.
    simulation : Simulation
    coupled : Coupled or None
        The devices that drive it, if any do.
    """

    scenario: Scenario
    graph: Graph
    simulation: Simulation
    coupled: Coupled | None = None

    @property
    def name(self) -> str:
        """``base`` or the name of the variant."""
        return self.scenario.variant

    @property
    def processes(self) -> tuple[Process, ...]:
        """What steers the run: components that are down from the start, and devices."""
        down = failures(self.scenario, self.simulation.system)
        devices = self.coupled.coupling.processes if self.coupled else ()
        return (*((Down(down),) if down else ()), *devices)

    def run(self, replica: int | None = None) -> Result:
        """Run once: as recorded, or one seeded draw around typical durations."""
        if replica is None:
            return self.simulation.run(self.graph, *self.processes)
        varied = replace(self.simulation, backends=self._varying)
        return varied.run(self._typical, *self.processes, replica=replica)

    @cached_property
    def _typical(self) -> Graph:
        """Every op as long as it typically is."""
        ops = self.graph.ops
        return self.graph.with_ops(ops.replace(duration=typical(ops)))

    @cached_property
    def _varying(self) -> dict[str, Backend]:
        """Recorded durations that vary as the recordings do."""
        starts = open_starts(self.scenario)
        varies = spread(self.graph.ops, starts.steps if starts else ())
        made: dict[int, Backend] = {}
        for backend in self.simulation.backends.values():
            if isinstance(backend, Recorded):
                varied = made[id(backend)] = Recorded(scale=backend.scale)
                varied.spread = varies
        return {n: made.get(id(b), b) for n, b in self.simulation.backends.items()}


@dataclass(frozen=True)
class Down:
    """Components that are out of order from the start."""

    names: tuple[str, ...]

    @property
    def touches(self) -> tuple[str, ...]:
        """What it alters."""
        return self.names

    def __call__(self, sim: Running) -> Steps:
        """Fail them before anything begins."""
        for name in self.names:
            sim.fail(name)
        return
        yield


def point(scenario: Scenario, graph: Graph | None = None) -> Point:
    """Build one variant.

    Parameters
    ----------
    graph : Graph or None
        Its workload, where it was built before.
    """
    refuse(scenario)
    made = system(scenario)
    simulation = Simulation(
        made, backends(scenario, made), engine=scenario.run.engine, seed=scenario.run.seed
    )
    graph = build(scenario) if graph is None else graph
    if scenario.placement.ranks is not None:
        graph = place(graph, made, scenario.placement.ranks)
    return Point(scenario, graph, simulation)


def refuse(scenario: Scenario) -> None:
    """Refuse what nothing here simulates.

    Raises
    ------
    InvalidScenarioError
        Every such setting, of all variants.
    """
    found = [p for p in unanswered(scenario) if p.severity == "error"]
    if found:
        raise InvalidScenarioError(found)


def points(scenario: Scenario) -> list[Point]:
    """Every variant; those with the same workload share its graph."""
    refuse(scenario)
    graphs: dict[str, Graph] = {}
    found = []
    for variant in scenario.variants():
        key = repr(variant.workload)
        if key not in graphs:
            graphs[key] = build(variant)
        found.append(point(variant, graphs[key]))
    return found


def counted(scenario: Scenario) -> tuple[int, int | None]:
    """Iterations of warm-up, and how many count after them."""
    said: Any = getattr(scenario.workload, "iterations", None)
    return (said.warm_up, said.measure) if said is not None else (0, None)


@dataclass(frozen=True)
class Measured:
    """What came of one point.

    Parameters
    ----------
    point : Point
    result : Result
        Of the run with the durations as recorded.
    samples : of every metric of that run
    replicas : the same of each seeded draw
    """

    point: Point
    result: Result
    samples: Mapping[str, Samples]
    replicas: tuple[Mapping[str, Samples], ...] = ()

    @property
    def name(self) -> str:
        """``base`` or the name of the variant."""
        return self.point.name


def measured(point: Point) -> Measured:
    """Run a point, and its replicas."""
    warm_up, count = counted(point.scenario)
    result = point.run()
    wanted = point.scenario.run.replicas
    drawn = tuple(
        _extended(measure(point.run(k), warm_up, count), point)
        for k in (range(wanted) if wanted > 1 else ())
    )
    samples = _extended(measure(result, warm_up, count), point)
    log.info("%s: %s ops, makespan %.6g s", point.name, len(result.ops), result.makespan)
    return Measured(point, result, samples, drawn)


def _extended(samples: dict[str, Samples], point: Point) -> dict[str, Samples]:
    """With the metrics that need more than the run: tokens, memory, cost."""
    said: Any = point.scenario.workload
    tokens = getattr(said, "tokens_per_iteration", None)
    if tokens is not None:
        grown = _growth(point)
        samples["tokens_per_second"] = tokens * grown / samples["iteration_time"]
        rate = price(point.scenario)
        if rate is not None:
            mean = float(samples["iteration_time"].mean())
            cost = cost_per_million_tokens(rate, mean, tokens * grown)
            samples["cost_per_million_tokens"] = np.array([cost])
    peak = point.graph.facts.get("memory_peak")
    if isinstance(peak, int | float) and peak > 0:
        samples["gpu.memory.peak"] = np.array([float(peak)])
    return samples


def _growth(point: Point) -> float:
    """How many times as many data-parallel replicas as were recorded."""
    said: Any = point.scenario.workload
    if said.scale_to is None:
        return 1.0
    was = said.recorded_on.parallel.data if said.recorded_on and said.recorded_on.parallel else 1
    return float(said.scale_to.parallel.data) / was
