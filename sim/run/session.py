"""Session: one run, from graphs and backends to an engine and back to a result."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import simpy
from numpy.typing import NDArray

from ..analysis.streaming_sums import StreamingSums, merge_job_aggregates
from ..engine_api.capacity_ledger import ProcessHoldHistory
from ..engine_api.interface import (
    Answer,
    ComponentTable,
    Engine,
    EngineColumns,
    EngineGraph,
    Numbers,
    Online,
    Submitted,
)
from ..engine_api.lowering import (
    lower,
    lower_answers,
    lower_claims,
    lower_flows,
    ticks_from_seconds,
)
from ..engine_api.validation import check_graph
from ..errors import BackendError, GraphError, SimulationError
from ..facts.backend import Backend, check_timing
from ..facts.csr import Csr
from ..facts.graph import Graph
from ..facts.ops import Ops
from ..facts.place import place
from ..facts.sampling import (
    MAIN,
    product_may_overflow,
    random_factors,
    scaled_duration,
    scaled_int128,
    submission_key,
)
from ..record.aggregates import BYTES_PER_OP_RUN, MOST_OPS
from ..record.binding import Answers, ask, ask_all, communication_endpoints
from ..record.emitted import Emissions
from ..record.one_way import check_one_way
from ..record.prepared import Asking, Draw, NumberSet, Prepared, PreparedRun, Values
from ..record.schedule import JobRecord, Schedule, SubmittedRun
from ..units import Seconds, seconds, ticks_per_second
from .job import Job
from .relocation import Relocations
from .result import Result
from .running_job import RunningJob
from .workload import GivenGraphWorkload

if TYPE_CHECKING:
    from ..core.quotient import Quotient
    from ..facts.spmd_graph import SpmdGraph
    from ..spmd.spmd_run import SpmdRun
    from .allocator import Allocator
    from .process import Process
    from .simulation import Simulation

log = logging.getLogger(__name__)

SHARING = 4  # identical ops are folded where every fourth shares a rate: looking costs 0.8 us an op
MOST_WRITTEN = 20_000_000  # ops of a template that are written out to name one of them
# What a submitted graph takes while it is held, on Linux: 20,000 graphs of 1 op, 5,000 of 100.
BYTES_PER_GRAPH, BYTES_PER_OP = 3_900.0, 130.0
GRAPH_AS_OPS = 30  # a graph takes the memory of so many ops
AT_ONCE = 1 << 15  # ops, and graphs as ops, that are held before those that ended are added up


@dataclass(frozen=True)
class TimedGraph:
    """Placed graph with the answers of all backends, common to all replicas."""

    graph: Graph
    answers: Answers
    lowered: EngineGraph


class Session:
    """One run under way: its jobs, its submitted graphs and its engine."""

    def __init__(self, simulation: Simulation, replica: int | None, keep: str | None = "ops"):
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
        self.relocations = Relocations(self)
        self.submitted: dict[str, tuple[int, int]] = {}  # ops and graphs, by process
        self.given: dict[int, int] = {}  # ops of what jobs were given and is held, by first id
        self.keep = keep
        self.sums: dict[int, StreamingSums] = {}  # of what was given back, by job
        self.fold_at = AT_ONCE
        self.columns: EngineColumns | None = None  # of a run that no machine of the session did

    @cached_property
    def machine(self) -> Engine:
        """Engine of the run, at tick 0."""
        return self._machine(self.parts)

    def _machine(self, of: ComponentTable) -> Engine:
        return _make_engine(self.simulation.engine, of, ticks_per_second(self.tick))

    def ticks(self, at: Seconds) -> int:
        """Ticks of a time in s."""
        return round(at * ticks_per_second(self.tick))

    def enter(self, job: Job, parent: Job | None = None) -> RunningJob:
        """Add a job to the run.

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
        """Start a job on behalf of a process."""
        entered = self.enter(job, parent)
        entered.begin(processes)
        return entered.job

    @property
    def main(self) -> RunningJob:
        """Job of processes and graphs that belong to no other."""
        found = next((job for job in self.jobs if job.name == MAIN), None)
        return found or self.enter(Job(MAIN, GivenGraphWorkload()))

    def place(self, graph: Graph, job: RunningJob | None = None) -> Graph:
        """Graph placed on this system: as it was, else on the components of its job."""
        if graph.system is None:
            graph = place(graph, self.system, None if job is None else job.placement)
        if graph.system is not self.system:
            raise GraphError(
                "placement", f"graph {graph.name!r} was placed on another system; place it again"
            )
        return graph

    def only_graph(self) -> Graph | None:
        """Graph that is all of this run; None where there is more to it."""
        if len(self.jobs) != 1:
            return None
        only = self.jobs[0]
        if only.job.arrives or only.job.workload.until is not None or only.holds:
            return None
        return only.what if isinstance(only.what, Graph) else None

    def alone(self, graph: Graph, keep: str | None, again: Callable[[], Result]) -> Result:
        """Result of one graph without processes; run as an SPMD graph where possible."""
        if runs_as_spmd(graph, keep):
            assert graph.template is not None  # noqa: S101
            found = self.run_as_spmd(graph, graph.template, detail_by_size(keep, graph), again)
            if found is not None:
                return found
        self.run_alone(self.ask(graph, self.jobs[0]), self.jobs[0])
        return self.finish(detail_by_size(keep, graph), again)

    def finish(self, keep: str | None, again: Callable[[], Result] | str) -> Result:
        """Result of the run, and the end of the session.

        A job knows its session, and the session its jobs: the engine and the graphs go here, since
        they would stay until cycles are collected; of runs side by side, those of many.
        """
        result = self.result(keep, again)
        self.runs, self.columns = [], None
        vars(self).pop("machine", None)
        return result

    def steered(
        self, processes: Sequence[Process], until: Seconds | None, keep: str | None
    ) -> Result:
        """Result of all jobs, run as they arrive, with processes of ``main``.

        Raises
        ------
        SimulationError
            As the machine's; and where somebody still waits for components.
        """
        for job in self.jobs:
            self._begin_job(job)
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
        return self.finish(keep, "it was stopped" if until is not None else "a process steered it")

    def run_as_spmd(
        self, graph: Graph, template: SpmdGraph, keep: str, again: Callable[[], Result]
    ) -> Result | None:
        """Result of an SPMD graph run as such; None, with a log line, if it must be written out."""
        from ..spmd.query import NotUniform
        from ..spmd.spmd_run import SpmdRun

        try:
            if self.simulation.engine != "core":
                raise NotUniform("that is how the reference runs")
            if not self.jobs[0].job.workload.periodic:
                raise NotUniform("its job has no periods")
            if graph.times is not None:
                raise NotUniform("rules give some of its ops other times")
            graph = self.place(graph, self.jobs[0])
            spmd = SpmdRun.of(self.simulation, graph, template, self.replica)
            kept = spmd.kept(keep)
        except NotUniform as why:
            self._require_room_to_write(graph, str(why))
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
        found = replace(self._full_result(), summary=kept)
        if spmd.shares_rates and not written:
            return replace(found, again=again)
        return replace(found, again=written or (lambda: self._write_spmd_result(spmd)))

    def _require_room_to_write(self, graph: Graph, why: str) -> None:
        """Refuse a template that has to be written out and does not fit into memory so."""
        most, needed = self.simulation.memory, BYTES_PER_OP_RUN * len(graph)
        if most is not None and needed > most:
            raise SimulationError(
                "memory",
                f"{graph.name}: has to be written out, since {why}; its {len(graph):,} ops need "
                f"about {needed / 1e9:.3g} GB, and {most / 1e9:.3g} GB are free; take fewer ranks "
                "or periods, or allow more memory",
            )

    def _write_spmd_result(self, spmd: SpmdRun) -> Result:
        """Result with one row per op of one rank of each class."""
        session = Session(self.simulation, self.replica)
        session.enter(self.jobs[0].job)
        graph, said, lowered = spmd.written()
        session.runs.append(SubmittedRun(graph, said, lowered, 0))
        session.run_lowered(lowered)
        found = session.result("ops", "it is a part of a run")
        return replace(found, copies=spmd.copies())

    def run_alone(self, asked: TimedGraph, job: RunningJob) -> None:
        """Run one graph that nobody steers."""
        run = self._numbered_and_drawn_graph(asked, job)
        self.runs.append(run)
        self.run_lowered(run.lowered)

    def run_lowered(self, lowered: EngineGraph) -> None:
        """Run an engine graph; identical ops once, where they share rates."""
        folded = self._fold_graph(lowered)
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

    def _fold_graph(self, lowered: EngineGraph) -> Quotient | None:
        """Quotient of a graph: each group of ops that do the same at the same ticks as one op.

        None where it is not much smaller, for the reference engine, and where fewer than one op in
        four moves work over shared rates: then looking for groups costs more than it saves.
        """
        works = np.count_nonzero(lowered.flows.work_hi | lowered.flows.work_lo.astype(np.int64))
        if self.simulation.engine != "core" or SHARING * works < len(lowered):
            return None
        if self.parts.medium is not None:
            return None  # equal ops that queue are not equal: one comes first
        from ..core.quotient import fold_identical_ops

        found = fold_identical_ops(self.parts, lowered)
        if found is not None:
            log.info("%s: %s of %s ops run", lowered.name, len(found.graph), len(lowered))
        return found

    def ask(self, graph: Graph, job: RunningJob | None = None) -> TimedGraph:
        """Graph placed, timed by its backends and rounded."""
        graph = self.place(graph, job)
        if job is not None and not job.job.workload.periodic:
            graph = _without_periods(graph)
        said = ask(graph, self.bound, self.relocations.routed)
        if self.parts.medium is not None:
            members = communication_endpoints(graph)
            check_one_way(self.parts, graph.ops, said.timing, members, self.relocations.routed)
        return TimedGraph(graph, said, self.lower(graph, said))

    def lower(self, graph: Graph, said: Answers) -> EngineGraph:
        """Engine graph of a placed graph with these answers."""
        at, members = (
            said.component,
            communication_endpoints(graph) if said.drivers else Csr.empty(0),
        )
        asks = tuple(self.asks(graph, backend, at, members) for backend in said.drivers)
        online = said.online if asks else None
        return lower(
            graph.name,
            graph.explicit,
            said.timing,
            self.system,
            self.scale,
            self.tick,
            online,
            asks,
        )

    def prepare(
        self,
        graph: Graph,
        job: RunningJob | None = None,
        gpus: Sequence[str] | None = None,
        rank: int | None = None,
    ) -> Prepared:
        """Prepare a graph that will be submitted often.

        Parameters
        ----------
        job : whose it is; None for ``main``
        gpus : of its ranks; None for those that it was placed on, or the first ones
        rank : the job's number of its rank 0; None for the numbers of its GPUs
        """
        job = job or self.main
        graph = _graph_edited_by_job(graph, job)
        asked = self.ask(graph if gpus is None else place(graph, self.system, gpus), job)
        graph, members = asked.graph, communication_endpoints(asked.graph)
        ranks = None if graph.gpus is None else job.ranks.number(graph.gpus, rank)

        def rows(at: NDArray[np.int64], ops: Ops) -> tuple[Answers, EngineGraph]:
            component = asked.answers.component[at]
            return self.ask_rows(graph, at, component, members.take(at), ops)

        def variant(graph: Graph, said: Answers, lowered: EngineGraph) -> NumberSet:
            draw = self._draw_function(SubmittedRun(graph, said, lowered, 0, ranks))
            return NumberSet(graph, said, lowered, ranks, self.machine.prepare(lowered), draw)

        made = variant(graph, asked.answers, asked.lowered)
        return Prepared(job, made, Asking(rows, self.lower, variant), self.relocations.routed)

    def ask_rows(
        self,
        graph: Graph,
        at: NDArray[np.int64],
        component: NDArray[np.int32],
        members: Csr,
        ops: Ops | None = None,
    ) -> tuple[Answers, EngineGraph]:
        """Answers for some rows of a graph, and the same as loose ops.

        Parameters
        ----------
        at : rows
        component : that is asked about each
        members : GPUs of each send and collective
        ops : where they have other numbers than in the graph
        """
        table = graph.ops.take(at) if ops is None else ops
        times = None if graph.times is None else graph.times.take(at)
        routed = self.relocations.routed
        said = ask_all(table, component, members, routed, self.bound, at, times)
        check_one_way(self.parts, table, said.timing, members, routed)
        shared = lower_flows(said.timing, self.system, self.scale, self.tick, rows=at)
        fixed = ticks_from_seconds(said.timing.fixed, self.tick, at)
        found = EngineGraph.loose(graph.name, fixed, shared, lower_claims(said.timing))
        check_graph(self.parts, found.among(len(graph), at))
        return said, found

    def submit(
        self,
        graph: Graph | Prepared,
        job: RunningJob | None = None,
        who: str = "",
        *,
        rank: int | None = None,
        key: int | None = None,
        flop: Values | None = None,
        bytes: Values | None = None,
    ) -> Submitted:
        """Submit a graph to the engine and record it for the result.

        Parameters
        ----------
        job : that the graph is part of; None for ``main``
        who : name of the process that submits it; empty for none
        rank : number in the job of the graph's rank 0; None for the numbers of its GPUs
        key : seeds the draws of durations; None for how often a graph of its name came before
        flop, bytes : new values, by row, of a prepared graph

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
                f"{who}: submits a graph for job {job.name}, which was stopped; start its "
                "processes with sim.start(), so that they stop with it",
            )
        self._make_room(who, len(graph))
        if isinstance(graph, Prepared):
            if rank is not None:
                raise TypeError("a prepared graph has its ranks; say rank= to prepare()")
            return self._submit_repeat(graph, job, key, flop, bytes)
        if flop is not None or bytes is not None:
            raise TypeError("flop= and bytes= are of a prepared graph; prepare() it first")
        graph = _graph_edited_by_job(graph, job)
        if graph.template is not None:
            log.info("%s: %s ops are written out, since it is steered", graph.name, len(graph))
        run = self._numbered_and_drawn_graph(self.ask(graph, job), job, rank, key)
        handle = self.machine.submit(run.lowered)
        now = int(self.machine.env.now)
        self.runs.append(replace(run, first=handle.first, at=now, by=self._acting_process))
        job.handed_in(handle)
        return handle

    @property
    def _acting_process(self) -> str:
        """Name of the process that acts now; "" for none."""
        acts = self.machine.env.active_process
        return "" if acts is None else str(acts.name)

    def _submit_repeat(
        self,
        graph: Prepared,
        job: RunningJob,
        key: int | None,
        flop: Values | None,
        bytes: Values | None,
    ) -> Submitted:
        if graph.run is not job:
            raise SimulationError(
                "action", f"{graph!r}: prepared in another run or job; prepare it here"
            )
        made = graph.submission(flop, bytes)
        variant, number = made.variant, job.next_submission(graph.graph.name, key)
        which = submission_key(job.name, number)
        if variant.draw is not None:
            made = made._replace(numbers=variant.draw(made.numbers, which))
        handle = self.machine.repeat(variant.shape, made.numbers)
        now = int(self.machine.env.now)
        run = PreparedRun(made, handle.first, job.number, now, self._acting_process, which)
        self.runs.append(run)
        if graph.routed is not self.relocations.routed:
            self.relocations.reroute(run)
        job.handed_in(handle)
        return handle

    def _numbered_and_drawn_graph(
        self, asked: TimedGraph, job: RunningJob, rank: int | None = None, key: int | None = None
    ) -> SubmittedRun:
        """Graph of a job with its ranks numbered and its durations drawn."""
        graph = asked.graph
        ranks = None if graph.gpus is None else job.ranks.number(graph.gpus, rank)
        run = SubmittedRun(graph, asked.answers, asked.lowered, 0, ranks, job.number)
        which = submission_key(job.name, job.next_submission(graph.name, key))
        return replace(run, lowered=self.drawn(run, which), which=which)

    def _make_room(self, who: str, count: int) -> None:
        """Account for a submission; free what ended, and refuse what does not fit even then."""
        held, most = self._ops_in_memory, self.simulation.memory
        if held >= self.fold_at and self._drops_ended_rows(held):
            self.release_ended()
        if not who:
            return
        ops, graphs = self.submitted.get(who, (0, 0))
        if most is not None and self._submitted_bytes(count) > most:
            if self.keep in ("none", "ranks"):
                self.release_ended()
            if self._submitted_bytes(count) > most:
                raise self._memory_error(who, ops, graphs, most)
        self.submitted[who] = ops + count, graphs + 1

    @property
    def _ops_in_memory(self) -> int:
        """Number of ops in memory."""
        return self.machine.held_ops + GRAPH_AS_OPS * self.machine.held_graphs

    def _submitted_bytes(self, more: int) -> float:
        """Bytes of what processes submitted, with a graph of so many ops more."""
        given = sum(ops + GRAPH_AS_OPS for ops in self.given.values())
        return BYTES_PER_OP * (self._ops_in_memory - given + more + GRAPH_AS_OPS)

    def _memory_error(self, who: str, ops: int, graphs: int, most: float) -> SimulationError:
        kept = self.keep in (None, "ops")
        why = "rows of all that ended are kept" if kept else "they are not over"
        cure = ", keep fewer rows (keep='ranks')" if kept else ""
        return SimulationError(
            "memory",
            f"{who}: has submitted {ops:,} ops in {graphs:,} graphs, and no more fit into "
            f"{most / 1e6:,.0f} MB: {self.machine.held_ops:,} ops in {self.machine.held_graphs:,} "
            f"graphs are held, since {why}; let it end{cure}, or allow more memory",
        )

    def _drops_ended_rows(self, held: int) -> bool:
        """Whether rows of ended ops are dropped; decided by size where ``keep`` leaves it open."""
        return self.keep in ("none", "ranks") or (self.keep is None and held > MOST_OPS)

    def release_ended(self) -> int:
        """Sum up and free what has ended; the number of ops still in memory."""
        machine = self.machine
        self.keep = self.keep or "ranks"
        held = machine.give_back()
        self.runs = self.relocations.settled(self.runs)
        rows: list[list[int]] = [[] for _ in self.jobs]
        for k, run in enumerate(self.runs):
            rows[run.job].append(k)
        for job, own in zip(self.jobs, rows, strict=True):
            self._sums_of_job(job).add(held, own, self.runs, int(machine.env.now))
        self.runs = [r for r, over in zip(self.runs, held.over.tolist(), strict=True) if not over]
        self.relocations.keep(self.runs)
        held_yet = {run.first for run in self.runs}
        self.given = {first: n for first, n in self.given.items() if first in held_yet}
        left = self._ops_in_memory
        self.fold_at = left + max(left, AT_ONCE)
        return left

    def _sums_of_job(self, job: RunningJob) -> StreamingSums:
        """Aggregates of a job's ops that were given back."""
        if job.number not in self.sums:
            self.sums[job.number] = StreamingSums(
                self.system,
                self.parts,
                self.tick,
                job.arrived,
                job.opening if job.job.workload.periodic else None,
                str(self.keep),
                compiled=self.simulation.engine == "core",
            )
        return self.sums[job.number]

    def _begin_job(self, job: RunningJob) -> None:
        """Begin a job at its arrival time."""
        if not job.job.arrives:
            job.begin()
            return
        event = self.machine.env.timeout(self.ticks(job.job.arrives))
        cast(list[Any], event.callbacks).append(lambda _: job.begin())

    def _draw_function(self, run: SubmittedRun) -> Draw | None:
        """Function that draws durations for submissions of a prepared graph; None for none."""
        if self.replica is None or not run.answers.spreads:
            return None

        def plainly(numbers: Numbers, which: tuple[int, ...]) -> Numbers:
            typical = replace(run, lowered=numbers.put_into(run.lowered))
            return Numbers.of(self.drawn(typical, which))

        if self.simulation.engine == "core":
            from ..core.programs.draw import Draws

            draws = Draws(
                run.lowered.name,
                run.answers.spreads,
                run.lowered.flows.op,
                run.ops.rank,
                run.ops.period,
                seed=self.simulation.seed,
                replica=self.replica,
            )
            return lambda numbers, which: draws.of(numbers, which) or plainly(numbers, which)

        return plainly

    def drawn(self, run: SubmittedRun, which: tuple[int, ...]) -> EngineGraph:
        """Graph with the durations of this replica."""
        lowered, spreads = run.lowered, run.answers.spreads
        if self.replica is None or not spreads:
            return lowered
        ops, fixed, flows = run.ops, lowered.fixed.copy(), lowered.flows
        hi, lo = flows.work_hi.copy(), flows.work_lo.copy()
        for rows, spread in spreads:
            drawn = random_factors(
                spread,
                name=lowered.name,
                row=rows,
                rank=ops.rank[rows],
                period=ops.period[rows],
                seed=self.simulation.seed,
                replica=self.replica,
                which=which,
            )
            shared = np.isin(rows, flows.op)
            at = np.searchsorted(flows.op, rows[shared])
            for by in drawn:
                _check_draw_fits(
                    lowered.name,
                    rows,
                    product_may_overflow(fixed[rows], by),
                    "time",
                    "use a coarser tick",
                )
                _check_draw_fits(
                    lowered.name,
                    rows[shared],
                    product_may_overflow(hi[at], by[shared]),
                    "work",
                    "split the op",
                )
                fixed[rows] = scaled_duration(fixed[rows], by)
                hi[at], lo[at] = scaled_int128(hi[at], lo[at], by[shared])
        return replace(lowered, fixed=fixed, flows=replace(flows, work_hi=hi, work_lo=lo))

    def asks(
        self,
        graph: Graph,
        backend: Backend,
        asked: NDArray[np.int32] | Mapping[int, int],
        members: Csr | Mapping[int, NDArray[np.int32]],
    ) -> Online:
        """Function that asks an online backend, from integers to SI units and back.

        Parameters
        ----------
        asked : component by row
        members : GPUs of each send and collective, by row
        """
        ops = graph.ops

        def timing(rows: Sequence[int], now: int) -> list[Answer]:
            at = np.asarray(rows)
            component = np.array([asked[row] for row in rows], np.int32)
            ends = Csr.of([members[row].tolist() for row in rows])
            table = ops.take(at).asked(self.relocations.routed, component, ends)
            found = backend.timing(table, float(seconds(now, self.tick)))
            check_timing(found, table, self.system.components[component[0]].name, at)
            if graph.times is not None:
                found = graph.times.take(at).applied(found)
            written = found.written(component)
            return lower_answers(written, self.system, self.scale, self.tick, at)

        return timing

    def result(self, keep: str | None, again: Callable[[], Result] | str) -> Result:
        """Result of the run, with or without one row per op.

        Parameters
        ----------
        keep : None decides by size
        again : runs the same with one row per op, or why nothing does
        """
        if self.sums:
            return self._aggregated_result(again)
        columns = self.machine.columns() if self.columns is None else self.columns
        jobs = tuple(JobRecord(job.name, job.arrived, job.given) for job in self.jobs)
        runs = tuple(self.relocations.settled(self.runs))
        written = Schedule(runs, columns, frozenset(self.relocations.ops), jobs)
        found = replace(self._full_result(), written=written)
        keep = keep or ("ops" if found.count <= MOST_OPS else "ranks")
        if keep == "ops":
            return found
        self.__dict__.pop("machine", None)  # its state takes more room than what follows
        if any(run.answers.drivers for run in self.runs):
            again = "a backend was asked during it"
        return found.without_rows(keep, again)

    def _aggregated_result(self, again: Callable[[], Result] | str) -> Result:
        """Result of a run of which graphs were given back."""
        self.release_ended()
        found = replace(self._full_result(), again=again)
        self.__dict__.pop("machine", None)
        sums = [self._sums_of_job(job) for job in self.jobs]
        kept = [own.kept(job.count) for own, job in zip(sums, self.jobs, strict=True)]
        if len(kept) == 1:
            return replace(found, summary=kept[0])
        by_job = tuple(
            replace(found, summary=one, jobs=(found.jobs[k],), emitted=found.emitted.of_job(k))
            for k, one in enumerate(kept)
        )
        return replace(found, summary=merge_job_aggregates(sums, kept), by_job=by_job)

    def _full_result(self) -> Result:
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
            rate_log=tuple(self.rate_log),
            acquired=self.machine.ledger.acquired if holds else ProcessHoldHistory(),
        )


def runs_as_spmd(graph: Graph, keep: str | None) -> bool:
    """Whether a graph is an SPMD graph of which one row per op is not to be kept."""
    return graph.template is not None and detail_by_size(keep, graph) != "ops"


def detail_by_size(keep: str | None, graph: Graph) -> str:
    """Detail to keep of a graph's run: as asked, else by the number of its ops."""
    return keep or ("ops" if len(graph) <= MOST_OPS else "ranks")


def _graph_edited_by_job(graph: Graph, job: RunningJob) -> Graph:
    """Graph as its job wants it."""
    edit = job.job.workload.edit
    return graph if edit is None else edit(graph)


def _without_periods(graph: Graph) -> Graph:
    """Graph whose ops are in no period."""
    ops = graph.ops
    return graph if np.all(ops.period < 0) else graph.with_ops(ops.replace(period=-1))


def _check_draw_fits(
    name: str, rows: NDArray[np.int64], beyond: NDArray[np.bool_], what: str, cure: str
) -> None:
    """Raise an error for a draw beyond the range."""
    for row in rows[beyond][:1].tolist():
        raise GraphError(
            "overflow", f"graph {name!r} op {row}: drew a {what} beyond the range; {cure}", (row,)
        )


def _make_engine(engine: str, parts: ComponentTable, per_second: int) -> Engine:
    env = simpy.Environment(initial_time=0)
    if engine == "reference":
        from ..reference.engine import ReferenceEngine

        return ReferenceEngine(parts, env, per_second)
    from ..core.engine import CoreEngine

    return CoreEngine(parts, env, per_second)
