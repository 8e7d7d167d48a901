"""What a run would do: points, simulations, ops, memory, minutes, devices, assumptions.

Reads the trace; builds no machine, runs nothing, opens no device.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ...sim.units import Bytes, Seconds
from ..config.scenario import Scenario
from .workers.workers import cores

# By benchmarks/sweep.py --cost, the first scenario on 2 to 64 ranks, one core of a Zen 4 VM.
SECONDS_PER_OP = {"core": 5.0e-7, "reference": 4e-5}  # of one simulation, measured
SECONDS_PER_POINT = 0.012  # to check its settings and to build its machine
BYTES_PER_OP = 510.0  # at the peak of one simulation
BYTES_PER_PROCESS = 245e6  # with nothing in it
SENSITIVITY = 2  # simulations for each kind of part: 10 % faster, and free


@dataclass(frozen=True)
class Plan:
    """What a run or sweep would do.

    Parameters
    ----------
    ranks, ops : by variant
    iterations : recorded
    simulations : of all variants
    points : of a sweep; 0 for none
    processes : that a sweep would use
    op_runs : ops times simulations, in all
    seconds : about, of wall time; of the sweep where there is one
    memory : about, bytes of each process
    devices : components that are bound to hardware
    assumed : values that nobody measured, by path
    """

    ranks: dict[str, int]
    ops: dict[str, int]
    iterations: int
    simulations: int
    points: int
    processes: int
    op_runs: float
    seconds: Seconds
    memory: Bytes
    devices: list[str] = field(default_factory=list)
    assumed: list[str] = field(default_factory=list)


def plan(scenario: Scenario) -> Plan:
    """Plan a run of a scenario, and its sweep where there is one.

    Raises
    ------
    ScenarioError, TraceError
        It cannot be run.
    """
    from .variants import refuse

    refuse(scenario)
    sizes = {v.variant: size(v) for v in scenario.variants()}
    ops = {name: s.ops for name, s in sizes.items()}
    each = {v.variant: _simulations(v) for v in scenario.variants()}
    sweep = scenario.section("sweep")
    points = sweep.wanted + 1 if sweep else 0
    replicas = scenario.run.replicas
    drawn = 1 + (replicas if replicas > 1 else 0)
    processes = min(cores(), points) if sweep else 1
    op_runs = float(points * drawn * ops["base"] if sweep else sum(ops[n] * each[n] for n in ops))
    took = SECONDS_PER_OP[scenario.run.engine] * op_runs + SECONDS_PER_POINT * (points or len(ops))
    return Plan(
        ranks={name: s.ranks for name, s in sizes.items()},
        ops=ops,
        iterations=sizes["base"].iterations,
        simulations=sum(each.values()),
        points=points,
        processes=processes,
        op_runs=op_runs,
        seconds=took / processes,
        memory=memory(max(ops.values())),
        devices=list(_devices(scenario)),
        assumed=sorted(_assumed(scenario)),
    )


def memory(ops: int) -> Bytes:
    """About what one process needs to simulate so many ops."""
    return BYTES_PER_PROCESS + BYTES_PER_OP * ops


@dataclass(frozen=True)
class Size:
    """How large a workload is."""

    ranks: int
    ops: int
    iterations: int


def size(scenario: Scenario) -> Size:
    """How large a workload is: as recorded, times how many more ranks there would be."""
    said: Any = scenario.workload
    if getattr(said, "type", "") != "trace":
        from .building.workloads import build

        graph = build(scenario)
        return Size(graph.ranks, len(graph), int(graph.ops.iteration.max(initial=0)) + 1)
    ranks, ops, iterations = _recorded(said)
    wanted = said.scale_to.parallel.ranks if said.scale_to else ranks
    return Size(wanted, round(ops * wanted / max(ranks, 1)), iterations)


_known: dict[tuple[Any, ...], tuple[int, int, int]] = {}


def _recorded(said: Any) -> tuple[int, int, int]:
    """Ranks, ops and iterations of a trace."""
    from .building.workloads import as_recorded

    key = (said.trace, said.format, said.missing_ranks, said.serialise)
    if key not in _known:
        graph = as_recorded(said)
        last = int(graph.ops.iteration.max(initial=0)) + 1
        _known[key] = (graph.ranks, len(graph), last)
    return _known[key]


def _simulations(scenario: Scenario) -> int:
    """Of one variant: as recorded, its replicas, and those that explain it."""
    replicas = scenario.run.replicas
    kinds = len(scenario.cluster.parts()) + 2  # with what joins them and copies
    return 1 + (replicas if replicas > 1 else 0) + SENSITIVITY * kinds


def _devices(scenario: Scenario) -> Iterator[str]:
    """Components that a driver answers for."""
    from ..config.settings import known_backends

    for glob, binding in scenario.backends.items():
        if known_backends()[binding.use].__module__.split(".")[1] == "hil":
            yield f"{glob}: {binding.use}"
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
    from .limits import require_memory

    what = f"{processes} points at once" if processes > 1 else f"{ops:,} ops"
    require_memory(memory(ops), processes, scenario.run.memory, what)
