"""Graphs and processes that the jobs of a scenario start, and their components."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ....models.network.collective.expand import expand
from ....sim.errors import ScenarioError
from ....sim.facts.graph import Graph
from ....sim.facts.kind import GPU
from ....sim.facts.system import System
from ....sim.run.job import Job
from ....sim.run.process import Process
from ....sim.run.workload import Needs, Workload, check_methods, check_start_result
from ...config.problems import InvalidScenarioError, Problem, did_you_mean_text
from ...config.scenario import Scenario
from ...config.sections.placement import PlacementSection
from ...config.settings import workload_file_settings
from .limits import estimated_memory, require_memory
from .op_rules import with_rules
from .system import build_system

Pools = Mapping[str, int | tuple[str, ...]]


def workloads_of(scenario: Scenario) -> dict[str, Workload]:
    """Workload of each job, constructed from its settings; no file is read yet.

    Raises
    ------
    InvalidScenarioError
        Settings contradict each other; the position is that of the first one.
    """
    gpu, host = scenario.cluster.gpu(), scenario.cluster.host_resources()
    try:
        found = {name: job.workload.make(gpu, host) for name, job in scenario.jobs.items()}
        for made in found.values():
            check_methods(made)
        return found
    except InvalidScenarioError:
        raise
    except ScenarioError as error:
        spot = scenario.position_of(str(error))
        raise InvalidScenarioError([Problem("workload", str(error), spot)]) from error


def files_of(scenario: Scenario) -> Iterator[tuple[str, str]]:
    """Setting and file name of every file that the workloads name."""
    for job, section in scenario.jobs.items():
        head = "" if scenario.section("workload") is not None else f"jobs.{job}."
        for key in workload_file_settings():
            name = getattr(section.workload, key, None)
            if name is not None:
                yield f"{head}workload.{key}", str(name)


def graphs_of(scenario: Scenario, system: System | None = None) -> dict[str, Graph | None]:
    """Unplaced graph of each job; None for a job that is a process.

    Parameters
    ----------
    system : system of the scenario, if it was built already
    """
    machine = build_system(scenario) if system is None else system
    pools, graphs = pools_of(scenario, machine), {}
    for name, workload in workloads_of(scenario).items():
        there = first_possible_components(pools[name], workload.needs, machine)
        start = start_job_before_run(Job(name, workload, there), scenario, machine)
        graphs[name] = start if isinstance(start, Graph) else None
    return graphs


def graph_inputs(scenario: Scenario, system: System) -> str:
    """Key of everything that a scenario's graphs depend on; equal keys mean equal graphs.

    Network and prices are not part of it. A workload depends on its settings, the GPU, the random
    seed, and the components of its pools.

    Parameters
    ----------
    system : system of the scenario
    """
    jobs = [(name, job.workload, job.on, job.ops) for name, job in scenario.jobs.items()]
    pools = [need for w in workloads_of(scenario).values() for need in w.needs.pools.values()]
    there = {need.kind: system.of_kind(need.kind) for need in pools}
    cluster = scenario.cluster
    beside = cluster.gpu(), cluster.host_resources(), cluster.fabric.expand, scenario.run.seed
    return repr((jobs, there, system.gpus, beside))


def graph_of(scenario: Scenario) -> Graph:
    """Graph of a scenario's only job.

    Raises
    ------
    ScenarioError
        There are several jobs, or the job is a process, whose graphs are known only during the run.
    """
    graphs = graphs_of(scenario)
    (first, *others) = graphs.values()
    if first is None or others:
        what = (
            f"there are {len(graphs)} jobs" if others else "it is a process, without a fixed graph"
        )
        raise ScenarioError(f"workload: one graph is needed, but {what}; give one trace")
    return first


@dataclass(frozen=True)
class _JobBeforeRun:
    """Stand-in for a running job, with its random seed only."""

    seed: tuple[int, int]
    parent: Job | None = None


def start_job_before_run(job: Job, scenario: Scenario, system: System) -> Graph | Process:
    """Graph or process that a job starts, computed before any run.

    Collectives are not expanded if there are more ranks than GPUs; placement reports that error.

    Parameters
    ----------
    system : system of the scenario

    Raises
    ------
    ScenarioError
        There are more ops than fit into memory, or the job starts neither a graph nor a process.
    GraphError
        No algorithm in ``cluster.fabric.expand`` can expand a collective.
    """
    size = job.workload.size()
    if size is not None:
        require_memory(estimated_memory(size.ops), 1, scenario.run.memory, f"{size.ops:,} ops")
    life: Any = _JobBeforeRun((scenario.run.seed, 0))
    start = job.workload.start(job.as_started(life, system))
    try:
        start = check_start_result(start, f"workload {job.workload.registered_name!r}")
    except TypeError as error:
        raise ScenarioError(str(error)) from error
    if isinstance(start, Graph):
        start = with_rules(start, scenario, job.name)
    written_out = scenario.cluster.fabric.expand
    if written_out is None or not isinstance(start, Graph):
        return start
    machines = _node_of_rank(job, system)
    return start if start.ranks > len(machines) else expand(start, written_out, machines)


def _node_of_rank(job: Job, system: System) -> tuple[str, ...]:
    """Name of the machine of each rank, from the first pool of its workload."""
    names = next(iter(job.on.values()), ()) or system.gpus
    return tuple(system.node_of(system.number(name)) for name in names)


def pools_of(scenario: Scenario, system: System) -> dict[str, Pools]:
    """Component names of each pool of each job; a pool given as a count keeps its count.

    Raises
    ------
    ScenarioError
        A pool or a component name is unknown.
    """
    workloads = workloads_of(scenario)
    return {name: _pools_of_job(f"jobs.{name}.on", job.on, workloads[name].needs, system)
            for name, job in scenario.jobs.items()}  # fmt: skip


def _pools_of_job(path: str, named: Mapping[str, Any], needs: Needs, system: System) -> Pools:
    pools: dict[str, int | tuple[str, ...]] = {}
    for pool, value in named.items():
        if pool not in needs.pools:
            raise ScenarioError(
                f"{path}: its workload has no pool {pool!r}"
                f"{did_you_mean_text(pool, list(needs.pools))}"
            )
        kind = needs.pools[pool].kind
        globs = (value,) if isinstance(value, str) else value
        pools[pool] = (
            value
            if isinstance(value, int)
            else _components_named(f"{path}.{pool}", globs, kind, system)
        )
        if isinstance(value, int) and value > len(system.of_kind(kind)):
            raise ScenarioError(
                f"{path}.{pool}: {value} {kind} are requested, but the cluster has "
                f"{len(system.of_kind(kind))}; request fewer, or add nodes"
            )
    return pools


def _components_named(
    path: str, globs: Iterable[str], kind: str, system: System
) -> tuple[str, ...]:
    found = [system.components[c] for glob in globs for c in system.match(glob)]
    names = tuple(dict.fromkeys(c.name for c in found if c.kind == kind))
    if kind == GPU and not names:  # ranks can live on hosts, SmartNICs …
        names = tuple(dict.fromkeys(c.name for c in found if c.slots is not None))
    if not names:
        like = next(iter(system.of_kind(kind)), "a component")
        raise ScenarioError(
            f"{path}: no {kind} matches {', '.join(globs)}; write a glob such as {like!r}, or a "
            "count"
        )
    return names


def components_of_ranks(placement: PlacementSection, system: System) -> tuple[str, ...] | None:
    """Component name of each rank, with globs expanded; None if ranks follow their pool.

    Raises
    ------
    ScenarioError
        A name is unknown.
    """
    if placement.ranks is None:
        return None
    return tuple(name for glob in placement.ranks for name in _components_of_glob(glob, system))


def _components_of_glob(glob: str, system: System) -> tuple[str, ...]:
    """Names of the GPUs that a glob matches; without GPUs, of other components with slots."""
    if glob in system.index or not any(letter in glob for letter in "*?[:"):
        return (glob,)
    found = [
        system.components[c] for c in system.match(glob) if system.components[c].slots is not None
    ]
    gpus = [c.name for c in found if c.kind == "gpu"]
    if not found:
        like = next(iter(system.gpus), "a component")
        raise ScenarioError(
            f"placement.ranks: no component matches {glob}; write a glob such as {like!r}"
        )
    return tuple(gpus or (c.name for c in found))


def first_possible_components(
    pools: Pools, needs: Needs, system: System
) -> dict[str, tuple[str, ...]]:
    """Components that a job could get, by pool: named ones, or the first N for a count N."""
    return {
        pool: system.of_kind(needs.pools[pool].kind)[:value] if isinstance(value, int) else value
        for pool, value in pools.items()
    }
