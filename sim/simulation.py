"""Bind, ask, run: a graph, a system and its backends in, a result out."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import simpy

from .backend import Backend
from .bind import Answers, ask, bind, endpoints
from .draws import durations
from .errors import GraphError
from .graph import Graph
from .lower import answers, lower, parts, scales
from .machine import Answer, Lowered, Machine, Online, Parts, Submitted
from .ops import Ops
from .place import place
from .result import Result, Run
from .system import System
from .units import PICOSECOND, Seconds, seconds, ticks_per_second

if TYPE_CHECKING:
    from .process import Process

log = logging.getLogger(__name__)

ENGINES = ("core", "reference")


@dataclass(frozen=True)
class Simulation:
    """A machine whose components are bound to those who answer for them.

    Parameters
    ----------
    system : System
    backends : mapping
        Backend by component name or glob; the exact name wins over a glob.
    engine : str
        ``core`` (compiled) or ``reference`` (SimPy, the meaning of the other).
    tick : Seconds
        1 ps; 1 ns for runs longer than 106 days.
    seed : int
        Of the random factors of durations; 0 replicas draw nothing.

    Examples
    --------
    >>> from foretrace.sim.backend import Backend, Timing
    >>> from foretrace.sim.graph import Builder
    >>> from foretrace.sim.ops import Kind
    >>> from foretrace.sim.system import Component
    >>> class Constant(Backend):
    ...     def timing(self, ops, now=0.0):
    ...         return Timing.of([1e-3] * len(ops))
    >>> build = Builder("two in a row")
    >>> first = build.op(Kind.COMPUTE)
    >>> _ = build.op(Kind.COMPUTE, after=[first])
    >>> system = System((Component("node0.gpu0", "gpu", slots=1),), ("node0.gpu0",))
    >>> simulation = Simulation(system, {"node*.gpu*": Constant()}, engine="reference")
    >>> simulation.run(build.graph()).makespan
    0.002
    """

    system: System
    backends: Mapping[str, Backend]
    engine: str = "core"
    tick: Seconds = PICOSECOND
    seed: int = 0

    def __post_init__(self) -> None:
        if self.engine not in ENGINES:
            raise ValueError(f"engine is {self.engine!r}; it is one of {ENGINES}")

    def run(
        self,
        graph: Graph | None,
        *processes: Process,
        replica: int | None = None,
        until: Seconds | None = None,
    ) -> Result:
        """Run one graph, with the processes that steer it.

        Parameters
        ----------
        graph : Graph or None
            Placed on this system, or placed here with rank r on the r-th GPU.
        processes : Process
            SimPy generators that are given the running simulation.
        replica : int or None
            Which seeded draw of the durations; None for the typical ones.
        until : Seconds or None
            Stop there, whatever is open.

        Raises
        ------
        GraphError, BackendError
            What cannot be scheduled or timed.
        SimulationError
            Deadlock, starvation, lost ops, a zero-time loop, time overflow.
        """
        session = Session(self, replica)
        if graph is not None:
            session.submit(graph)
        session.start(processes)
        session.machine.run(None if until is None else session.ticks(until))
        return session.result()

    def replicas(self, graph: Graph, *processes: Process, count: int) -> list[Result]:
        """Independent seeded draws of the same run; replica k alone is ``run(replica=k)``."""
        return [self.run(graph, *processes, replica=k) for k in range(count)]


class Session:
    """One run under way: what was submitted, and the machine that works on it."""

    def __init__(self, simulation: Simulation, replica: int | None):
        self.simulation, self.replica = simulation, replica
        self.system, self.tick = simulation.system, simulation.tick
        self.scale = scales(self.system)
        self.bound = bind(self.system, simulation.backends)
        for backend in {id(b): b for b in self.bound if b is not None}.values():
            backend.open(self.system)
        self.parts = parts(self.system, self.scale)
        self.machine = _machine(simulation.engine, self.parts, ticks_per_second(self.tick))
        self.runs: list[Run] = []
        self.metrics: list[tuple[str, float, float]] = []
        self.rate_log: list[tuple[int, int, int]] = []

    def ticks(self, at: Seconds) -> int:
        """Seconds as ticks."""
        return round(at * ticks_per_second(self.tick))

    def lower(self, graph: Graph) -> tuple[Graph, Answers, Lowered]:
        """Place, ask and round one graph."""
        if graph.system is None:
            graph = place(graph, self.system)
        if graph.system is not self.system:
            raise GraphError(
                "placement", f"graph {graph.name!r} was placed on another system; place it again"
            )
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
        return graph, said, self._drawn(lowered, graph.ops, said)

    def submit(self, graph: Graph) -> Submitted:
        """Hand a graph to the machine and remember it for the result."""
        placed, said, lowered = self.lower(graph)
        handle = self.machine.submit(lowered)
        self.runs.append(Run(placed, said, lowered, handle.first))
        return handle

    def start(self, processes: Sequence[Process]) -> None:
        """Begin the processes."""
        if processes:
            from .process import Running

            Running(self).start(processes)

    def _drawn(self, lowered: Lowered, ops: Ops, said: Answers) -> Lowered:
        """The durations of this replica."""
        if self.replica is None or not said.spreads:
            return lowered
        fixed = lowered.fixed.copy()
        for rows, spread in said.spreads:
            fixed[rows] = durations(
                fixed[rows],
                spread,
                name=lowered.name,
                row=rows,
                rank=ops.rank[rows],
                iteration=ops.iteration[rows],
                seed=self.simulation.seed,
                replica=self.replica,
            )
        return replace(lowered, fixed=fixed)

    def _asks(self, graph: Graph, said: Answers, k: int) -> Online:
        """The question to online backend ``k``, from integers to SI units and back."""
        backend, ops, members = said.drivers[k], graph.ops, endpoints(graph)

        def timing(rows: Sequence[int], now: int) -> list[Answer]:
            at = np.asarray(rows)
            table = ops.take(at).asked(self.system, said.component[at], members.take(at))
            found = backend.timing(table, float(seconds(now, self.tick)))
            return [Answer(*a) for a in answers(found, self.system, self.scale, self.tick)]

        return timing

    def result(self) -> Result:
        """What happened."""
        return Result(
            system=self.system,
            runs=tuple(self.runs),
            columns=self.machine.columns(),
            parts=self.parts,
            tick=self.tick,
            engine=self.simulation.engine,
            seed=self.simulation.seed,
            replica=self.replica,
            metrics=tuple(self.metrics),
            rate_log=tuple(self.rate_log),
        )


def _machine(engine: str, parts: Parts, per_second: int) -> Machine:
    env = simpy.Environment(initial_time=0)
    if engine == "reference":
        from .reference import ReferenceMachine

        return ReferenceMachine(parts, env, per_second)
    from .core.machine import CoreMachine

    return CoreMachine(parts, env, per_second)
