"""Plan of a run: its points, simulations, ops, memory, time, devices and assumptions.

Builds what a run builds and asks its models, but simulates nothing and opens no device.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ....models.compute.families import Families
from ....models.compute.recorded import Recorded
from ....models.compute.roofline import Roofline
from ....models.compute.table import MeasuredTable
from ....sim.facts.graph import Graph
from ....sim.run.workload import Size
from ....sim.units import Bytes, Seconds
from ...config.hil_settings import devices_drive_run
from ...config.scenario import BASE, Scenario
from ...workloads.trace_files import process_starts_of
from ..building.chain_shares import Shares
from ..building.component_backends import may_use_chain
from ..building.jobs import graphs_of, workloads_of
from ..building.limits import estimated_memory, require_memory, usable_memory
from ..building.media import components_by_medium
from ..building.op_rules import changed_ops_by_rule
from ..confidence.defence import runs_that_defend
from ..confidence.uncertainty import ErrorSources, component_kind_of_setting, error_sources
from ..summaries.grids import grids_of_policies
from ..summaries.provenance import is_pure_replay, provenance
from ..summaries.summary import FEWEST
from ..sweep.plan_points import wanted_points
from ..variants.counted_periods import number_of_periods
from ..variants.step_calibration import measured_step
from ..variants.variant import Variant, runs_as_template
from ..workers.workers import usable_cores

# By benchmarks/commands/sweep.py --cost, the first scenario on 2 to 64 ranks, one core of a
# Zen 4 VM.
SECONDS_PER_OP = {"core": 5.0e-7, "reference": 4e-5}  # of one simulation, measured
# Of llama3-8b on 32 ranks and gpt3-13b on 64: models are asked about each op of a described model.
SECONDS_ASKED_PER_OP = 2.5e-6  # in addition, if models time the ops (not recorded), measured
# Of gpt3-13b on 64 GPUs (634,571 ops, 0.04 s) and gpt3-175b on 1,024, measured.
SECONDS_PER_TEMPLATE_OP = 2e-8  # of one simulation of a template, timed by class of ranks
SECONDS_PER_TEMPLATE = 0.03  # fixed part of it
SECONDS_PER_POINT = 0.012  # to check the settings of a point and to build its machine
SENSITIVITY = 2  # simulations for each kind of part: 10 % faster, and taking no time
ERRORS = 2  # simulations for each source of error: at both ends of its error interval
ALWAYS = frozenset({"host", "fabric", "dma", "memory"})  # parts of nearly every machine
ROOFLINE = Roofline.registered_name  # reports an error interval if its GPU has fitted kernels
GRAPHS = "known graphs"  # key in Scenario.build_cache
SMALL = 2_000_000  # submitted ops of all explaining simulations that are always allowed
SILENT = {b.registered_name for b in (Recorded, Families, MeasuredTable, Roofline)}
"""Backends that report no error interval."""


@dataclass(frozen=True)
class Plan:
    """Estimated work of a run or sweep.

    Parameters
    ----------
    ranks, ops : numbers by variant; None if known only during the run
    periods, period : number of repetitions of the workload, and their name; 0 and "" for none
    simulations : approximate number of simulations of all variants
    process_runs : approximate number of runs of the processes, by variant with processes
    explaining : number of simulations to compute sensitivity and model errors
    defending : approximate number of simulations for ``run.defend``, which tests if the answer can
        flip
    points : points of a sweep; 0 for none
    processes : worker processes of a sweep
    op_runs : number of simulated ops in total: ops times simulations
    seconds : approximate wall time in s, of the sweep if there is one
    memory : approximate memory per process, in B
    untraced : untraced steps of each job whose recording has some
    rules : changes by the rules of ``ops``, by variant with rules
    devices : components that are bound to hardware
    assumed : dotted paths of settings whose values nobody measured
    chains : fraction of time per backend of a chain, by variant: see ``chain_shares``
    media : components of each medium, by variant: see ``components_by_medium``
    grids : size and error of the grids of compiled processes, by variant and name
    explaining_limit : text about the limit of the simulations that explain the answer, if processes
        submit ops; "" for no limit
    too_quick : True if recorded times vary but no replicas are drawn, so that the predicted time
        lacks the waiting for slow ranks
    """

    ranks: dict[str, int | None]
    ops: dict[str, int | None]
    periods: int
    period: str
    simulations: int
    process_runs: dict[str, int]
    explaining: int
    points: int
    processes: int
    op_runs: float | None
    seconds: Seconds | None
    memory: Bytes | None
    untraced: dict[str, dict[str, object]] = field(default_factory=dict)
    rules: dict[str, list[dict[str, object]]] = field(default_factory=dict)
    devices: list[str] = field(default_factory=list)
    assumed: list[str] = field(default_factory=list)
    chains: dict[str, dict[str, Shares]] = field(default_factory=dict)
    media: dict[str, dict[str, dict[str, int]]] = field(default_factory=dict)
    grids: dict[str, dict[str, Any]] = field(default_factory=dict)
    defending: int = 0
    explaining_limit: str = ""
    too_quick: bool = False


def plan(scenario: Scenario) -> Plan:
    """Estimate what a run and its sweep take and assume, without running them.

    Raises
    ------
    ScenarioError, TraceError
        The scenario cannot be run.
    """
    sizes = {v.variant: known_size(v) for v in scenario.variants()}
    sweep = scenario.section("sweep")
    points = wanted_points(scenario) + 1 if sweep else 0
    processes = min(usable_cores(), points) if sweep else 1
    held = None if None in sizes.values() else max(map(known_memory, scenario.variants()))
    built = _variants_that_fit(scenario, held)
    asking = built if any(map(_asks_models, scenario.variants())) else []
    errors = error_sources(scenario.variants(), asking)
    period = next(iter(workloads_of(scenario).values())).period
    each = {v.variant: count_simulations(v, errors) for v in scenario.variants()}
    defending = _runs_that_defend(scenario, built)
    made = Plan(
        ranks={name: s.ranks if s else None for name, s in sizes.items()},
        ops={name: s.ops if s else None for name, s in sizes.items()},
        periods=base.periods if period and (base := sizes[BASE]) else 0,
        period=period,
        simulations=sum(each.values()) + defending,
        process_runs={v.variant: each[v.variant] for v in scenario.variants() if runs_processes(v)},
        explaining=sum(each.values()) - len(each) * drawn_simulations(scenario),
        points=points,
        processes=processes,
        op_runs=None,
        seconds=None,
        memory=held,
        untraced=dict(_untraced_steps(scenario)),
        rules={
            v.variant: changed_ops_by_rule(graphs_of(v))
            for v in scenario.variants()
            if any(job.ops for job in v.jobs.values())
        },
        devices=list(_device_components(scenario)),
        assumed=sorted(_assumed_paths(scenario)),
        defending=defending,
        explaining_limit=_explaining_limit(scenario, sizes),
        too_quick=_is_too_quick(scenario, built, sizes[BASE]),
    )
    if held is not None:
        ops = {name: size.ops for name, size in sizes.items() if size is not None}
        made = _with_time(made, scenario, ops, each, built)
    media = {p.name: told for p in built if (told := components_by_medium(p.simulation))}
    grids = {} if devices_drive_run(scenario) else _grids_by_variant(built)
    return replace(made, chains=_chain_shares_by_variant(asking), media=media, grids=grids)


def _grids_by_variant(built: Iterable[Variant]) -> dict[str, dict[str, Any]]:
    """Size and error of the grids of compiled processes, by variant and name."""
    steered = (p for p in built if None in p.built.graphs.values())
    return {p.name: grids for p in steered if (grids := grids_of_policies(p))}


def _variants_that_fit(scenario: Scenario, held: Bytes | None) -> list[Variant]:
    """All variants, built as for a run; for a sweep, the variants of its first point.

    Empty if a run would need more memory than is available.
    """
    from ..variants.variants import build_variants

    allowed = usable_memory(scenario.run.memory)
    if held is not None and allowed is not None and held > allowed:
        return []
    return build_variants(scenario)


def _untraced_steps(scenario: Scenario) -> Iterator[tuple[str, dict[str, object]]]:
    """Files, number of starts and typical step time of each job with untraced steps."""
    for name, job in scenario.jobs.items():
        if times := process_starts_of(job.workload):
            files, starts = list(times.files), len(times.steps)
            yield name, {"files": files, "process_starts": starts, "typical": times.typical}


def _is_too_quick(scenario: Scenario, built: list[Variant], size: Size | None) -> bool:
    """True if the plan predicts too short a time: recorded times vary, but no replica is drawn.

    Ranks then do not wait for the slowest one, as they would in the real job.
    """
    if not built or scenario.run.replicas >= FEWEST or size is None or size.ranks < 2:
        return False
    varies = any(one.known for one in built[0].built.variations.values()) and built[0].may_vary
    return varies and not is_pure_replay(scenario, {"recorded": 1.0})


def _explaining_limit(scenario: Scenario, sizes: Mapping[str, Size | None]) -> str:
    """Text about the limit of explaining simulations; "" if no process submits ops, or quick."""
    if None not in sizes.values():
        return ""
    if scenario.run.quick:
        return "none but of what is kept, since the run is quick"
    most, own = scenario.run.explain, drawn_simulations(scenario)
    return (
        f"at most {most:g} times the {own} simulation{'s' * (own != 1)} of the answer of each "
        f"variant (run.explain), or what submits at most {SMALL:,} ops; a simulation that is too "
        f"large to keep is run again once for the ops of a part of it"
    )


def _asks_models(scenario: Scenario) -> bool:
    """True if an op may be timed by a chain, or by a backend that reports an error interval."""
    bound = [one for binding in scenario.backends.values() for one in binding.links_or_self]
    gpus = (machine.node.parts().get("gpu") for machine in scenario.cluster.machines())
    fitted = any(gpu is not None and gpu.settings.get("kernels") for gpu in gpus)
    silent = SILENT - {ROOFLINE} if fitted else SILENT
    doubted = (one.use not in silent or "folder" in one.settings for one in bound)
    return may_use_chain(scenario) or any(doubted)


def _chain_shares_by_variant(built: Iterable[Variant]) -> dict[str, dict[str, Shares]]:
    """Fraction of time per backend of a chain, by variant."""
    from ..variants.preflight import chain_shares_of_point

    return {p.name: told for p in built if (told := chain_shares_of_point(p))}


def _runs_that_defend(scenario: Scenario, built: list[Variant]) -> int:
    """Approximate number of simulations for ``run.defend``; 0 if off or driven by devices."""
    if not scenario.run.defend or devices_drive_run(scenario) or not built:
        return 0
    return sum(runs_that_defend(built, provenance(scenario)["values"]))


def _with_time(
    plan: Plan,
    scenario: Scenario,
    ops: dict[str, int],
    simulations: dict[str, int],
    built: Iterable[Variant],
) -> Plan:
    """Plan with its estimated time, from the number of ops.

    Parameters
    ----------
    built : all variants, to know which of them run as templates
    """
    drawn = drawn_simulations(scenario)
    first: dict[str, float] = dict.fromkeys(ops, drawn)
    again = {name: simulations[name] - drawn + plan.defending / len(ops) for name in ops}
    points = 0 if plan.defending else plan.points
    if points:
        first, again = {BASE: points * drawn}, {}
    whole = {p.name for p in built if p.graph is not None and runs_as_template(p.graph, p.scenario)}
    later = whole | {p.name for p in built if p.answered_as_template}
    recorded = any(workload.needs.files for workload in workloads_of(scenario).values())
    each_op = SECONDS_PER_OP[scenario.run.engine] + SECONDS_ASKED_PER_OP * (not recorded)

    def taken(runs: dict[str, float], as_templates: set[str]) -> Seconds:
        took = 0.0
        for name, n in runs.items():
            each_run = each_op * ops[name]
            if name in as_templates:
                once = SECONDS_PER_TEMPLATE + SECONDS_PER_TEMPLATE_OP * ops[name]
                each_run = min(each_run, once)
            took += n * each_run
        return took

    work = sum(n * ops[name] for runs in (first, again) for name, n in runs.items())
    took = taken(first, whole) + taken(again, later)
    took += SECONDS_PER_POINT * (points or len(ops))
    return replace(plan, op_runs=float(work), seconds=took / (plan.processes if points else 1))


@dataclass(frozen=True)
class _KnownGraphs:
    """Facts about a scenario's graphs for its checks.

    Parameters
    ----------
    size : number of ranks, ops and periods of all jobs together; None if a job is a process
    whole : True if there is a single graph, which runs as an SPMD template without being expanded
    """

    size: Size | None
    whole: bool = False

    @classmethod
    def of(cls, scenario: Scenario) -> _KnownGraphs:
        """Facts about a scenario's graphs, cached; graphs of traces need not be built."""
        if GRAPHS not in scenario.build_cache:
            scenario.build_cache[GRAPHS] = cls._found(scenario)
        known: _KnownGraphs = scenario.build_cache[GRAPHS]
        return known

    @classmethod
    def _found(cls, scenario: Scenario) -> _KnownGraphs:
        known = [workload.size() for workload in workloads_of(scenario).values()]
        graphs: list[Graph | None] = []
        if None in known:
            graphs = list(graphs_of(scenario).values())
            known = [_graph_size(graph) for graph in graphs]
        sizes = [s for s in known if s is not None]
        first, *others = graphs or [None]
        whole = first is not None and not others and runs_as_template(first, scenario)
        if len(sizes) < len(known):
            return cls(None, whole)
        ranks, ops, periods = zip(*sizes, strict=True)
        return cls(Size(sum(ranks), sum(ops), max(periods)), whole)


def known_size(scenario: Scenario) -> Size | None:
    """Size of a scenario's jobs; None with a process, whose ops are known only during the run."""
    return _KnownGraphs.of(scenario).size


def _graph_size(graph: Graph | None) -> Size | None:
    if graph is None:
        return None
    return Size(graph.ranks, len(graph), number_of_periods(graph))


def known_memory(scenario: Scenario) -> Bytes:
    """Estimated memory of one simulation in B, for the ops known before the run."""
    ops = known_op_count(scenario)
    return estimated_memory(0, ops) if _KnownGraphs.of(scenario).whole else estimated_memory(ops)


def known_op_count(scenario: Scenario) -> int:
    """Number of ops known before the run."""
    found = known_size(scenario)
    return found.ops if found else 0


def count_simulations(scenario: Scenario, errors: ErrorSources) -> int:
    """Number of simulations of a variant: answer, replicas, sensitivity and model errors."""
    kinds = {
        component_kind_of_setting(f"cluster.{path}.") for path in scenario.cluster.parts()
    } | ALWAYS
    explain = 0 if scenario.run.quick else SENSITIVITY * len(kinds) + ERRORS * errors.count
    blind = 0 if measured_step(scenario) is None else 1
    return drawn_simulations(scenario) + explain + blind


def runs_processes(scenario: Scenario) -> bool:
    """True if a variant has processes, or a job whose ops are made during the run."""
    if any(job.processes for job in scenario.jobs.values()):
        return True
    return known_size(scenario) is None


def drawn_simulations(scenario: Scenario) -> int:
    """Number of simulations of a variant for its answer, replicas and time breakdown."""
    replicas = scenario.run.replicas
    return 1 + (replicas if replicas > 1 else 0) + (replicas >= FEWEST)


def _device_components(scenario: Scenario) -> Iterator[str]:
    """Names of components with a hardware driver."""
    from ...config.settings import known_backends

    for glob, binding in scenario.backends.items():
        for one in binding.links_or_self:
            if known_backends()[one.use].__module__.split(".")[1:2] == ["hil"]:
                yield f"{glob}: {one.use}"
    hil = scenario.section("hil") if "hil" in type(scenario.model).model_fields else None
    for swap in getattr(hil, "swap", None) or ():
        yield f"{swap.component}: {swap.driver}"


def _assumed_paths(scenario: Scenario) -> set[str]:
    return {
        path
        for path, origin in scenario.origins.items()
        if origin.source and origin.source.kind in ("assumed", "datasheet")
    }


def require_run_fits_memory(scenario: Scenario, processes: int = 1) -> None:
    """Raise an error if a run would not fit into memory.

    Raises
    ------
    ScenarioError
        It does not fit.
    """
    what = f"{processes} points at once" if processes > 1 else f"{known_op_count(scenario):,} ops"
    require_memory(known_memory(scenario), processes, scenario.run.memory, what)
