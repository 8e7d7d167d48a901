"""Simulation: a system with backends, which runs graphs and workloads to results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..engine_api.interface import ComponentTable
from ..engine_api.lowering import component_table, scale_exponents_by_unit
from ..engine_api.medium_api import Medium
from ..facts.backend import Backend
from ..facts.graph import Graph
from ..facts.sampling import MAIN
from ..facts.system import System
from ..record.aggregates import KEEP
from ..record.binding import Bindings, bind, map_backends
from ..units import PICOSECOND, Bytes, Seconds, ticks_per_second
from .job import Job
from .process import Process
from .result import Result
from .session import Session
from .single_graph import detail_by_size, run_graph, run_timed, runs_as_spmd
from .workload import GivenGraphWorkload, Workload

__all__ = ["ENGINES", "Session", "Simulation", "Work"]

ENGINES = ("core", "reference")
Work = Graph | Workload | Sequence[Job] | None


@dataclass(frozen=True)
class Simulation:
    """Machine whose components are bound to backends.

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
    memory : Bytes or None
        What the graphs that are held may fill where processes submit: those under way, and with
        ``keep="ops"`` those that ended too; and a template that has to be written out.  None for
        no bound.
    media : mapping
        Medium by component name or glob: who shares what is in flight there.  Max-min elsewhere.

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

    @cached_property
    def bound(self) -> Bindings:
        """Backend of each component."""
        return bind(self.system, self.backends)

    @cached_property
    def distinct_backends(self) -> tuple[Backend, ...]:
        """Backends, each once."""
        return self.bound.backends

    @cached_property
    def timing_groups(self) -> NDArray[np.int64]:
        """(components,) number of each component's group of equally timed components; or -1."""
        from ..spmd.query import equal_timing_groups

        return equal_timing_groups(self)

    @cached_property
    def scale(self) -> dict[str, int]:
        """K of each unit: rates of that unit are in 2^-K."""
        return scale_exponents_by_unit(self.system)

    @cached_property
    def parts(self) -> ComponentTable:
        """The components as an engine reads them."""
        return component_table(self.system, self.scale, self.media)

    def with_other_backends(
        self, system: System, function: Callable[[Backend], Backend]
    ) -> Simulation:
        """The same simulation with other answers, on a machine of the same parts.

        What does not change with them is not looked up again: who answers for whom, and, where the
        machine is the same, its parts as an engine reads them.

        Parameters
        ----------
        system : of components of the same names, in the same order
        function : the backend in place of each, asked once for each
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
        """Run a graph, a workload or several jobs, with the processes that steer them.

        Parameters
        ----------
        work : Graph, Workload, sequence of Job, or None
            A graph, placed on this system or placed here with rank r on the r-th GPU, and a
            workload are the job ``main``; None is no work but that of the processes.
        processes : Process
            SimPy generators that are given the running simulation; they belong to ``main``.
        replica : int or None
            Which seeded draw of the durations; None for the typical ones.
        until : Seconds or None
            Stop there, whatever is open.
        keep : str or None
            ``ops`` keeps one row per op, ``ranks`` what each rank did in each period, ``none``
            less.  None: ``ops`` up to 5 million ops, ``ranks`` beyond (where processes steer, a
            graph that is held counts as 30 more).  A template runs as one only where no row an
            op is kept.

        Raises
        ------
        GraphError, BackendError
            What cannot be scheduled or timed.
        SimulationError
            Deadlock, starvation, lost ops, a zero-time loop, time overflow; processes that have
            more under way than fits into ``memory``, or kept of what ended.
        """
        _check_keep(keep)
        session = Session(self, replica, keep)
        for job in _jobs_of_work(work):
            session.add_job(job)
        graph = session.only_graph() if not processes and until is None else None
        if graph is None:
            return session.run_jobs(processes, until, keep)
        return run_graph(session, graph, keep, lambda: self.run(work, replica=replica, keep="ops"))

    def replicas(
        self, work: Work, *processes: Process, count: int, keep: str | None = None
    ) -> list[Result]:
        """Independent seeded draws of the same run; replica k alone is ``run(replica=k)``."""
        run = self.draws(work, *processes, keep=keep)
        return [run(k) for k in range(count)]

    def draws(
        self, work: Work, *processes: Process, keep: str | None = None
    ) -> Callable[[int], Result]:
        """Function that runs replica k as ``run(replica=k)`` does; backends are asked only once.

        Not so where a process or a workload says what is done, or a template runs as one: there it
        is ``run``.
        """
        _check_keep(keep)
        if processes or not isinstance(work, Graph) or runs_as_spmd(work, keep):
            return lambda k: self.run(work, *processes, replica=k, keep=keep)
        timed_graph = Session(self, None).time_graph(work)

        def run(replica: int) -> Result:
            session = Session(self, replica)
            run_timed(session, timed_graph, session.main)
            kept = detail_by_size(keep, work)
            return session.finish(kept, lambda: self.run(work, replica=replica, keep="ops"))

        return run


def _check_keep(keep: str | None) -> None:
    if keep is not None and keep not in KEEP:
        raise ValueError(f"keep is {keep!r}; give one of {KEEP}")


def _jobs_of_work(work: Work) -> Sequence[Job]:
    """Jobs of a run: a graph or a workload as the one job ``main``."""
    if work is None:
        return ()
    if isinstance(work, Graph):
        return (Job(MAIN, GivenGraphWorkload(work)),)
    if isinstance(work, Workload):
        return (Job(MAIN, work),)
    return work
