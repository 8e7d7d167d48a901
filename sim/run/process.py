"""Interface of a process to a running simulation, in names and SI units.

A process is a SimPy generator that is given a :class:`Running`.  It may wait, observe and act;
what it does is applied in the machine's next turn (``docs/semantics.md``, section 5).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

import simpy

from ..engine_api.interface import Submitted
from ..errors import SimulationError
from ..facts.graph import Graph
from ..record.prepared import Prepared, Values
from ..registry import register
from ..units import Seconds, ticks
from .job import Job
from .process_actions import ProcessActions
from .run_interface import JobState, RunInterface

if TYPE_CHECKING:
    from .workload import Workload

Steps = Generator[simpy.Event, Any, Any]


@runtime_checkable
class Process(Protocol):
    """Generator function that steers a run: a policy, a fault, a controller, a workload.

    A plain generator function is one.  Where it has an attribute ``touches`` (globs of
    component names), it may alter nothing else; ``touches = ()`` is a monitor, which only
    watches and keeps nothing alive (what it starts with ``sim.env.process`` does).  Undeclared
    means everything.  Where it has a method ``check(system)``, that is called before a scenario is
    run, and may refuse the machine by a SimulationError.

    Examples
    --------
    >>> def slow_down(sim):
    ...     yield sim.wait(1e-3)
    ...     sim.set_rate("node0.nic0", 1e9)
    >>> isinstance(slow_down, Process)
    True
    """

    def __call__(self, sim: Running) -> Steps:
        """Generator of the process; it yields the events that it waits for."""


PROCESSES: dict[str, type] = {}
P = TypeVar("P", bound=type)


def process(name: str) -> Callable[[P], P]:
    """Register a class of processes under the name that scenarios use.

    Its keyword arguments are its settings, as a backend's are.

    Raises
    ------
    ValueError
        The name is taken.
    """
    return register(PROCESSES, "processes", name)


class OwnJob(JobState, Protocol):
    """Job of a process, as the process acts on it."""

    @property
    def job(self) -> Job:
        """The job, as described and in progress."""

    @property
    def owner(self) -> int:
        """Its number as an owner of amounts."""

    def start(self, processes: Sequence[Process]) -> list[simpy.Process]:
        """Start further processes of it."""

    def launch(self, job: Job, processes: Sequence[Process] = ()) -> Job:
        """Start another job on behalf of a process of this one."""

    def open(self) -> bool:
        """Whether an op that it handed in has neither ended nor been cancelled."""


class Running(ProcessActions):
    """Running simulation, as one process sees it.

    Ops are numbered over all graphs: row ``r`` of a submitted graph is ``graph.first + r``.

    Parameters
    ----------
    run : RunInterface
    job : OwnJob
        Whose process it is.
    who : str
        The process, in messages.
    touches : globs of component names, or None
        What it may alter; None for everything.

    Examples
    --------
    >>> from foretrace.sim.facts.backend import Backend, Timing
    >>> from foretrace.sim.facts.graph import Builder
    >>> from foretrace.sim.facts.ops import Kind
    >>> from foretrace.sim.run.simulation import Simulation
    >>> from foretrace.sim.facts.system import Component, System
    >>> class Constant(Backend):
    ...     def timing(self, ops, now=0.0):
    ...         return Timing.of([1e-3] * len(ops))
    >>> build = Builder("step")
    >>> _ = build.op(Kind.COMPUTE)
    >>> step = build.graph()
    >>> def training(sim):
    ...     for _ in range(3):
    ...         yield sim.submit(step).done
    ...         sim.emit("step_end", sim.now)
    >>> system = System((Component("node0.gpu0", "gpu", slots=1),), ("node0.gpu0",))
    >>> simulation = Simulation(system, {"*": Constant()}, engine="reference")
    >>> [value for _, _, value in simulation.run(None, training).metrics]
    [0.001, 0.002, 0.003]
    """

    def __init__(
        self,
        run: RunInterface,
        job: OwnJob,
        who: str = "",
        touches: Sequence[str] | None = None,
    ):
        super().__init__(run, job.owner, who, touches)
        self._job = job

    def start(self, processes: Sequence[Process]) -> list[simpy.Process]:
        """Start further processes of this job."""
        return self._job.start(processes)

    @property
    def job(self) -> Job:
        """Job whose process this is."""
        return self._job.job

    def wait(self, time: Seconds) -> simpy.Event:
        """Event that fires after a time in s."""
        if time < 0:
            raise SimulationError("action", f"{self._who}: waits {time:g} s; wait 0 s or longer")
        return self.env.timeout(ticks(time, self._run.tick))

    def open(self) -> bool:
        """Whether any op of this job has neither ended nor been cancelled.

        ``while sim.open(): ...`` is a loop that ends with the job's work.
        """
        return self._machine.any_open() if len(self._run.jobs) == 1 else self._job.open()

    def prepare(
        self, graph: Graph, gpus: Sequence[str] | None = None, rank: int | None = None
    ) -> Prepared:
        """Prepare a graph that is submitted often: its shape and places are fixed from then on.

        Parameters
        ----------
        gpus : names, or None
            The GPU of each of its ranks; None for those that it was placed on, or the first ones.
        rank : int or None
            Which rank its rank 0 is, as in :meth:`submit`.

        Examples
        --------
        >>> from foretrace.sim.facts.backend import Backend, Timing
        >>> from foretrace.sim.facts.graph import Builder
        >>> from foretrace.sim.facts.ops import Kind
        >>> from foretrace.sim.run.simulation import Simulation
        >>> from foretrace.sim.facts.system import Component, System
        >>> class PerByte(Backend):
        ...     def timing(self, ops, now=0.0):
        ...         return Timing.of(ops.bytes * 1e-9)
        >>> build = Builder("read")
        >>> read = build.op(Kind.COMPUTE, bytes=1e6)
        >>> def serving(sim):
        ...     step = sim.prepare(build.graph())
        ...     for size in (1e6, 2e6):
        ...         yield sim.submit(step, bytes={read: size}).done
        ...         sim.emit("read", sim.now)
        >>> system = System((Component("node0.gpu0", "gpu", slots=1),), ("node0.gpu0",))
        >>> simulation = Simulation(system, {"*": PerByte()}, engine="reference")
        >>> [round(value, 6) for _, _, value in simulation.run(None, serving).metrics]
        [0.001, 0.003]
        """
        return self._run.prepare(graph, self._job, gpus, rank)

    def submit(
        self,
        graph: Graph | Prepared,
        *,
        rank: int | None = None,
        key: int | None = None,
        flop: Values | None = None,
        bytes: Values | None = None,
    ) -> Submitted:
        """Submit a graph; wait for its ``done``.

        Parameters
        ----------
        graph : Graph or Prepared
        rank : int or None
            Which rank its rank 0 is, the others following.  None: a GPU is one rank, whatever
            graphs call it, numbered as they appear.  A prepared graph has said so already.
        key : int or None
            Of its random draws: equal keys draw alike.  None: how many graphs of its name came
            before, so that each draws anew.
        flop, bytes : of a prepared graph
            Other numbers, by row, or one for each row with NaN where it stays.  Backends are
            asked about numbers that they have not seen.
        """
        self._check_may_act("submit a graph")
        return self._run.submit(
            graph, self._job, self._who, rank=rank, key=key, flop=flop, bytes=bytes
        )

    def launch(
        self,
        workload: Workload,
        name: str,
        on: Mapping[str, Sequence[str]] | None = None,
        processes: Sequence[Process] = (),
    ) -> Job:
        """Start another job at this time; wait for its ``done`` or ``lost``.

        Parameters
        ----------
        name : str
            Of its results; no other job of the run has it.
        on : mapping or None
            Names of components by pool; see :class:`~.job.Job`.
        processes : sequence of Process
            That go on beside it, as its own.
        """
        self._check_may_act("launch a job")
        return self._job.launch(Job(name, workload, on), processes)

    def emit(self, metric: str, value: float, unit: str = "") -> None:
        """Record a value of a metric of this job at this time.

        Parameters
        ----------
        unit : str
            Where its workload did not declare one.
        """
        self._run.emissions.add(self._job.number, metric, self.now, float(value), unit)
