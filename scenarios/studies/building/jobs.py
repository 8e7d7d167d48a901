"""Graphs and processes that the jobs of a scenario start."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ....models.network.collective.expand import expand
from ....sim.errors import ScenarioError
from ....sim.facts.graph import Graph
from ....sim.facts.system import System
from ....sim.run.job import Job
from ....sim.run.process import Process
from ....sim.run.workload import Needs, Workload, check_start_result
from ...config.problems import InvalidScenarioError, Problem, did_you_mean_text
from ...config.scenario import Scenario
from ...config.sections.placement import PlacementSection
from ...config.settings import workload_file_settings
from .limits import estimated_memory, require_memory
from .op_rules import with_rules
from .system import build_system

Pools = Mapping[str, int | tuple[str, ...]]


def workloads_of(scenario: Scenario) -> dict[str, Workload]:
    """The workload of each job, made of its settings; it has read nothing yet.

    Raises
    ------
    InvalidScenarioError
        Settings that do not go together, with the place of the first.
    """
    gpu, host = scenario.cluster.gpu(), scenario.cluster.host_resources()
    try:
        return {name: job.workload.make(gpu, host) for name, job in scenario.jobs.items()}
    except InvalidScenarioError:
        raise
    except ScenarioError as error:
        spot = scenario.position_of(str(error))
        raise InvalidScenarioError([Problem("workload", str(error), spot)]) from error


def files_of(scenario: Scenario) -> Iterator[tuple[str, str]]:
    """Files that its workloads name, by setting."""
    for job, section in scenario.jobs.items():
        head = "" if scenario.section("workload") is not None else f"jobs.{job}."
        for key in workload_file_settings():
            name = getattr(section.workload, key, None)
            if name is not None:
                yield f"{head}workload.{key}", str(name)


def graphs_of(scenario: Scenario, system: System | None = None) -> dict[str, Graph | None]:
    """The graph of each job, without a machine in it; None of one that is a process.

    Parameters
    ----------
    system : its machine, where it was built before
    """
    machine = build_system(scenario) if system is None else system
    pools, graphs = pools_of(scenario, machine), {}
    for name, workload in workloads_of(scenario).items():
        there = first_possible_components(pools[name], workload.needs, machine)
        start = start_job_before_run(Job(name, workload, there), scenario, machine)
        graphs[name] = start if isinstance(start, Graph) else None
    return graphs


def graph_inputs(scenario: Scenario, system: System) -> str:
    """Text of all that a scenario's graphs depend on: where it is the same, they are.

    Network and prices are not in it.  A workload sees its own settings, the GPU, the seed of its
    draws, and the components of its pools, which are more on more machines.

    Parameters
    ----------
    system : its machine
    """
    jobs = [(name, job.workload, job.on, job.ops) for name, job in scenario.jobs.items()]
    pools = [need for w in workloads_of(scenario).values() for need in w.needs.pools.values()]
    there = {need.kind: system.select(kind=need.kind) for need in pools}
    cluster = scenario.cluster
    beside = cluster.gpu(), cluster.host_resources(), cluster.fabric.expand, scenario.run.seed
    return repr((jobs, there, system.gpus, beside))


def graph_of(scenario: Scenario) -> Graph:
    """The graph of a scenario's only workload.

    Raises
    ------
    ScenarioError
        There are several; it is a process, whose graphs are known only while it runs.
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
    """Stand-in for a job before the run: only its seed is known."""

    seed: tuple[int, int]
    parent: Job | None = None


def start_job_before_run(job: Job, scenario: Scenario, system: System) -> Graph | Process:
    """Graph or process that a job starts, before any run.

    What has more ranks than there are GPUs is not written out: it is refused when it is placed.

    Parameters
    ----------
    system : the machine

    Raises
    ------
    ScenarioError
        More ops than fit into memory; neither a graph nor a process.
    GraphError
        A collective that no algorithm of ``cluster.fabric.expand`` writes out.
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
    """Machine of each rank, which is on the first pool of its workload."""
    names = next(iter(job.on.values()), ()) or system.gpus
    return tuple(system.node_of(system.number(name)) for name in names)


def pools_of(scenario: Scenario, system: System) -> dict[str, Pools]:
    """Components of each pool that each job names; a count stands as it is, to be waited for.

    Raises
    ------
    ScenarioError
        Nothing has such a name.
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
        if isinstance(value, int) and value > len(system.select(kind=kind)):
            raise ScenarioError(
                f"{path}.{pool}: {value} {kind} are requested, but the cluster has "
                f"{len(system.select(kind=kind))}; request fewer, or add nodes"
            )
    return pools


def _components_named(
    path: str, globs: Iterable[str], kind: str, system: System
) -> tuple[str, ...]:
    fitting = (system.components[c] for glob in globs for c in system.match(glob))
    names = tuple(dict.fromkeys(c.name for c in fitting if c.kind == kind))
    if not names:
        like = next(iter(system.select(kind=kind)), "a component")
        raise ScenarioError(
            f"{path}: no {kind} matches {', '.join(globs)}; write a glob such as {like!r}, or a "
            "count"
        )
    return names


def components_of_ranks(placement: PlacementSection, system: System) -> tuple[str, ...] | None:
    """Component of each rank, globs written out; None where ranks follow their pool.

    Raises
    ------
    ScenarioError
        Nothing has such a name.
    """
    if placement.ranks is None:
        return None
    return tuple(name for glob in placement.ranks for name in _places_named(glob, system))


def _places_named(glob: str, system: System) -> tuple[str, ...]:
    """GPUs that a glob means; other components with slots where it means no GPU."""
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
    """Components by pool that a job could have: of a count the first ones of its kind."""
    return {
        pool: system.select(kind=needs.pools[pool].kind)[:value]
        if isinstance(value, int)
        else value
        for pool, value in pools.items()
    }
