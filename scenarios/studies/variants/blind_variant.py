"""One variant of a scenario, built from its description only, without a measured step."""

from __future__ import annotations

from collections.abc import Mapping

from ....sim.facts.backend import Backend
from ....sim.facts.place import place
from ....sim.facts.system import System
from ....sim.run.simulation import Simulation
from ....sim.run.workload import Workload
from ....sim.units import Bytes
from ...config.scenario import Scenario
from ...config.settings import known_workloads
from ..building.jobs import components_of_ranks
from ..building.limits import estimated_memory, usable_memory
from ..building.media import build_media
from ..building.price import price_per_second
from ..building.system import build_backends, build_system
from .answers import answer_of
from .variant import BuiltGraphs, Variant

Machine = tuple[System, Mapping[str, Backend]]
"""System, and the backend of each component by name."""


def build_machine(scenario: Scenario) -> Machine:
    """System of a scenario, and its backends by component name."""
    made = build_system(scenario)
    return made, build_backends(scenario, made)


def build_blind_variant(
    scenario: Scenario, built: BuiltGraphs | None = None, machine: Machine | None = None
) -> Variant:
    """Build one variant without calibration on a measured step.

    Parameters
    ----------
    built : its graphs, if built already
    machine : its system and backends, if built already
    """
    price_per_second(scenario)  # before anything runs: it may lack a size or a switch
    made, bound = build_machine(scenario) if machine is None else machine
    built = BuiltGraphs.of(scenario, made) if built is None else built
    (graph, *others) = built.graphs.values()
    jobs = scenario.jobs
    only = not others and not scenario.section("jobs") and not _job_holds_memory(scenario, made)
    steered = any(job.processes for job in jobs.values()) or None in built.graphs.values()
    simulation = Simulation(
        made,
        bound,
        engine=scenario.run.engine,
        seed=scenario.run.seed,
        memory=_memory_left(scenario, built, steered),
        media=build_media(scenario, made),
    )
    ranks = components_of_ranks(scenario.placement, made) if only else None
    placed = place(graph, made, ranks) if graph is not None and only else None
    return Variant(scenario, placed, simulation, built, answer_of(scenario))


def _job_holds_memory(scenario: Scenario, system: System) -> bool:
    """True if a job holds GPU memory, so that its graph alone is not enough to run it."""
    kinds = [known_workloads()[job.workload.type] for job in scenario.jobs.values()]
    parts = system.components.parts
    counted = any(part.capacity is not None and part.role == "memory" for part in parts)
    return counted and any(kind.holds is not Workload.holds for kind in kinds)


def _memory_left(scenario: Scenario, built: BuiltGraphs, steered: bool) -> Bytes | None:
    """Memory in B for graphs that processes submit; without processes, for the complete run."""
    most = usable_memory(scenario.run.memory)
    if not steered:
        return most
    ops = sum(len(graph) for graph in built.graphs.values() if graph is not None)
    return None if most is None else max(most - estimated_memory(ops), 0.0)
