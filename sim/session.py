"""One run under way: from a graph and its backends to what an engine takes, and back."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import simpy

from .analysis.aggregates import MOST_OPS
from .analysis.folded_aggregates import summarised
from .binding import Answers, ask, endpoints
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
from .lowering import answers, lower
from .place import place
from .result import Result
from .sampling import factors, scaled, widely
from .schedule import Schedule, SubmittedRun
from .units import Seconds, seconds, ticks_per_second

if TYPE_CHECKING:
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
        self.metrics: list[tuple[str, float, float]] = []
        self.rate_log: list[tuple[int, int, int]] = []
        self.moves: dict[int, tuple[int, ...]] = {}
        self.submitted: dict[str, tuple[int, int]] = {}  # ops and graphs, by process
        self.given: int | None = None  # rows of the graph whose iterations count
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

    def place(self, graph: Graph) -> Graph:
        """The graph on this system."""
        if graph.system is None:
            graph = place(graph, self.system)
        if graph.system is not self.system:
            raise GraphError(
                "placement", f"graph {graph.name!r} was placed on another system; place it again"
            )
        return graph

    def as_template(
        self, graph: Graph, template: SpmdGraph, keep: str, steered: bool
    ) -> Result | None:
        """Run a template without writing it out; None, and a word in the log, where it must be."""
        from .spmd.query import NotUniform
        from .spmd.spmd_run import SpmdRun

        try:
            if steered or self.simulation.engine != "core":
                raise NotUniform("it is steered" if steered else "that is how the reference runs")
            spmd = SpmdRun.of(self.simulation, self.place(graph), template, self.replica)
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
        return replace(self._result(), summary=kept, again=written or (lambda: self._written(spmd)))

    def _written(self, spmd: SpmdRun) -> Result:
        """A row an op of one rank of each class."""
        session = Session(self.simulation, self.replica)
        graph, said, lowered = spmd.written()
        session.runs.append(SubmittedRun(graph, said, lowered, 0))
        session.run_lowered(lowered)
        return session.result("ops", "it is a part of a run")

    def run_alone(self, asked: TimedGraph) -> None:
        """Run one graph that nobody steers."""
        lowered = self._drawn(asked)
        self.runs.append(SubmittedRun(asked.graph, asked.answers, lowered, 0))
        self.run_lowered(lowered)

    def run_lowered(self, lowered: EngineGraph) -> None:
        """The same of what an engine takes; identical ops once, where they share rates."""
        folded = self._fold(lowered)
        if folded is not None:
            machine = self._machine(folded.parts)
            machine.submit(folded.graph)
            try:
                machine.run()
            except SimulationError:
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

    def ask(self, graph: Graph) -> TimedGraph:
        """Place, ask and round one graph."""
        graph = self.place(graph)
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

    def submit(self, graph: Graph, who: str = "") -> Submitted:
        """Hand a graph to the machine and remember it for the result.

        Raises
        ------
        SimulationError
            What its process has submitted fits into memory no more.
        """
        if who:
            self._count(who, len(graph))
        asked = self.ask(graph)
        lowered = self._drawn(asked)
        handle = self.machine.submit(lowered)
        process = self.machine.env.active_process
        by = "" if process is None else str(process.name)
        self.runs.append(SubmittedRun(asked.graph, asked.answers, lowered, handle.first, by))
        return handle

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

    def start(self, processes: Sequence[Process]) -> None:
        """Begin the processes."""
        if processes:
            from .process import Running

            Running(self).start(processes)

    def _drawn(self, asked: TimedGraph) -> EngineGraph:
        """With the durations of this replica."""
        lowered, ops, spreads = asked.lowered, asked.graph.ops, asked.answers.spreads
        if self.replica is None or not spreads:
            return lowered
        fixed, flows = lowered.fixed.copy(), lowered.flows
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
            )
            shared = np.isin(rows, flows.op)
            at = np.searchsorted(flows.op, rows[shared])
            for by in drawn:
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
            return answers(found, self.system, self.scale, self.tick)

        return timing

    def result(self, keep: str | None, again: Callable[[], Result] | str) -> Result:
        """What happened; rows an op are dropped where they are not to be kept.

        Parameters
        ----------
        keep : None decides by size
        again : the same run with a row an op, or why there is none
        """
        columns = self.machine.columns() if self.columns is None else self.columns
        written = Schedule(tuple(self.runs), columns, self.moves, self.given)
        found = replace(self._result(), written=written)
        if len(self.parts.capacity) and "machine" in self.__dict__:
            found = replace(found, acquired=self.machine.ledger.acquired)
        keep = keep or ("ops" if found.count <= MOST_OPS else "ranks")
        if keep == "ops":
            return found
        self.__dict__.pop("machine", None)  # its state takes more room than what follows
        if any(run.answers.drivers for run in self.runs):
            again = "a backend was asked during it"
        return replace(found, written=None, summary=summarised(found, keep), again=again)

    def _result(self) -> Result:
        return Result(
            self.system,
            self.parts,
            self.tick,
            self.simulation.engine,
            self.simulation.seed,
            replica=self.replica,
            metrics=tuple(self.metrics),
            rate_log=tuple(self.rate_log),
        )


def _machine(engine: str, parts: ComponentTable, per_second: int) -> Engine:
    env = simpy.Environment(initial_time=0)
    if engine == "reference":
        from .reference.engine import ReferenceEngine

        return ReferenceEngine(parts, env, per_second)
    from .core.engine import CoreEngine

    return CoreEngine(parts, env, per_second)
