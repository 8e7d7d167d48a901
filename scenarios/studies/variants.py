"""A point is one variant with all its settings: built, run, measured."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...models.compute.jitter import spread, typical
from ...models.compute.recorded import Recorded
from ...sim.analysis.metrics import Samples, measure
from ...sim.analysis.sensitivity import Altered
from ...sim.backend import Backend, Spread
from ...sim.errors import ScenarioError
from ...sim.graph import Graph
from ...sim.ops import Ops
from ...sim.place import place
from ...sim.process import Process, Running, Steps
from ...sim.result import Result
from ...sim.simulation import Simulation
from ...sim.units import Bytes, MoneyRate, Watts
from ..config.problems import InvalidScenarioError
from ..config.reading.unsupported import unsupported
from ..config.scenario import Scenario
from .building.price import cost_per_million_tokens, price
from .building.system import backends, failures, system
from .building.workloads import build, open_starts
from .error_context import in_its_words
from .limits import usable
from .preflight import require_answers

if TYPE_CHECKING:
    from .accuracy.coupled_devices import CoupledDevices
    from .executor import MapFunction

log = logging.getLogger(__name__)

HOUR = 3600.0  # s


@dataclass(frozen=True)
class StepVariation:
    """How the ops of a recording vary from step to step; variants share it.

    Parameters
    ----------
    ops : with the durations of the recording
    starts : of each process start that was recorded beside it, (n,) s of its steps
    """

    ops: Ops
    starts: tuple[NDArray[np.float64], ...] = ()

    @classmethod
    def of(cls, scenario: Scenario, graph: Graph) -> StepVariation:
        """That of a workload and the starts that it names."""
        starts = open_starts(scenario)
        return cls(graph.ops, tuple(starts.steps) if starts else ())

    @cached_property
    def typical(self) -> NDArray[np.float64]:
        """(n,) s: how long each op typically is."""
        return typical(self.ops)

    @cached_property
    def spread(self) -> Spread | None:
        """Factors around that."""
        return spread(self.ops, self.starts)


@dataclass(frozen=True)
class Variant:
    """One variant, ready to run.

    Parameters
    ----------
    scenario : Scenario
    graph : Graph
        With the durations of the recording, placed on the machine.
    simulation : Simulation
    variation : Variation
        Of those durations.
    coupled : Coupled or None
        The devices that drive it, if any do.
    """

    scenario: Scenario
    graph: Graph
    simulation: Simulation
    variation: StepVariation
    coupled: CoupledDevices | None = None

    @property
    def name(self) -> str:
        """``base`` or the name of the variant."""
        return self.scenario.variant

    @property
    def processes(self) -> tuple[Process, ...]:
        """What steers the run: parts that are down from the start, devices, and who is named."""
        down = failures(self.scenario, self.simulation.system)
        devices = self.coupled.coupling.processes if self.coupled else ()
        named = (steering.make(self.graph) for steering in self.scenario.processes)
        return (*((Down(down),) if down else ()), *devices, *named)

    @cached_property
    def price(self) -> MoneyRate | None:
        """USD a second for all machines; None where nothing says what things cost."""
        return price(self.scenario)

    def on(self, simulation: Simulation) -> Variant:
        """The same on a machine of the same components, otherwise altered."""
        graph = replace(self.graph, system=simulation.system)
        return replace(self, graph=graph, simulation=simulation)

    def run(self, replica: int | None = None) -> Result:
        """Run once: as recorded, or one seeded draw around typical durations."""
        if replica is not None:
            return self.draw(replica)
        with in_its_words(self.scenario, self.simulation.system.gpus):
            return self.simulation.run(self.graph, *self.processes, keep=self.scenario.run.keep)

    @cached_property
    def draw(self) -> Callable[[int], Result]:
        """What runs one seeded draw; only devices are asked again for each of them."""
        keep = self.scenario.run.keep
        varied = replace(self.simulation, backends=self._varying)
        draws: Callable[[int], Result] = (
            varied.draws(self._typical, *self.processes, keep=keep)
            if self.coupled is None
            else lambda k: varied.run(self._typical, *self.processes, replica=k, keep=keep)
        )

        def drawn(replica: int) -> Result:
            with in_its_words(self.scenario, self.simulation.system.gpus):
                return draws(replica)

        return drawn

    @cached_property
    def _typical(self) -> Graph:
        """Every op as long as it typically is."""
        return self.graph.with_ops(self.graph.ops.replace(duration=self.variation.typical))

    @cached_property
    def _varying(self) -> dict[str, Backend]:
        """Recorded durations that vary as the recordings do."""
        varies = self.variation.spread
        made = {id(b): _varied(b, varies) for b in self.simulation.backends.values()}
        return {n: made[id(b)] for n, b in self.simulation.backends.items()}


def _varied(backend: Backend, varies: Spread | None) -> Backend:
    """Recorded durations with their variation, also where a part is slower than recorded."""
    made = copy(backend)
    if isinstance(made, Recorded):
        made.spread = varies
    elif isinstance(made, Altered):
        made.inner = _varied(made.inner, varies)
    else:
        return backend
    return made


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


def point(
    scenario: Scenario, graph: Graph | None = None, variation: StepVariation | None = None
) -> Variant:
    """Build one variant.

    Parameters
    ----------
    graph, variation : its workload, where it was built before
    """
    refuse(scenario)
    price(scenario)  # before anything runs: it may lack a size or a switch
    made = system(scenario)
    bound = backends(scenario, made)
    graph = build(scenario) if graph is None else graph
    simulation = Simulation(
        made,
        bound,
        engine=scenario.run.engine,
        seed=scenario.run.seed,
        memory=_left(scenario, graph) if scenario.processes else None,
    )
    variation = StepVariation.of(scenario, graph) if variation is None else variation
    return Variant(scenario, place(graph, made, scenario.placement.ranks), simulation, variation)


def _left(scenario: Scenario, graph: Graph) -> Bytes | None:
    """Memory beside that of the run itself, for what processes submit."""
    from .plan import memory

    most = usable(scenario.run.memory)
    return None if most is None else max(most - memory(len(graph)), 0.0)


def refuse(scenario: Scenario) -> None:
    """Refuse what nothing here simulates.

    Raises
    ------
    InvalidScenarioError
        Every such setting, of all variants.
    """
    found = [p for p in unsupported(scenario) if p.severity == "error"]
    if found:
        raise InvalidScenarioError(found)


def variants(scenario: Scenario) -> list[Variant]:
    """Every variant, before any of them runs; those with the same workload share its graph."""
    refuse(scenario)
    built: dict[str, tuple[Graph, StepVariation]] = {}
    found = []
    for variant in scenario.variants():
        key = repr((variant.workload, variant.cluster.fabric.expand))
        if key not in built:
            graph = build(variant)
            built[key] = graph, StepVariation.of(variant, graph)
        found.append(point(variant, *built[key]))
    require_answers(found)
    return found


def counted(scenario: Scenario) -> tuple[int, int | None]:
    """Iterations of warm-up, and how many count after them."""
    said: Any = getattr(scenario.workload, "iterations", None)
    return (said.warm_up, said.measure) if said is not None else (0, None)


@dataclass(frozen=True)
class VariantResults:
    """What came of one point.

    Parameters
    ----------
    point : Point
    result : Result
        Of the run with the durations as recorded.
    samples : of every metric of that run
    replicas : the same of each seeded draw
    """

    point: Variant
    result: Result
    samples: Mapping[str, Samples]
    replicas: tuple[Mapping[str, Samples], ...] = ()

    @property
    def name(self) -> str:
        """``base`` or the name of the variant."""
        return self.point.name


def measured(point: Variant, each: MapFunction = map) -> VariantResults:
    """Run a point, and its replicas.

    Parameters
    ----------
    each : goes over the replicas
    """
    warm_up, count = counted(point.scenario)

    def sampled(result: Result) -> dict[str, Samples]:
        try:
            return _extended(measure(result, warm_up, count), point)
        except ValueError as error:
            raise ScenarioError(f"workload.iterations: {error}; take fewer") from error

    wanted = point.scenario.run.replicas
    recorded = each(lambda _: point.run(), (None,))  # under way already, where there is a pool
    draw = point.draw if wanted > 1 else point.run
    (result,) = recorded
    drawn = tuple(each(lambda k: sampled(draw(k)), range(wanted) if wanted > 1 else ()))
    samples = sampled(result)
    log.info("%s: %s ops, makespan %.6g s", point.name, result.count, result.makespan)
    return VariantResults(point, result, samples, drawn)


def _extended(samples: dict[str, Samples], point: Variant) -> dict[str, Samples]:
    """With the metrics that need more than the run: tokens, power, cost."""
    said: Any = point.scenario.workload
    tokens = getattr(said, "tokens_per_iteration", None)
    rate, gpus = point.price, len(point.simulation.system.gpus)
    if rate is not None:
        samples["cost_per_hour"] = np.array([rate * HOUR])
    if tokens is not None:
        tokens *= _growth(point)
        samples["tokens_per_second"] = tokens / samples["iteration_time"]
        mean = float(samples["iteration_time"].mean())
        samples["gpu_time_per_million_tokens"] = np.array([gpus * mean / tokens * 1e6])
        if rate is not None:
            cost = cost_per_million_tokens(rate, mean, tokens)
            samples["cost_per_million_tokens"] = np.array([cost])
    if (watts := _watts(point.scenario)) is not None:
        samples["gpu.power.bound"] = np.array([watts])
    return samples


def _watts(scenario: Scenario) -> Watts | None:
    """Of all GPUs at full load; None where nobody says it of one of them."""
    cards = [(m.count, p) for m in scenario.cluster.machines() if (p := m.node.part("gpu"))]
    told = [p.settings["power"] * (n * p.count) for n, p in cards if "power" in p.settings]
    return sum(told) if told and len(told) == len(cards) else None


def _growth(point: Variant) -> float:
    """How many times as many data-parallel replicas as were recorded."""
    said: Any = point.scenario.workload
    if said.scale_to is None:
        return 1.0
    was = said.recorded_on.parallel.data if said.recorded_on and said.recorded_on.parallel else 1
    return float(said.scale_to.parallel.data) / was
