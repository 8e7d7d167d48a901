"""Variants of a scenario: built from it, checked, run and measured."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...sim.backend import Backend
from ...sim.metric import Metric
from ...sim.place import place
from ...sim.result import Result
from ...sim.simulation import Simulation
from ...sim.system import System
from ...sim.units import Bytes
from ...sim.workload import Samples
from ..config.scenario import Scenario
from .answers import answer_of
from .building.jobs import graph_key
from .building.price import price_per_second
from .building.system import build_backends, build_system
from .limits import estimated_memory, usable_memory
from .preflight import require_answers
from .process_check import require_possible_processes
from .samples import metric_declarations, samples_of
from .variant import BuiltGraphs, Variant

if TYPE_CHECKING:
    from .map_function import MapFunction

log = logging.getLogger(__name__)


def build_variant(
    scenario: Scenario,
    built: BuiltGraphs | None = None,
    machine: tuple[System, Mapping[str, Backend]] | None = None,
) -> Variant:
    """Build one variant.

    Parameters
    ----------
    built : its graphs, where they were built before
    machine : its components and their backends, likewise
    """
    price_per_second(scenario)  # before anything runs: it may lack a size or a switch
    if machine is None:
        made = build_system(scenario)
        machine = made, build_backends(scenario, made)
    made, bound = machine
    built = BuiltGraphs.of(scenario, made) if built is None else built
    (graph, *others) = built.graphs.values()
    jobs = scenario.jobs
    only = not others and not scenario.section("jobs")
    steered = any(job.processes for job in jobs.values()) or None in built.graphs.values()
    simulation = Simulation(
        made,
        bound,
        engine=scenario.run.engine,
        seed=scenario.run.seed,
        memory=_memory_left(scenario, built) if steered else None,
    )
    placed = place(graph, made, scenario.placement.ranks) if graph is not None and only else None
    return Variant(scenario, placed, simulation, built, answer_of(scenario))


def _memory_left(scenario: Scenario, built: BuiltGraphs) -> Bytes | None:
    """Memory beside that of the run itself, for what processes submit."""
    most = usable_memory(scenario.run.memory)
    ops = sum(len(graph) for graph in built.graphs.values() if graph is not None)
    return None if most is None else max(most - estimated_memory(ops), 0.0)


def build_variants(scenario: Scenario) -> list[Variant]:
    """Every variant, before any of them runs; those with the same workload share its graph."""
    built: dict[str, BuiltGraphs] = {}
    found = []
    for variant in scenario.variants():
        key = graph_key(variant)
        if key not in built:
            built[key] = BuiltGraphs.of(variant)
        found.append(build_variant(variant, built[key]))
    require_possible_processes(found)
    require_answers(found)
    return found


@dataclass(frozen=True)
class VariantResults:
    """Results of one variant: its run, its replicas, and their samples.

    Parameters
    ----------
    point : Point
    result : Result
        Of the run with the durations as recorded.
    samples : of every metric of that run
    replicas : the same of each seeded draw
    metrics : what each of them is
    """

    point: Variant
    result: Result
    samples: Mapping[str, Samples]
    replicas: tuple[Mapping[str, Samples], ...] = ()
    metrics: Mapping[str, Metric] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """``base`` or the name of the variant."""
        return self.point.name


def run_with_replicas(point: Variant, each: MapFunction = map) -> VariantResults:
    """Run a point, and its replicas.

    Parameters
    ----------
    each : goes over the replicas
    """
    wanted = point.scenario.run.replicas
    recorded = each(lambda _: point.run(), (None,))  # under way already, where there is a pool
    draw = point.draw if wanted > 1 else point.run
    (result,) = recorded
    numbers = range(wanted) if wanted > 1 else ()
    drawn = tuple(each(lambda k: samples_of(point, draw(k)), numbers))
    samples = samples_of(point, result)
    metrics = metric_declarations(point, result, samples)
    log.info("%s: %s ops, makespan %.6g s", point.name, result.count, result.makespan)
    return VariantResults(point, result, samples, drawn, metrics)
