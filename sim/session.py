"""One run under way: from a graph and its backends to what an engine takes, and back."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import simpy
from numpy.typing import NDArray

from .analysis.aggregates import MOST_OPS
from .backend import check_timing
from .binding import Answers, ask, endpoints
from .emitted import Emissions
from .engine_api import (
    Answer,
    ComponentTable,
    Engine,
    EngineColumns,
    EngineGraph,
    Online,
    Submitted,
)
from .errors import BackendError, GraphError, SimulationError
from .graph import Graph
from .job import Job
from .lowering import answers, lower
from .place import place
from .result import Result
from .running_job import RunningJob
from .sampling import MAIN, factors, overflow, scaled, submission, widely
from .schedule import JobRecord, Schedule, SubmittedRun
from .units import Seconds, seconds, ticks_per_second
from .workload import Given

if TYPE_CHECKING:
    from .allocator import Allocator
    from .core.quotient import Quotient
    from .process import Process
    from .simulation import Simulation
    from .spmd.spmd_graph import SpmdGraph
    from .spmd.spmd_run import SpmdRun

log = logging.getLogger(__name__)

SHARING = 4  # identical ops are folded where every fourth shares a rate: looking costs 0.8 us an op
MOST_WRITTEN = 20_000_000  # ops of a template that are written out to name one of them
# What a submitted graph takes until the run ends, on Linux: 20,000 graphs of 1 op, 5,000 of 100.
BYTES_PER_GRAPH, BYTES_PER_OP = 3_900.0, 130.0


@dataclass(frozen=True)
class TimedGraph:
    """A graph on its machine, and what every backend said of it: all that replicas share."""

    graph: Graph
    answers: Answers
    lowered: EngineGraph


class Session:
    """One run under way: what was submitted, and the machine that works on it."""

    def __init__(self, simulation: Simulation, replica: int | None):
        self.simulation, self.replica = simulation, replica
        self.system, self.tick = simulation.system, simulation.tick
        self.scale, self.bound, self.parts = simulation.scale, simulation.bound, simulation.parts
        for backend in simulation.answerers:
            backend.open(self.system)
        self.runs: list[SubmittedRun] = []
        self.jobs: list[RunningJob] = []
        self.emissions = Emissions()
        self.allocators: list[Allocator] = []
        self.rate_log: list[tuple[int, int, int]] = []
        self.moves: dict[int, tuple[int, ...]] = {}
        self.submitted: dict[str, tuple[int, int]] = {}  # ops and graphs, by process
        self.columns: EngineColumns | None = None  # of a run that no machine of the session did

    @cached_property
    def machine(self) -> Engine:
        """The engine, at tick 0."""
        return self._machine(self.parts)

    def _machine(self, of: ComponentTable) -> Engine:
        return _machine(self.simulation.engine, of, ticks_per_second(self.tick))

    def ticks(self, at: Seconds) -> int:
        """Seconds as ticks."""
        return round(at * ticks_per_second(self.tick))

    def enter(self, job: Job, parent: Job | None = None) -> RunningJob:
        """One more job of the run.

        Raises
        ------
        SimulationError
            There is one of that name; its pools are not what its workload needs.
        """
        if any(job.name == other.name for other in self.jobs):
            raise SimulationError(
                "action", f"job {job.name}: there is one of that name; give each a name of its own"
            )
        entered = RunningJob(self, len(self.jobs), job, parent)
        for metric in job.workload.metrics:
            self.emissions.declare(entered.number, metric.name, metric.unit)
        self.jobs.append(entered)
        return entered

    def launch(self, job: Job, parent: Job, processes: Sequence[Process] = ()) -> Job:
        """Start a job that a process launches."""
        entered = self.enter(job, parent)
        entered.begin(processes)
        return entered.job

    @property
    def main(self) -> RunningJob:
        """The job of what belongs to no other."""
        found = next((job for job in self.jobs if job.name == MAIN), None)
        return found or self.enter(Job(MAIN, Given()))

    def place(self, graph: Graph, job: RunningJob | None = None) -> Graph:
        """The graph on this system: where it was placed, else on the components of its job."""
        if graph.system is None:
            graph = place(graph, self.system, None if job is None else job.placement)
        if graph.system is not self.system:
            raise GraphError(
                "placement", f"graph {graph.name!r} was placed on another system; place it again"
            )
        return graph

    def only_graph(self) -> Graph | None:
        """The graph that is all of this run; None where there is more to it."""
        if len(self.jobs) != 1:
            return None
        only = self.jobs[0]
        if only.job.arrives or only.job.workload.until is not None:
            return None
        return only.what if isinstance(only.what, Graph) else None

    def alone(self, graph: Graph, keep: str | None, again: Callable[[], Result]) -> Result:
        """Run one graph that nobody steers, as a template where that is the same."""
        if runs_as_template(graph, keep):
            assert graph.template is not None  # noqa: S101
            found = self.as_template(graph, graph.template, kept_by_size(keep, graph))
            if found is not None:
                return found
        self.run_alone(self.ask(graph, self.jobs[0]), self.jobs[0])
        return self.result(kept_by_size(keep, graph), again)

    def steered(
        self, processes: Sequence[Process], until: Seconds | None, keep: str | None
    ) -> Result:
        """Run all jobs, as they arrive, with processes that belong to ``main``.

        Raises
        ------
        SimulationError
            As the machine's; and where somebody still waits for components.
        """
        for job in self.jobs:
            self._arrive(job)
        if processes or not self.jobs:
            self.main.start(processes)
        try:
            self.machine.run(None if until is None else self.ticks(until))
        except SimulationError as error:
            error.submitted = self.submitted
            raise
        if until is None:
            for allocator in self.allocators:
                allocator.check()
        return self.result(keep, "it was stopped" if until is not None else "a process steered it")

    def as_template(self, graph: Graph, template: SpmdGraph, keep: str) -> Result | None:
        """Run a template without writing it out; None, and a word in the log, where it must be."""
        from .spmd.query import NotUniform
        from .spmd.spmd_run import SpmdRun

        try:
            if self.simulation.engine != "core":
                raise NotUniform("that is how the reference runs")
            if not self.jobs[0].job.workload.periodic:
                raise NotUniform("its job has no periods")
            graph = self.place(graph, self.jobs[0])
            spmd = SpmdRun.of(self.simulation, graph, template, self.replica)
            kept = spmd.kept(keep)
        except NotUniform as why:
            log.info("%s: %s ops are written out, since %s", graph.name, len(graph), why)
            return None
        except (GraphError, BackendError, SimulationError) as error:
            if len(graph) > MOST_WRITTEN:
                raise
            log.info("%s: written out, to say which op is at fault: %s", graph.name, error)
            return None
        log.info(
            "%s: %s ops as a template, %s of %s ranks run", graph.name, len(graph),
            spmd.template.ranks, template.ranks,
        )  # fmt: skip
        written = spmd.why_not_written()
        found = replace(self._result(), summary=kept)
        return replace(found, again=written or (lambda: self._written(spmd)))

    def _written(self, spmd: SpmdRun) -> Result:
        """A row an op of one rank of each class."""
        session = Session(self.simulation, self.replica)
        session.enter(self.jobs[0].job)
        graph, said, lowered = spmd.written()
        session.runs.append(SubmittedRun(graph, said, lowered, 0))
        session.run_lowered(lowered)
        return session.result("ops", "it is a part of a run")

    def run_alone(self, asked: TimedGraph, job: RunningJob) -> None:
        """Run one graph that nobody steers."""
        run = self._run(asked, job)
        self.runs.append(run)
        self.run_lowered(run.lowered)

    def run_lowered(self, lowered: EngineGraph) -> None:
        """The same of what an engine takes; identical ops once, where they share rates."""
        folded = self._fold(lowered)
        if folded is not None:
            machine = self._machine(folded.parts)
            try:
                machine.submit(folded.graph)
                machine.run()
            except (GraphError, SimulationError):
                log.info("%s: again with every op, to say which is at fault", lowered.name)
            else:
                self.columns = folded.expand(machine.columns())
                return
        self.machine.submit(lowered)
        self.machine.run()

    def _fold(self, lowered: EngineGraph) -> Quotient | None:
        """The quotient, where it is smaller and finding it is likely to pay."""
        works = np.count_nonzero(lowered.flows.work_hi | lowered.flows.work_lo.astype(np.int64))
        if self.simulation.engine != "core" or SHARING * works < len(lowered):
            return None
        from .core.quotient import fold

        found = fold(self.parts, lowered)
        if found is not None:
            log.info("%s: %s of %s ops run", lowered.name, len(found.graph), len(lowered))
        return found

    def ask(self, graph: Graph, job: RunningJob | None = None) -> TimedGraph:
        """Place, ask and round one graph."""
        graph = self.place(graph, job)
        if job is not None and not job.job.workload.periodic:
            graph = _without_periods(graph)
        said = ask(graph, self.bound)
        asks = tuple(self._asks(graph, said, k) for k in range(len(said.drivers)))
        online = said.online if asks else None
        lowered = lower(
            graph.name,
            graph.explicit,
            said.timing,
            self.system,
            self.scale,
            self.tick,
            online,
            asks,
        )
        return TimedGraph(graph, said, lowered)

    def submit(
        self,
        graph: Graph,
        job: RunningJob | None = None,
        who: str = "",
        rank: int | None = None,
        key: int | None = None,
    ) -> Submitted:
        """Hand a graph to the machine and remember it for the result.

        Parameters
        ----------
        job : whose it is; None for ``main``
        who : process that submits it; "" for none
        rank : the job's number of its rank 0; None for the numbers of its GPUs
        key : of its draws; None for how often a graph of its name came before

        Raises
        ------
        SimulationError
            What its process has submitted fits into memory no more; the job was stopped.
        """
        job = job or self.main
        if job.stopped:
            raise SimulationError(
                "action",
                f"{who}: submits a graph for job {job.name}, which was stopped; start its "
                "processes with sim.start(), so that they stop with it",
            )
        if who:
            self._count(who, len(graph))
        if graph.template is not None:
            log.info("%s: %s ops are written out, since it is steered", graph.name, len(graph))
        run = self._run(self.ask(graph, job), job, rank, key)
        handle = self.machine.submit(run.lowered)
        env = self.machine.env
        by = "" if env.active_process is None else str(env.active_process.name)
        self.runs.append(replace(run, first=handle.first, at=int(env.now), by=by))
        job.handed_in(handle)
        return handle

    def _run(
        self, asked: TimedGraph, job: RunningJob, rank: int | None = None, key: int | None = None
    ) -> SubmittedRun:
        """A graph of a job: its ranks numbered, its durations drawn."""
        graph = asked.graph
        number = job.times.get(graph.name, 0)
        job.times[graph.name] = number + 1
        ranks = None if graph.gpus is None else job.ranks.number(graph.gpus, rank)
        run = SubmittedRun(graph, asked.answers, asked.lowered, 0, ranks, job.number)
        which = submission(job.name, number if key is None else key)
        return replace(run, lowered=self._drawn(run, which))

    def _count(self, who: str, count: int) -> None:
        """Note what a process submits; refuse what does not fit, before memory is full of it."""
        ops, graphs = self.submitted.get(who, (0, 0))
        self.submitted[who] = ops + count, graphs + 1
        held = sum(BYTES_PER_OP * o + BYTES_PER_GRAPH * g for o, g in self.submitted.values())
        if self.simulation.memory is not None and held > self.simulation.memory:
            raise SimulationError(
                "memory",
                f"{who}: has submitted {ops:,} ops in {graphs:,} graphs, and no more fit into "
                f"{self.simulation.memory / 1e6:,.0f} MB; let it end, or allow more memory",
            )

    def _arrive(self, job: RunningJob) -> None:
        """Begin a job: now, or when it arrives."""
        if not job.job.arrives:
            job.begin()
            return
        event = self.machine.env.timeout(self.ticks(job.job.arrives))
        cast(list[Any], event.callbacks).append(lambda _: job.begin())

    def _drawn(self, run: SubmittedRun, which: tuple[int, ...]) -> EngineGraph:
        """With the durations of this replica."""
        lowered, spreads = run.lowered, run.answers.spreads
        if self.replica is None or not spreads:
            return lowered
        ops, fixed, flows = run.ops, lowered.fixed.copy(), lowered.flows
        hi, lo = flows.work_hi.copy(), flows.work_lo.copy()
        for rows, spread in spreads:
            drawn = factors(
                spread,
                name=lowered.name,
                row=rows,
                rank=ops.rank[rows],
                iteration=ops.iteration[rows],
                seed=self.simulation.seed,
                replica=self.replica,
                which=which,
            )
            shared = np.isin(rows, flows.op)
            at = np.searchsorted(flows.op, rows[shared])
            for by in drawn:
                _fits(lowered.name, rows, overflow(fixed[rows], by), "time", "use a coarser tick")
                _fits(
                    lowered.name, rows[shared], overflow(hi[at], by[shared]), "work", "split the op"
                )
                fixed[rows] = scaled(fixed[rows], by)
                hi[at], lo[at] = widely(hi[at], lo[at], by[shared])
        return replace(lowered, fixed=fixed, flows=replace(flows, work_hi=hi, work_lo=lo))

    def _asks(self, graph: Graph, said: Answers, k: int) -> Online:
        """The question to online backend ``k``, from integers to SI units and back."""
        backend, ops, members = said.drivers[k], graph.ops, endpoints(graph)

        def timing(rows: Sequence[int], now: int) -> list[Answer]:
            at = np.asarray(rows)
            table = ops.take(at).asked(self.system, said.component[at], members.take(at))
            found = backend.timing(table, float(seconds(now, self.tick)))
            component = said.component[at]
            check_timing(found, table, self.system.components[component[0]].name, at)
            written = found.written(component)
            return answers(written, self.system, self.scale, self.tick, at)

        return timing

    def result(self, keep: str | None, again: Callable[[], Result] | str) -> Result:
        """What happened; rows an op are dropped where they are not to be kept.

        Parameters
        ----------
        keep : None decides by size
        again : the same run with a row an op, or why there is none
        """
        columns = self.machine.columns() if self.columns is None else self.columns
        jobs = tuple(JobRecord(job.name, job.arrived, job.given) for job in self.jobs)
        written = Schedule(tuple(self.runs), columns, self.moves, jobs)
        found = replace(self._result(), written=written)
        if len(self.parts.capacity) and "machine" in self.__dict__:
            found = replace(found, acquired=self.machine.ledger.acquired)
        keep = keep or ("ops" if found.count <= MOST_OPS else "ranks")
        if keep == "ops":
            return found
        self.__dict__.pop("machine", None)  # its state takes more room than what follows
        if any(run.answers.drivers for run in self.runs):
            again = "a backend was asked during it"
        return found.without_rows(keep, again)

    def _result(self) -> Result:
        return Result(
            self.system,
            self.parts,
            self.tick,
            self.simulation.engine,
            self.simulation.seed,
            replica=self.replica,
            jobs=tuple(job.name for job in self.jobs),
            emitted=self.emissions.emitted(),
            rate_log=tuple(self.rate_log),
        )


def runs_as_template(graph: Graph, keep: str | None) -> bool:
    """Whether a graph is a template, of which no row an op is to be kept."""
    return graph.template is not None and kept_by_size(keep, graph) != "ops"


def kept_by_size(keep: str | None, graph: Graph) -> str:
    """What is kept of the run of a graph where that is left open."""
    return keep or ("ops" if len(graph) <= MOST_OPS else "ranks")


def _without_periods(graph: Graph) -> Graph:
    """A graph whose ops are in no period."""
    ops = graph.ops
    return graph if np.all(ops.iteration < 0) else graph.with_ops(ops.replace(iteration=-1))


def _fits(
    name: str, rows: NDArray[np.int64], beyond: NDArray[np.bool_], what: str, cure: str
) -> None:
    """Refuse a draw beyond the range."""
    for row in rows[beyond][:1].tolist():
        raise GraphError(
            "overflow", f"graph {name!r} op {row}: drew a {what} beyond the range; {cure}", (row,)
        )


def _machine(engine: str, parts: ComponentTable, per_second: int) -> Engine:
    env = simpy.Environment(initial_time=0)
    if engine == "reference":
        from .reference.engine import ReferenceEngine

        return ReferenceEngine(parts, env, per_second)
    from .core.engine import CoreEngine

    return CoreEngine(parts, env, per_second)
