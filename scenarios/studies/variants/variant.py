"""One variant of a scenario with all its settings, ready to run."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ....models.compute.chain import Chain
from ....models.compute.jitter import (
    jitter_recorded,
    jitter_spread,
    typical_durations,
)
from ....models.compute.recorded import Recorded
from ....sim.errors import ScenarioError
from ....sim.facts.backend import Backend, Spread
from ....sim.facts.graph import Graph
from ....sim.facts.ops import Ops
from ....sim.facts.place import place
from ....sim.facts.system import System
from ....sim.record.binding import map_backends
from ....sim.rerun.sensitivity import ScaledBackend
from ....sim.run.job import Job
from ....sim.run.process import Process, Running, Steps
from ....sim.run.result import Result
from ....sim.run.simulation import Simulation
from ....sim.run.single_graph import runs_as_spmd
from ....sim.run.workload import Workload
from ....sim.units import MoneyRate
from ...config.scenario import Scenario
from ...config.sections.processes import make_process
from ...workloads.trace_files import process_starts_of
from ..building.error_context import rewording_errors
from ..building.jobs import components_of_ranks, graphs_of, pools_of, workloads_of
from ..building.op_rules import SubmissionRules
from ..building.price import price_per_second
from ..building.system import components_down_at_start
from .answers import StudyAnswer
from .prepared_jobs import JobDispatcher, PreparedWorkload, WaitingJob
from .prints import prints_of_simulation

if TYPE_CHECKING:
    from ...config.sections.workload import WorkloadSection
    from ..building.coupled_machine import CoupledDevices
    from .calibrated_step import StepCalibration

log = logging.getLogger(__name__)

LARGE = 50_000  # ops of a template from which timing op by op costs 0.1 s of every run


@dataclass(frozen=True)
class StepVariation:
    """Variation of recorded op durations from step to step; shared by variants.

    Parameters
    ----------
    ops : ops with recorded durations; None for a template without recorded durations
    starts : step times in s of each recorded process start, shape (n,) each
    """

    ops: Ops | None
    starts: tuple[NDArray[np.float64], ...] = ()

    @classmethod
    def of(cls, section: WorkloadSection, graph: Graph) -> StepVariation:
        """Variation of a workload's graph, with the process starts of its recording."""
        starts = process_starts_of(section)
        own = None if _is_template_without_durations(graph) else graph.ops
        return cls(own, tuple(starts.steps) if starts else ())

    def with_typical_durations(self, graph: Graph) -> Graph:
        """Graph in which every op has its typical duration."""
        if self.ops is None:
            return graph
        return graph.with_ops(graph.ops.replace(duration=self.typical))

    @cached_property
    def typical(self) -> NDArray[np.float64]:
        """Typical duration of each op in s, shape (n,)."""
        return np.empty(0) if self.ops is None else typical_durations(self.ops)

    @property
    def known(self) -> bool:
        """True if the recording shows any variation."""
        return self.ops is not None and jitter_recorded(self.ops)

    @cached_property
    def spread(self) -> Spread | None:
        """Quantiles of recorded durations over typical ones; None with fewer than two steps."""
        return None if self.ops is None else jitter_spread(self.ops, self.starts)


def runs_as_template(graph: Graph, scenario: Scenario) -> bool:
    """True if a scenario runs a graph as a template, without expanding it."""
    steered = any(job.processes for job in scenario.jobs.values())
    return scenario.run.engine == "core" and not steered and runs_as_spmd(graph, scenario.run.keep)


def _is_template_without_durations(graph: Graph) -> bool:
    """True if a graph is a template without recorded durations, which is never expanded."""
    of = graph.template
    return of is not None and all(np.isnan(p.ops.duration).all() for p in of.programs)


@dataclass(frozen=True)
class BuiltGraphs:
    """Graphs of a variant that are known before the run, by job.

    Parameters
    ----------
    graphs : graph of each job; None for a process
    variations : variation of each known graph
    """

    graphs: Mapping[str, Graph | None]
    variations: Mapping[str, StepVariation]

    @classmethod
    def of(cls, scenario: Scenario, system: System | None = None) -> BuiltGraphs:
        """Build the graphs of a scenario."""
        graphs = graphs_of(scenario, system)
        sections = {name: job.workload for name, job in scenario.jobs.items()}
        return cls(
            graphs,
            {n: StepVariation.of(sections[n], g) for n, g in graphs.items() if g is not None},
        )


@dataclass(frozen=True)
class Variant:
    """One variant, ready to run.

    Parameters
    ----------
    scenario : Scenario
    graph : Graph or None
        Placed graph of the only job with recorded durations; None for a process or several jobs.
    simulation : Simulation
    built : BuiltGraphs
        Graphs of all jobs.
    answer : Answer
        Deciding metric.
    coupled : Coupled or None
        Real devices that drive it; None for none.
    calibration : StepCalibration or None
        Calibration on a measured step, already applied to ``simulation``.
    uncalibrated : Simulation or None
        Simulation without the calibration, if there is one.
    """

    scenario: Scenario
    graph: Graph | None
    simulation: Simulation
    built: BuiltGraphs
    answer: StudyAnswer
    coupled: CoupledDevices | None = None
    calibration: StepCalibration | None = None
    uncalibrated: Simulation | None = None

    @property
    def name(self) -> str:
        """``base`` or the name of the variant."""
        return self.scenario.variant

    @cached_property
    def workloads(self) -> dict[str, Workload]:
        """Workload of each job, by job name."""
        return workloads_of(self.scenario)

    @property
    def processes(self) -> tuple[Process, ...]:
        """Processes of the run: failed components, real devices, and those of the scenario."""
        down = components_down_at_start(self.scenario, self.simulation.system)
        devices = self.coupled.coupling.processes if self.coupled else ()
        named = (
            make_process(steering, self.graph)
            for steering in (self.scenario.processes if self.graph is not None else ())
        )
        return (*((ComponentsDown(down),) if down else ()), *devices, *named)

    @cached_property
    def price(self) -> MoneyRate | None:
        """Price of all machines in USD/s; None if there are no prices."""
        return price_per_second(self.scenario)

    @property
    def known_graph(self) -> Graph:
        """Graph of the only job.

        Raises
        ------
        ScenarioError
            There is no graph before the run.
        """
        if self.graph is None:
            raise ScenarioError(
                f"{self.name}: real devices need one workload whose ops are known before the run; "
                "use a trace, or remove 'hil' for a process or several jobs"
            )
        return self.graph

    def calibrated(self, calibration: StepCalibration | None) -> Variant:
        """Variant with a calibration applied to its GPUs; unchanged for None."""
        if calibration is None:
            return self
        made = self.with_simulation(calibration.apply_to(self.simulation))
        return replace(made, calibration=calibration, uncalibrated=self.simulation)

    def with_simulation(self, simulation: Simulation) -> Variant:
        """Variant with another simulation of the same components, for sensitivity runs."""
        graph = self.graph
        if graph is not None and graph.system is not simulation.system:
            graph = replace(graph, system=simulation.system)
        return replace(self, graph=graph, simulation=simulation)

    def run(self, replica: int | None = None) -> Result:
        """Run once: with recorded durations, or as one seeded draw around typical durations."""
        if replica is not None:
            return self.draw(replica)
        with self._simulating():
            return self._run_simulation(self.simulation, self.graph)

    def run_for_answer(self) -> Result:
        """Run once for the deciding metric only; its value is the same as in a full run.

        A large template is not expanded: backends time each class of equal ranks, not each op. Any
        other run keeps one row per op, which is cheaper than aggregating them.
        """
        keep = "ranks" if self.answered_as_template else None
        with self._simulating():
            return self._run_simulation(self.simulation, self.graph, keep=keep)

    @property
    def answered_as_template(self) -> bool:
        """True if ``run_for_answer`` keeps the graph as a template although a full run expands it.

        False for workloads of plug-ins, which may read rows.
        """
        graph = self.graph
        if graph is None or graph.template is None or len(graph) < LARGE or self.processes:
            return False
        ours = all(type(w).__module__.startswith("foretrace.") for w in self.workloads.values())
        kept = runs_as_spmd(graph, self.scenario.run.keep)
        return ours and not kept and self.simulation.engine == "core" and not self.answer.needs_rows

    @contextmanager
    def _simulating(self) -> Iterator[None]:
        """Context manager for one simulation: explains errors by settings, and captures prints."""
        with (
            rewording_errors(self.scenario, self.simulation.system.gpus),
            prints_of_simulation(self.name),
        ):
            yield

    def _run_simulation(
        self,
        simulation: Simulation,
        graph: Graph | None,
        replica: int | None = None,
        keep: str | None = None,
    ) -> Result:
        keep = keep or self.scenario.run.keep
        if graph is not None:
            return simulation.run(graph, *self.processes, replica=replica, keep=keep)
        rules = {name: SubmissionRules(self.scenario, name)
                 for name, job in self.scenario.jobs.items()
                 if job.ops and self.built.graphs[name] is None}  # fmt: skip
        jobs, more = self._jobs_and_starter(replica is not None, rules)
        found = simulation.run(jobs, *self.processes, *more, replica=replica, keep=keep)
        for own in rules.values():
            own.check()
        return found

    def jobs(self) -> list[Job]:
        """Jobs whose components are known before the run."""
        return self._jobs_and_starter(False, {})[0]

    def _jobs_and_starter(
        self, typical: bool, rules: Mapping[str, SubmissionRules]
    ) -> tuple[list[Job], list[Process]]:
        """Jobs of a run, and the process that starts the jobs which wait for components."""
        system, jobs, waiting = self.simulation.system, [], []
        pools = pools_of(self.scenario, system)
        for name, section in self.scenario.jobs.items():
            graph = self.built.graphs[name]
            ranks = components_of_ranks(section.placement, system)
            if graph is not None and typical:
                graph = self.built.variations[name].with_typical_durations(graph)
            if graph is not None and ranks is not None:
                graph = place(graph, system, ranks)
            edit = rules.get(name)
            work = PreparedWorkload(self.workloads[name], graph, section.processes, edit, ranks)
            if any(isinstance(value, int) for value in pools[name].values()):
                waiting.append(WaitingJob(Job(name, work, None, section.arrives), pools[name]))
            else:
                on: Any = pools[name]
                jobs.append(Job(name, work, on or None, section.arrives))
        taken = frozenset(c for job in jobs for names in job.on.values() for c in names)
        return jobs, [JobDispatcher(waiting, taken)] if waiting else []

    @cached_property
    def draw(self) -> Callable[[int], Result]:
        """Function that runs one replica, given its number.

        What all replicas share is computed once, if the graph is known and no real device is used.
        """
        keep, graph = self.scenario.run.keep, self._typical_graph
        varied = replace(self.simulation, backends=self._varying_backends)
        draws: Callable[[int], Result] = (
            varied.draws(graph, *self.processes, keep=keep)
            if self.coupled is None and graph is not None
            else lambda k: self._run_simulation(varied, graph, k)
        )

        def drawn(replica: int) -> Result:
            with self._simulating():
                return draws(replica)

        return drawn

    @cached_property
    def _typical_graph(self) -> Graph | None:
        """Graph in which every op has its typical duration."""
        if self.graph is None:
            return None
        (only,) = self.built.variations.values()
        return only.with_typical_durations(self.graph)

    @cached_property
    def _varying_backends(self) -> Mapping[str, Backend]:
        """Backends of all components, with recorded durations that vary as in the recording."""
        return map_backends(
            self.simulation.backends, lambda b: _backend_with_variation(b, self._recorded_spread)
        )

    @property
    def may_vary(self) -> bool:
        """True if replicas may differ; False if no backend in use knows a distribution."""
        scenario, backends = self.scenario, self.simulation.backends.values()
        steered = scenario.processes or any(job.processes for job in scenario.jobs.values())
        if self.coupled or steered or None in self.built.graphs.values():
            return True
        if any(not type(b).__module__.startswith("foretrace.") for b in backends):
            return True
        known = any(one.known for one in self.built.variations.values())
        return known and any(map(_answers_recorded, backends))

    @property
    def _recorded_spread(self) -> Spread | None:
        """Distribution of recorded durations around the typical ones, the same for all jobs.

        Raises
        ------
        ScenarioError
            Two jobs use different recordings.
        """
        jobs = self.scenario.jobs
        read = {name: self.workloads[name].needs.files for name in self.built.variations}
        told = {files: name for name, files in read.items() if files}
        if len(told) > 1:
            one, other, *_ = told.values()
            raise ScenarioError(
                f"run.replicas: jobs {one} and {other} use different recordings, but jitter can be "
                "drawn from one only; use one recording, or replicas: 1"
            )
        varying = [name for name in jobs if read.get(name)] or list(self.built.variations)
        return self.built.variations[varying[0]].spread if varying else None


def _answers_recorded(backend: Backend) -> bool:
    """True if a backend, or one inside it, returns recorded durations."""
    if isinstance(backend, ScaledBackend):
        return _answers_recorded(backend.inner)
    if isinstance(backend, Chain):
        return any(map(_answers_recorded, backend.links))
    return isinstance(backend, Recorded)


def _backend_with_variation(backend: Backend, varies: Spread | None) -> Backend:
    """Backend whose recorded durations vary, also inside a chain or a slowed-down component."""
    made = copy(backend)
    if isinstance(made, Recorded):
        made.spread = varies
    elif isinstance(made, ScaledBackend):
        made.inner = _backend_with_variation(made.inner, varies)
    elif isinstance(made, Chain):
        made.links = tuple(_backend_with_variation(link, varies) for link in made.links)
    else:
        return backend
    return made


@dataclass(frozen=True)
class ComponentsDown:
    """Process that fails components at the start of a run."""

    names: tuple[str, ...]

    @property
    def touches(self) -> tuple[str, ...]:
        """Names of the components that it changes."""
        return self.names

    def __call__(self, sim: Running) -> Steps:
        """Fail the components before anything starts."""
        for name in self.names:
            sim.fail(name)
        return
        yield
