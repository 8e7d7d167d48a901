"""Simulation: a system with backends, which runs graphs and workloads and returns results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..argument import as_finite, as_integer
from ..engine_api.interface import ComponentTable
from ..engine_api.lowering import component_table, scale_exponents_by_unit
from ..engine_api.medium_api import Medium
from ..facts.backend import Backend
from ..facts.graph import Graph
from ..facts.sampling import MAIN
from ..facts.system import System
from ..record.aggregates import KEEP
from ..record.binding import Bindings, bind, map_backends
from ..units import PICOSECOND, Bytes, Seconds, ticks, ticks_per_second
from .job import Job
from .process import Process
from .result import Result
from .row_window import RowWindow
from .session import Repeat, Session
from .single_graph import detail_by_size, run_graph, run_timed, runs_as_spmd
from .workload import GivenGraphWorkload, Workload

__all__ = ["ENGINES", "Session", "Simulation", "Work"]

ENGINES = ("core", "reference")
Work = Graph | Workload | Sequence[Job] | None


@dataclass(frozen=True)
class Simulation:
    """Machine with a backend for each component; its ``run`` simulates graphs and workloads.

    Parameters
    ----------
    system : Components of the machine and their routes.
    backends : mapping
        Backend by component name or glob; an exact name takes precedence over a glob.
    engine : str
        ``core`` (compiled) or ``reference`` (plain SimPy, which defines the meaning of both).
    tick : Seconds
        Length of a tick: 1 ps, or 1 ns for runs longer than 106 days.
    seed : int
        Seed of the random factors on durations; not used without replicas.
    memory : Bytes or None
        Memory limit for the graphs that processes submit: open ones, and with ``keep="ops"`` ended
        ones too; and for an SPMD graph that has to be expanded. None for no limit.
    media : mapping
        Medium by component name or glob, which shares the rates there. Other components use max-min
        sharing.

    Examples
    --------
    >>> from foretrace.sim.facts.backend import Backend, Timing
    >>> from foretrace.sim.facts.graph import Builder
    >>> from foretrace.sim.facts.ops import Kind
    >>> from foretrace.sim.facts.system import Component
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
    memory: Bytes | None = None
    media: Mapping[str, Medium] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.engine not in ENGINES:
            raise ValueError(f"engine is {self.engine!r}; give one of {ENGINES}")
        ticks_per_second(self.tick)  # raises an error for an invalid tick
        as_integer("seed", self.seed, ValueError, 0)
        if self.memory is not None:
            as_finite("memory", self.memory, ValueError, 0.0, " B")

    @cached_property
    def bound(self) -> Bindings:
        """Backend of each component."""
        return bind(self.system, self.backends)

    @cached_property
    def distinct_backends(self) -> tuple[Backend, ...]:
        """The distinct backends."""
        return self.bound.backends

    @cached_property
    def timing_groups(self) -> NDArray[np.int64]:
        """Group number per component: equal ops on one group take equal times; -1 if unknown."""
        from ..spmd.query import equal_timing_groups

        return equal_timing_groups(self)

    @cached_property
    def scale(self) -> dict[str, int]:
        """Scale exponent K of each unit: rates in that unit are integers in 2^-K."""
        return scale_exponents_by_unit(self.system)

    @cached_property
    def parts(self) -> ComponentTable:
        """Component table in the engine's integer units."""
        return component_table(self.system, self.scale, self.media)

    def with_other_backends(
        self, system: System, function: Callable[[Backend], Backend]
    ) -> Simulation:
        """Copy of the simulation with other backends, on a machine with the same components.

        Cached data that do not change are kept: which backend belongs to which component, and, on
        the same machine, the component table.

        Parameters
        ----------
        system : system whose components have the same names and order
        function : function from each backend to its replacement; called once per distinct backend
        """
        made = {id(b): function(b) for b in self.backends.values()}
        backends = map_backends(self.backends, lambda b: made[id(b)])
        found = replace(self, system=system, backends=backends)
        known: dict[str, object] = {"bound": self.bound.map_backends(lambda b: made[id(b)])}
        if system is self.system:
            known |= {"scale": self.scale, "parts": self.parts}
        vars(found).update(known)
        return found

    def run(
        self,
        work: Work,
        *processes: Process,
        replica: int | None = None,
        until: Seconds | None = None,
        keep: str | None = None,
    ) -> Result:
        """Run a graph, a workload or several jobs, together with processes that steer them.

        Parameters
        ----------
        work : Graph, Workload, sequence of Job, or None
            A graph or a workload becomes the job ``main``. A graph that is not placed is placed
            with rank r on the r-th GPU. None: only the processes submit work.
        processes : Process
            SimPy generators that get the running simulation; they belong to ``main``.
        replica : int or None
            Number of the random draw of durations; None for typical durations.
        until : Seconds or None
            Time at which to stop, even if ops are open.
        keep : str or None
            ``ops`` keeps one row per op, ``ranks`` the time breakdown of each rank and period,
            ``none`` less. None: ``ops`` up to 5 million ops, ``ranks`` beyond (with processes, a
            graph in memory counts as 30 more). An SPMD graph runs without expansion only if no row
            per op is kept.

        Raises
        ------
        GraphError, BackendError
            An op cannot be scheduled or timed.
        SimulationError
            Deadlock, starvation, lost ops, a zero-time loop or time overflow; or graphs of
            processes do not fit into ``memory``.
        """
        _check_keep(keep)
        replica, until = _checked_replica(replica), self._checked_until(until)
        session = Session(self, replica, keep)
        for job in _jobs_of_work(work):
            session.add_job(job)
        graph = session.only_graph() if not processes and until is None else None
        if graph is None:
            repeat = Repeat(
                lambda: self.run(work, *processes, replica=replica, until=until, keep="ops"),
                lambda window: self._run_window(work, processes, replica, window),
            )
            return session.run_jobs(processes, until, keep, repeat)
        return run_graph(session, graph, keep, lambda: self.run(work, replica=replica, keep="ops"))

    def _checked_until(self, until: Seconds | None) -> Seconds | None:
        """Time at which to stop, after validation."""
        if until is None:
            return None
        found = as_finite(
            "until", until, lambda why: ValueError(f"{why}, or None for no end"), 0.0, " s"
        )
        ticks(found, self.tick)  # raises an error for a time that does not fit
        return found

    def _run_window(
        self, work: Work, processes: Sequence[Process], replica: int | None, window: RowWindow
    ) -> Result:
        """Run up to the end of a window, and keep the rows of its ops."""
        session = Session(self, replica, "none", window)
        for job in _jobs_of_work(work):
            session.add_job(job)
        return session.run_window(processes, window)

    def replicas(
        self, work: Work, *processes: Process, count: int, keep: str | None = None
    ) -> list[Result]:
        """Results of ``count`` independent random draws of a run; draw k is ``run(replica=k)``."""
        as_integer("count", count, ValueError, 0)
        run = self.draws(work, *processes, keep=keep)
        return [run(k) for k in range(count)]

    def draws(
        self, work: Work, *processes: Process, keep: str | None = None
    ) -> Callable[[int], Result]:
        """Function from k to the result of ``run(replica=k)``; backends time the graph only once.

        With processes, a workload, or an SPMD graph that is not expanded, it simply calls ``run``.
        """
        _check_keep(keep)
        if processes or not isinstance(work, Graph) or runs_as_spmd(work, keep):
            return lambda k: self.run(work, *processes, replica=k, keep=keep)
        timed_graph = Session(self, None).time_graph(work)

        def run(replica: int) -> Result:
            session = Session(self, _checked_replica(replica))
            run_timed(session, timed_graph, session.main)
            kept = detail_by_size(keep, work)
            return session.finish(kept, lambda: self.run(work, replica=replica, keep="ops"))

        return run


def _checked_replica(replica: int | None) -> int | None:
    """Number of a replica, after validation."""
    return None if replica is None else as_integer("replica", replica, ValueError, 0)


def _check_keep(keep: str | None) -> None:
    if keep is not None and keep not in KEEP:
        raise ValueError(f"keep is {keep!r}; give one of {KEEP}")


def _jobs_of_work(work: Work) -> Sequence[Job]:
    """Jobs of a run; a graph or a workload becomes the single job ``main``."""
    if work is None:
        return ()
    if isinstance(work, Graph):
        return (Job(MAIN, GivenGraphWorkload(work)),)
    if isinstance(work, Workload):
        return (Job(MAIN, work),)
    return work
