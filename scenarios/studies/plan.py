"""Plan of a run: points, simulations, ops, memory, minutes, devices, chains, assumptions.

Reads what the workload needs and asks its models; runs nothing, opens no device.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from ...sim.graph import Graph
from ...sim.units import Bytes, Seconds
from ...sim.workload import Size
from ..config.scenario import BASE, Scenario
from .building.answerers import may_chain
from .building.jobs import graphs_of, workloads_of
from .chain_shares import Shares
from .limits import memory, require_memory, usable
from .workers.workers import cores

# By benchmarks/sweep.py --cost, the first scenario on 2 to 64 ranks, one core of a Zen 4 VM.
SECONDS_PER_OP = {"core": 5.0e-7, "reference": 4e-5}  # of one simulation, measured
SECONDS_PER_POINT = 0.012  # to check its settings and to build its machine
SENSITIVITY = 2  # simulations for each kind of part: 10 % faster, and free


@dataclass(frozen=True)
class Plan:
    """Work that a run or sweep would do.

    Parameters
    ----------
    ranks, ops : by variant; None where they are known only while it runs
    periods, period : how often the workload repeats, and what each time is called; 0 and ""
        where it does not
    simulations : of all variants
    points : of a sweep; 0 for none
    processes : that a sweep would use
    op_runs : ops times simulations, in all
    seconds : about, of wall time; of the sweep where there is one
    memory : about, bytes of each process
    devices : components that are bound to hardware
    assumed : values that nobody measured, by path
    chains : of each variant, the share of time that each link of its chains will answer: see
        ``chain_shares``; empty without chains
    """

    ranks: dict[str, int | None]
    ops: dict[str, int | None]
    periods: int
    period: str
    simulations: int
    points: int
    processes: int
    op_runs: float | None
    seconds: Seconds | None
    memory: Bytes | None
    devices: list[str] = field(default_factory=list)
    assumed: list[str] = field(default_factory=list)
    chains: dict[str, dict[str, Shares]] = field(default_factory=dict)


def plan(scenario: Scenario) -> Plan:
    """Estimate of what a run, and its sweep, would take and assume; nothing is run.

    Raises
    ------
    ScenarioError, TraceError
        It cannot be run.
    """
    from .variants import refuse

    refuse(scenario)
    sizes = {v.variant: size(v) for v in scenario.variants()}
    each = {v.variant: _simulations(v) for v in scenario.variants()}
    sweep = scenario.section("sweep")
    points = sweep.wanted + 1 if sweep else 0
    processes = min(cores(), points) if sweep else 1
    known = {name: s.ops for name, s in sizes.items() if s is not None}
    made = Plan(
        ranks={name: s.ranks if s else None for name, s in sizes.items()},
        ops={name: s.ops if s else None for name, s in sizes.items()},
        periods=base.periods if (base := sizes[BASE]) else 0,
        period=next(iter(workloads_of(scenario).values())).period,
        simulations=sum(each.values()),
        points=points,
        processes=processes,
        op_runs=None,
        seconds=None,
        memory=None,
        devices=list(_devices(scenario)),
        assumed=sorted(_assumed(scenario)),
    )
    if len(known) == len(sizes):
        made = _timed(made, scenario, known, each)
    return replace(made, chains=_chains(scenario, made))


def _chains(scenario: Scenario, made: Plan) -> dict[str, dict[str, Shares]]:
    """Shares of the chains of each variant; of a sweep's first point only.

    Left out where a run would not fit into memory, and said so by the plan's own numbers.
    """
    from .preflight import chains_of
    from .variants import variants

    allowed = usable(scenario.run.memory)
    if made.memory is not None and allowed is not None and made.memory > allowed:
        return {}
    if not any(map(may_chain, scenario.variants())):
        return {}
    points = variants(scenario)
    return {p.name: told for p in points if (told := chains_of(p))}


def _timed(made: Plan, scenario: Scenario, ops: dict[str, int], each: dict[str, int]) -> Plan:
    """Plan with time and memory, which follow from the number of ops."""
    replicas = scenario.run.replicas
    drawn = 1 + (replicas if replicas > 1 else 0)
    work = made.points * drawn * ops[BASE] if made.points else sum(ops[n] * each[n] for n in ops)
    took = SECONDS_PER_OP[scenario.run.engine] * work + SECONDS_PER_POINT * (
        made.points or len(ops)
    )
    return replace(
        made,
        op_runs=float(work),
        seconds=took / made.processes,
        memory=memory(max(ops.values())),
    )


def size(scenario: Scenario) -> Size | None:
    """Size of a scenario's jobs; None with a process, whose ops are known only while it runs."""
    known = [workload.size() for workload in workloads_of(scenario).values()]
    if None in known:
        known = [_size(graph) for graph in graphs_of(scenario).values()]
    sizes = [s for s in known if s is not None]
    if len(sizes) < len(known):
        return None
    ranks, ops, periods = zip(*sizes, strict=True)
    return Size(sum(ranks), sum(ops), max(periods))


def _size(graph: Graph | None) -> Size | None:
    if graph is None:
        return None
    return Size(graph.ranks, len(graph), int(graph.ops.period.max(initial=0)) + 1)


def ops_of(scenario: Scenario) -> int:
    """Number of ops as far as they are known before the run."""
    found = size(scenario)
    return found.ops if found else 0


def _simulations(scenario: Scenario) -> int:
    """Simulations of one variant: as recorded, its replicas, and those that explain it."""
    replicas = scenario.run.replicas
    kinds = len(scenario.cluster.parts()) + 2  # with what joins them and copies
    return 1 + (replicas if replicas > 1 else 0) + SENSITIVITY * kinds


def _devices(scenario: Scenario) -> Iterator[str]:
    """Components that a driver answers for."""
    from ..config.settings import known_backends

    for glob, binding in scenario.backends.items():
        for one in binding.answering:
            if known_backends()[one.use].__module__.split(".")[1] == "hil":
                yield f"{glob}: {one.use}"
    hil = scenario.section("hil") if "hil" in type(scenario.model).model_fields else None
    for swap in getattr(hil, "swap", None) or ():
        yield f"{swap.component}: {swap.driver}"


def _assumed(scenario: Scenario) -> set[str]:
    return {
        path
        for path, origin in scenario.origins.items()
        if origin.source and origin.source.kind in ("assumed", "datasheet")
    }


def guard(scenario: Scenario, processes: int, ops: int) -> None:
    """Refuse a run that would not fit into memory.

    Raises
    ------
    ScenarioError
        It would not.
    """
    what = f"{processes} points at once" if processes > 1 else f"{ops:,} ops"
    require_memory(memory(ops), processes, scenario.run.memory, what)
