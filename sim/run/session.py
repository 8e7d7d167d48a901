"""Session: one run, from graphs and backends through an engine to a result."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, NamedTuple, cast

import numpy as np
import simpy
from numpy.typing import NDArray

from ..analysis.streaming_sums import merge_job_aggregates
from ..argument import as_names, shown
from ..engine_api.capacity_ledger import ProcessHoldHistory
from ..engine_api.driven_policy import FixedShape, GridShapes
from ..engine_api.engine_control import EngineControl
from ..engine_api.interface import (
    ComponentTable,
    EngineColumns,
    EngineGraph,
    Submitted,
)
from ..engine_api.queue_table import UNBOUNDED
from ..errors import GraphError, SimulationError
from ..facts.graph import Graph
from ..facts.place import place
from ..facts.sampling import MAIN, submission_key
from ..facts.way import Pins, Way
from ..record.aggregates import MOST_OPS
from ..record.binding import OpTimings, communication_endpoints
from ..record.bound_system import BoundSystem
from ..record.counters import Counters
from ..record.emitted_values import EmissionRecorder
from ..record.item_table import ItemTable
from ..record.prepared import (
    PreparationCallbacks,
    Prepared,
    PreparedRun,
    PreparedVariant,
    SomeSubmission,
    Values,
)
from ..record.prepared_grid import At, GridCallbacks, GridError, PreparedGrid
from ..record.schedule import JobRecord, Schedule, SubmittedRun
from ..record.step_grid import StepGrid
from ..record.time_series import SeriesRecorder, series_of_job
from ..units import Seconds, ticks_per_second
from .duration_draws import DurationDraws
from .held_graphs import BYTES_PER_OP, GRAPH_AS_OPS, HeldGraphs
from .job import Job
from .policies.driven_grid import driven_grid
from .process import Process
from .relocation import Relocations
from .result import Result
from .row_window import RowWindow, renumber_runs
from .run_interface import AllocatorInterface, JobState
from .running_job import RunningJob
from .timing.graph_timing import GraphTiming, TimedGraph
from .timing.grid_graphs import GridGraphs
from .timing.grid_timer import GridTimer
from .timing.row_timer import RowTimer
from .workload import GivenGraphWorkload

log = logging.getLogger(__name__)

ANSWERED = "a device or another online backend answered during it, and would be called again"


class Repeat(NamedTuple):
    """Functions that repeat a steered run: with all rows, or with those of a window."""

    run: Callable[[], Result]
    window: Callable[[RowWindow], Result]


class Session:
    """One run in progress: its jobs, its submitted graphs and its engine."""

    def __init__(
        self,
        simulation: BoundSystem,
        replica: int | None,
        keep: str | None = "ops",
        window: RowWindow | None = None,
    ):
        self.simulation, self.replica = simulation, replica
        self.system, self.tick = simulation.system, simulation.tick
        self.scale, self.parts = simulation.scale, simulation.parts
        for backend in simulation.distinct_backends:
            backend.open(self.system)
        self.runs: list[SubmittedRun] = []
        self.jobs: list[RunningJob] = []
        self.emissions = EmissionRecorder(ticks_per_second(self.tick))
        self.series = SeriesRecorder(ticks_per_second(self.tick))
        self._grids: list[PreparedGrid] = []
        self._grid_graphs = GridGraphs()
        self.counters = Counters()
        self.allocators: list[AllocatorInterface] = []
        self.rate_log: list[tuple[int, int, int]] = []
        self.engine = simulation.engine
        self.closing: list[Callable[[], None]] = []  # called at the end of the run
        self.items: list[ItemTable] = []
        self.timing = GraphTiming(simulation)
        self.draws = DurationDraws(simulation.engine, simulation.seed, replica)
        self.relocations = Relocations(self, self.timing, self.draws)
        self.held = HeldGraphs(self, simulation, self.relocations, keep, window)
        self.asks_online = False  # True if an online backend times an op of a graph so far
        self.columns: EngineColumns | None = None  # from another engine, of a folded graph

    @cached_property
    def machine(self) -> EngineControl:
        """Engine of the run; created at tick 0 on first use."""
        made = self.new_machine(self.parts)
        made.elsewhere = self.relocations.time_elsewhere
        return made

    def new_machine(self, of: ComponentTable) -> EngineControl:
        """New engine for a table of components, at tick 0."""
        return _make_engine(self.simulation.engine, of, ticks_per_second(self.tick))

    @property
    def seeds(self) -> tuple[int, int]:
        """Seed of the run, and replica number + 1 (0 for typical durations)."""
        return self.simulation.seed, 0 if self.replica is None else self.replica + 1

    def ticks(self, at: Seconds) -> int:
        """Convert a time in s to ticks."""
        return round(at * ticks_per_second(self.tick))

    def add_job(self, job: Job, parent: Job | None = None) -> RunningJob:
        """Add a job to the run.

        Raises
        ------
        SimulationError
            Another job has this name, or its pools are not those that its workload needs.
        """
        if any(job.name == other.name for other in self.jobs):
            raise SimulationError(
                "action", f"job {job.name}: another job has this name; give each job its own name"
            )
        entered = RunningJob(self, len(self.jobs), job, parent)
        for metric in job.workload.metrics:
            self.emissions.units.declare(entered.number, metric.name, metric.unit)
            self.series.units.declare(entered.number, metric.name, metric.unit)
        self.jobs.append(entered)
        return entered

    @property
    def main(self) -> RunningJob:
        """Job ``main``, to which processes and graphs without another job belong."""
        found = next((job for job in self.jobs if job.name == MAIN), None)
        return found or self.add_job(Job(MAIN, GivenGraphWorkload()))

    def only_graph(self) -> Graph | None:
        """The single graph that makes up this run; None if the run is more than one graph."""
        if len(self.jobs) != 1:
            return None
        only = self.jobs[0]
        if only.job.arrives or only.job.workload.until is not None or only.holds:
            return None
        return only.graph_or_process if isinstance(only.graph_or_process, Graph) else None

    def finish(self, keep: str | None, repeat_run: Callable[[], Result] | str) -> Result:
        """Result of the run; ends the session.

        It drops the engine and the graphs, since jobs and session refer to each other and would
        otherwise stay in memory until Python collects cycles.
        """
        for close in self.closing:
            close()
        self._emit_totals()
        result = self.result(keep, repeat_run)
        self._drop_engine()
        return result

    def _drop_engine(self) -> None:
        self.runs, self.columns = [], None
        vars(self).pop("machine", None)

    def run_jobs(
        self,
        processes: Sequence[Process],
        until: Seconds | None,
        keep: str | None,
        repeat: Repeat,
    ) -> Result:
        """Run all jobs as they arrive, together with processes of ``main``, and return the result.

        Parameters
        ----------
        repeat : functions that repeat the run

        Raises
        ------
        SimulationError
            The engine cannot go on, or a process still waits for components of an allocator.
        """
        self._run_processes(processes, None if until is None else self.ticks(until))
        if until is None:
            for allocator in self.allocators:
                allocator.check()
        if self.asks_online:
            return replace(self.finish(keep, ANSWERED), repeat_window=ANSWERED)
        again = self._reason_rows_do_not_fit() or repeat.run
        return replace(
            self.finish(keep, again),
            repeat_window=lambda first, last: repeat.window(RowWindow(first, last)),
        )

    def run_window(self, processes: Sequence[Process], window: RowWindow) -> Result:
        """Run up to the end of a window, and return the rows of the ops in it."""
        self._run_processes(processes, window.last)
        runs = self.relocations.with_final_places(self.runs)
        since = min(self.held.rows_since, window.last)
        whole = bool(runs) and runs[0].first == 0  # the first graph, which may have periods
        jobs = tuple(
            JobRecord(job.name, max(job.arrived, since), job.given if whole or not job.given else 0)
            for job in self.jobs
        )
        columns, moved = self.machine.columns(), self._moved_in(runs)
        written = Schedule(renumber_runs(runs), columns, moved, jobs)
        found = replace(self.result_without_times(), written=written, span=(since, window.last))
        self._drop_engine()
        return found

    def _moved_in(self, runs: Sequence[SubmittedRun]) -> frozenset[int]:
        """Ids of moved ops of graphs in memory, numbered without the freed graphs."""
        found, base = set(), 0
        for run in runs:
            own = range(run.first, run.first + len(run))
            found |= {base + op - run.first for op in self.relocations.ops if op in own}
            base += len(run)
        return frozenset(found)

    def _reason_rows_do_not_fit(self) -> str:
        """Reason why a repeated run cannot keep every row; "" if it can."""
        ops, graphs = self.machine.count, self.machine.submissions
        size, most = ops + GRAPH_AS_OPS * graphs, self.simulation.memory
        if size <= MOST_OPS and (most is None or BYTES_PER_OP * size <= most):
            return ""
        return f"rows of all its {graphs:,} submitted graphs are too many to keep at once"

    def _run_processes(self, processes: Sequence[Process], until: int | None) -> None:
        """Start all jobs and processes, and run to the end or up to a tick."""
        for job in self.jobs:
            self._begin_job(job)
        if processes or not self.jobs:
            self.main.start(processes)
        try:
            self.machine.run(until)
        except SimulationError as error:
            error.submitted = self.held.submitted
            raise

    def _emit_totals(self) -> None:
        """Emit the totals of all counters, at the end of the run."""
        for job, name, total in self.counters.totals():
            self.emissions.add(job, name, int(self.machine.env.now), float(total))

    def time_graph(
        self, graph: Graph, job: JobState | None = None, pins: Pins | None = None
    ) -> TimedGraph:
        """Place a graph of a job, time its ops, and convert it to engine form."""
        if job is None:
            return self.timing.time_graph(graph)
        return self.timing.time_graph(graph, job.placement, job.periodic, pins)

    def prepare(
        self,
        graph: Graph | StepGrid,
        job: JobState | None = None,
        gpus: Sequence[str] | None = None,
        rank: int | None = None,
        ways: Sequence[Way] = (),
    ) -> Prepared:
        """Prepare a graph, or a grid of it, for repeated submission.

        Parameters
        ----------
        job : job that it belongs to; None for ``main``
        gpus : GPU of each rank; None for the graph's own placement, or the first GPUs
        rank : number of its rank 0 within the job; None to number by GPU
        ways : alternatives that its submissions may choose

        Raises
        ------
        GraphError
            A way has too few GPUs, or names a component or route that does not exist.
        """
        job, grid = job or self.main, None
        if not isinstance(graph, Graph | StepGrid):
            raise TypeError(f"prepare: graph is {shown(graph)}; give a Graph or a StepGrid")
        if isinstance(graph, StepGrid):
            grid = graph
            graph = grid.graph_at([int(axis[0]) for axis in grid.axes.values()])
            grid.check_size(len(graph))
        graph = _graph_edited_by_job(graph, job)
        on = [self._check_way(way, graph) for way in ways]
        return self._prepare_once(
            graph,
            job,
            gpus,
            rank,
            ways=[
                partial(self._prepare_way, graph, job, way.gpus or gpus, rank, pins, (), grid)
                for way, pins in zip(ways, on, strict=True)
            ],
            grid=grid,
        )

    def _check_way(self, way: Way, graph: Graph) -> Pins | None:
        """Routes that a way chooses, None for none, after validation of the way."""
        if not isinstance(way, Way):
            raise GraphError("way", f"{graph.name!r}: way is {shown(way)}; give a Way")
        if way.gpus is not None:
            as_names("gpus", way.gpus, lambda why: GraphError("way", f"{way}: {why}"))
            if len(way.gpus) < graph.ranks:
                raise GraphError(
                    "way",
                    f"{way}: the graph {graph.name!r} has {graph.ranks} ranks; name the GPU of "
                    "each",
                )
            for name in way.gpus:
                self.system.number(name)
        return Pins(self.system.pinned_routes(way.routes)) if way.routes else None

    def _prepare_way(self, *graph_and_place: Any) -> Prepared:
        """Prepare a graph for one of its ways."""
        self.held.note_way()
        return self._prepare_once(*graph_and_place)

    def _prepare_once(
        self,
        graph: Graph,
        job: JobState,
        gpus: Sequence[str] | None,
        rank: int | None,
        pins: Pins | None = None,
        ways: Sequence[Callable[[], Prepared]] = (),
        grid: StepGrid | None = None,
    ) -> Prepared:
        """Prepare a graph with one placement and one choice of routes."""
        first = graph
        timed_graph = self.time_graph(
            graph if gpus is None else place(graph, self.system, gpus), job, pins
        )
        self.asks_online |= bool(timed_graph.answers.drivers)
        graph, timings = timed_graph.graph, timed_graph.answers
        ranks = None if graph.gpus is None else job.ranks.number(graph.gpus, rank)

        def lower(graph: Graph, timings: OpTimings) -> EngineGraph:
            return self.timing.lower(graph, timings, pins)

        def variant(graph: Graph, timings: OpTimings, lowered: EngineGraph) -> PreparedVariant:
            draw = self.draws.draw_function(SubmittedRun(graph, timings, lowered, 0, ranks))
            return PreparedVariant(
                graph, timings, lowered, ranks, self.machine.prepare(lowered), draw, pins
            )

        members = communication_endpoints(graph)
        timer = RowTimer(self.timing, graph, timings.component, members, pins)
        callbacks = PreparationCallbacks(timer.times, lower, variant, lambda: self.timing.routed)
        made = variant(graph, timings, timed_graph.lowered)
        if grid is None:
            return Prepared(job, made, callbacks, self.timing.routed, ways)
        asks = GridTimer(
            self.timing, grid, self._grid_graphs, job.edit, first, graph, timings.component,
            members, pins,
        )  # fmt: skip
        prepared = PreparedGrid(
            job, made, callbacks, self.timing.routed, ways, grid,
            GridCallbacks(asks.times, asks.seconds),
        )  # fmt: skip
        self._grids.append(prepared)
        return prepared

    @property
    def grid_errors(self) -> dict[str, GridError]:
        """Error of each grid that was prepared, by name; of several of a name the largest."""
        order = sorted(self._grids, key=lambda one: one.error.most or 0.0)
        return {one.grid.name: one.error for one in order}

    def submit(
        self,
        graph: Graph | Prepared,
        job: JobState | None = None,
        who: str = "",
        *,
        rank: int | None = None,
        key: int | None = None,
        flop: Values | None = None,
        bytes: Values | None = None,
        way: int | None = None,
        at: At | None = None,
    ) -> Submitted:
        """Submit a graph to the engine and record it for the result.

        Parameters
        ----------
        job : job that the graph belongs to; None for ``main``
        who : name of the process that submits it; empty for none
        rank : number of the graph's rank 0 within the job; None to number by GPU
        key : key of the random draws; None for the number of earlier submissions of this graph name
        flop, bytes : new values of a prepared graph, by row
        way : number of the way that a prepared graph takes; None for that of its preparation
        at : numbers of a prepared grid, one per axis

        Raises
        ------
        SimulationError
            What its process has submitted no longer fits into memory; the graph was prepared in
            another run or job; the job was stopped.
        """
        job = job or self.main
        if job.stopped:
            raise SimulationError(
                "action",
                f"{who}: submits a graph for job {job.name}, which was stopped; start "
                "its processes with sim.start(), so that they stop with the job",
            )
        if not isinstance(graph, Graph | Prepared):
            raise TypeError(
                f"{who}: graph is {shown(graph)}; give a Graph, or what prepare() returned"
            )
        self.held.make_room(who, len(graph))
        if isinstance(graph, Prepared):
            if rank is not None:
                raise TypeError("a prepared graph already has its ranks; pass rank= to prepare()")
            return self._submit_repeat(graph.on_way(way), job, key, flop, bytes, at)
        if any(given is not None for given in (flop, bytes, way, at)):
            raise TypeError(
                "flop=, bytes=, way= and at= need a prepared graph; call prepare() first"
            )
        graph = _graph_edited_by_job(graph, job)
        if graph.template is not None:
            log.info(
                "%s: all %s ops are expanded, since processes steer the run", graph.name, len(graph)
            )
        run = self.with_ranks_and_draws(self.time_graph(graph, job), job, rank, key)
        handle = self.machine.submit(run.lowered)
        now = int(self.machine.env.now)
        self.runs.append(replace(run, first=handle.first, at=now, by=self._acting_process))
        job.note_submitted(handle)
        return handle

    def note_job_graph(self, graph: Submitted) -> None:
        """Record that a graph is a job's own workload, not a submission of a process."""
        self.held.note_job_graph(graph)

    @property
    def _acting_process(self) -> str:
        """Name of the process that is running now; "" for none."""
        acts = self.machine.env.active_process
        return "" if acts is None else str(acts.name)

    def _submit_repeat(
        self,
        graph: Prepared,
        job: JobState,
        key: int | None,
        flop: Values | None,
        bytes: Values | None,
        at: At | None = None,
    ) -> Submitted:
        if graph.run is not job:
            raise SimulationError(
                "action",
                f"{graph!r}: it was prepared in another run or job; prepare it in this one",
            )
        made = graph.submission(flop, bytes, at)
        variant, number = made.variant, job.next_submission(graph.graph.name, key)
        draw_key = submission_key(job.name, number)
        if variant.draw is not None:
            made = made._replace(numbers=variant.draw(made.numbers, draw_key))
        handle = self.machine.submit_prepared(variant.shape, made.numbers)
        now = int(self.machine.env.now)
        run = PreparedRun(made, handle.first, job.number, now, self._acting_process, draw_key)
        self.runs.append(run)
        if graph.routed is not self.timing.routed:
            self.relocations.reroute(run)
        job.note_submitted(handle)
        return handle

    def fixed_shape(self, graph: Prepared, job: JobState) -> FixedShape | GridShapes | None:
        """What an engine may submit of a prepared graph without Python; None for nothing."""
        variant = graph.variant
        if not len(graph) or job.watches_losses or job.stopped:
            return None
        if graph.routed is not self.timing.routed or np.any(variant.answers.online >= 0):
            return None
        if isinstance(graph, PreparedGrid):
            return driven_grid(graph)
        if variant.draw is not None:
            return None
        return FixedShape(variant.shape, variant.numbers, graph.graph.name)

    def most_held(self, largest: int) -> float:
        """Size of the graphs in memory, in ops, up to which graphs need no check."""
        return self.held.most_held(largest)

    def driven_run(
        self, made: SomeSubmission, first: int, job: JobState, by: str, at: int, key: int
    ) -> PreparedRun:
        """Record of a submission of a prepared graph that the engine makes for a process.

        Parameters
        ----------
        made : the submission
        first : id of its first op
        by : name of the process
        at : tick of the submission
        key : key of its random draws
        """
        draw_key = submission_key(job.name, key)
        return PreparedRun(made, first, job.number, at, by, draw_key)

    def note_driven_graphs(self, who: str, graphs: int, ops: int) -> None:
        """Count graphs and ops that the engine submitted for a process."""
        self.held.note_submitted(who, graphs, ops)

    def free_driven(self, more: Sequence[SubmittedRun]) -> NDArray[np.int64] | None:
        """Free graphs that are over; see ``DrivenPolicy.free_ended_graphs``."""
        return None if self.relocations.moved else self.held.free_if_due(more)

    def with_ranks_and_draws(
        self,
        timed_graph: TimedGraph,
        job: JobState,
        rank: int | None = None,
        key: int | None = None,
    ) -> SubmittedRun:
        """Submitted graph of a job, with ranks numbered within the job and durations drawn."""
        self.asks_online |= bool(timed_graph.answers.drivers)
        graph = timed_graph.graph
        ranks = None if graph.gpus is None else job.ranks.number(graph.gpus, rank)
        run = SubmittedRun(graph, timed_graph.answers, timed_graph.lowered, 0, ranks, job.number)
        draw_key = submission_key(job.name, job.next_submission(graph.name, key))
        return replace(run, lowered=self.draws.draw(run, draw_key), draw_key=draw_key)

    def _begin_job(self, job: RunningJob) -> None:
        """Start a job at its arrival time."""
        if not job.job.arrives:
            job.begin()
            return
        event = self.machine.env.timeout(self.ticks(job.job.arrives))
        cast(list[Any], event.callbacks).append(lambda _: job.begin())

    def result(self, keep: str | None, repeat_run: Callable[[], Result] | str) -> Result:
        """Result of the run, with one row per op or with aggregates.

        Parameters
        ----------
        keep : level of detail; None decides by size
        repeat_run : function that repeats the run and keeps one row per op, or the reason why it
            cannot
        """
        if self.held.sums:
            return self._aggregated_result(repeat_run)
        columns = self.machine.columns() if self.columns is None else self.columns
        jobs = tuple(JobRecord(job.name, job.arrived, job.given) for job in self.jobs)
        runs = tuple(self.relocations.with_final_places(self.runs))
        written = Schedule(runs, columns, frozenset(self.relocations.ops), jobs)
        found = replace(self.result_without_times(), written=written)
        keep = keep or ("ops" if found.count <= MOST_OPS else "ranks")
        if keep == "ops":
            return found
        self.__dict__.pop("machine", None)  # free its state before the next steps need memory
        if self.asks_online:
            repeat_run = ANSWERED
        return found.without_rows(keep, repeat_run)

    def _aggregated_result(self, repeat_run: Callable[[], Result] | str) -> Result:
        """Result of a run in which graphs were freed, from the aggregates."""
        self.held.release_ended()
        found = replace(self.result_without_times(), repeat_run=repeat_run)
        self.__dict__.pop("machine", None)
        sums = [self.held.sums_of(job) for job in self.jobs]
        kept = [own.aggregates(job.count) for own, job in zip(sums, self.jobs, strict=True)]
        if len(kept) == 1:
            return replace(found, summary=kept[0])
        by_job = tuple(
            replace(
                found,
                summary=one,
                ended=0,
                jobs=(found.jobs[k],),
                emitted=found.emitted.of_job(k),
                recorded=series_of_job(found.recorded, k),
            )
            for k, one in enumerate(kept)
        )
        return replace(found, summary=merge_job_aggregates(sums, kept), by_job=by_job)

    def result_without_times(self) -> Result:
        """Result without schedule and aggregates."""
        holds = len(self.parts.capacity) and "machine" in self.__dict__
        return Result(
            self.system,
            self.parts,
            self.tick,
            self.simulation.engine,
            self.simulation.seed,
            replica=self.replica,
            jobs=tuple(job.name for job in self.jobs),
            emitted=self.emissions.emitted(),
            recorded=self.series.recorded(),
            grid_errors=self.grid_errors,
            rate_log=tuple(self.rate_log),
            acquired=self.machine.ledger.acquired if holds else ProcessHoldHistory(),
            stored=self.machine.stores.history() if holds else {},
            found_full=self._found_full(),
            items=tuple(self.items),
            ended=int(self.machine.env.now) if "machine" in self.__dict__ else 0,
        )

    def _found_full(self) -> NDArray[np.int64]:
        """Number of ops that found the queue of each component full; (0,) without such queues."""
        queues = self.parts.queues
        if queues is None or "machine" not in self.__dict__:
            return np.empty(0, np.int64)
        bounded = np.flatnonzero(queues.length != UNBOUNDED).tolist()
        found = np.zeros(len(self.parts), np.int64)
        found[bounded] = [self.machine.found_full(c) for c in bounded]
        return found


def _graph_edited_by_job(graph: Graph, job: JobState) -> Graph:
    """Graph after its job's edit function."""
    return graph if job.edit is None else job.edit(graph)


def _make_engine(engine: str, parts: ComponentTable, per_second: int) -> EngineControl:
    env = simpy.Environment(initial_time=0)
    if engine == "reference":
        from ..reference.engine import ReferenceEngine

        return ReferenceEngine(parts, env, per_second)
    from ..core.engine import CoreEngine

    return CoreEngine(parts, env, per_second)
