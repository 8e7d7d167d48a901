"""Interface of a process to a running simulation, with names and SI units.

A process is a SimPy generator that gets a :class:`Running`. It may wait, observe and act; its
commands are applied in the engine's next turn (``docs/semantics.md``, section 5).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

import numpy as np
import simpy
from numpy.typing import NDArray

from ..argument import as_column, as_finite, as_integer, as_names, as_text, shown
from ..engine_api.interface import Submitted
from ..engine_api.mailbox import Mailbox
from ..facts.graph import LAST_RANK, Graph
from ..facts.way import Way
from ..record.item_table import ItemTable
from ..record.prepared import Prepared, Values
from ..record.prepared_grid import At
from ..record.step_grid import StepGrid
from ..registry import register
from ..units import Seconds, ticks
from .job import Job
from .policies.compiled_process import CompiledProcess
from .process_actions import ProcessActions
from .run_interface import JobState, RunInterface

if TYPE_CHECKING:
    from .workload import Workload

Steps = Generator[simpy.Event, Any, Any]


@runtime_checkable
class Process(Protocol):
    """Generator function that steers a run: a policy, a fault, a controller, a workload.

    Any generator function with one argument is a process. An attribute ``touches`` lists globs of
    the components that it may change; by default it may change all. ``touches = ()`` declares a
    monitor: it only observes, and does not keep the run alive, but processes that it starts by
    ``sim.env.process`` do. A method ``check(system)``, if present, is called before a scenario
    runs, and may refuse the machine by a SimulationError.

    Examples
    --------
    >>> def slow_down(sim):
    ...     yield sim.wait(1e-3)
    ...     sim.set_rate("node0.nic0", 1e9)
    >>> isinstance(slow_down, Process)
    True
    """

    def __call__(self, sim: Running) -> Steps | CompiledProcess:
        """Generator of the process, which yields the events to wait for; or a compiled process."""


PROCESSES: dict[str, type] = {}
P = TypeVar("P", bound=type)


def process(name: str) -> Callable[[P], P]:
    """Class decorator that registers a process under the name that scenarios use.

    The constructor's keyword arguments are the settings, as of a backend.

    Raises
    ------
    ValueError
        The name is taken.
    """
    return register(PROCESSES, "processes", name)


class OwnJob(JobState, Protocol):
    """Interface of a process's own job."""

    @property
    def job(self) -> Job:
        """The running job."""

    @property
    def owner(self) -> int:
        """Owner number under which the job holds capacity amounts."""

    times: dict[str, int]

    def start(self, processes: Sequence[Process]) -> list[simpy.Process]:
        """Start further processes of the job."""

    def launch(self, job: Job, processes: Sequence[Process] = ()) -> Job:
        """Start another job, launched by this one."""

    def open(self) -> bool:
        """True if some op of the job has neither ended nor been cancelled."""


class Running(ProcessActions):
    """Running simulation, as seen by one process.

    Op ids count over all graphs: row ``r`` of a submitted graph has the id ``graph.first + r``.

    Parameters
    ----------
    run : Run in progress.
    job : OwnJob
        Job that the process belongs to.
    who : str
        Name of the process, for error messages.
    touches : globs of component names, or None
        Components that the process may change; None for all.

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

    @property
    def own(self) -> OwnJob:
        """The process's own job, in this run."""
        return self._job

    def start(self, processes: Sequence[Process]) -> list[simpy.Process]:
        """Start further processes of this job."""
        if not isinstance(processes, Iterable) or not all(map(callable, processes := [*processes])):
            raise self._refuse(f"processes is {shown(processes)}; give a list of processes")
        return self._job.start(processes)

    @property
    def job(self) -> Job:
        """Job that this process belongs to."""
        return self._job.job

    def wait(self, time: Seconds) -> simpy.Event:
        """Event that fires after a time in s."""
        seconds = as_finite("time to wait", time, self._refuse, 0.0, " s")
        return self.env.timeout(ticks(seconds, self._run.tick))

    def open(self) -> bool:
        """True if some op of this job has neither ended nor been cancelled.

        ``while sim.open(): ...`` is a loop that ends with the job's work.
        """
        return self._machine.has_open_ops() if len(self._run.jobs) == 1 else self._job.open()

    def prepare(
        self,
        graph: Graph | StepGrid,
        gpus: Sequence[str] | None = None,
        rank: int | None = None,
        ways: Sequence[Way] = (),
    ) -> Prepared:
        """Prepare a graph for repeated submission, with a fixed structure.

        Parameters
        ----------
        graph : Graph or StepGrid
            A grid is timed at all its points now; submissions give ``at``.
        gpus : names, or None
            GPU of each rank; None for the graph's own placement, or the first GPUs.
        rank : int or None
            Number of its rank 0 within the job, as in :meth:`submit`.
        ways : sequence of Way
            Alternative GPUs or routes; each submission may choose one by its number.

        Raises
        ------
        GraphError
            The graph cannot be placed, or a way names a component or route that does not exist.

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
        chosen = None if gpus is None else as_names("gpus", gpus, self._refuse)
        if not isinstance(ways, Iterable):
            raise self._refuse(f"ways is {shown(ways)}; give a list of Way")
        return self._run.prepare(graph, self._job, chosen, self._rank(rank, graph), tuple(ways))

    def _rank(self, rank: int | None, graph: Graph | Prepared | StepGrid) -> int | None:
        """Number of a graph's rank 0, after validation."""
        if rank is None:
            return None
        last = LAST_RANK - (graph.ranks if isinstance(graph, Graph) else 0)
        return as_integer("rank", rank, self._refuse, 0, last)

    def submit(
        self,
        graph: Graph | Prepared,
        *,
        rank: int | None = None,
        key: int | None = None,
        flop: Values | None = None,
        bytes: Values | None = None,
        way: int | None = None,
        at: At | None = None,
    ) -> Submitted:
        """Submit a graph; its event ``done`` fires when all its ops have ended.

        Parameters
        ----------
        graph : Graph or Prepared
        rank : int or None
            Number of the graph's rank 0 within the job; the other ranks follow. None: ranks are
            identified by their GPU, and numbered in order of appearance. Not for a prepared graph.
        key : int or None
            Key of its random draws; equal keys give equal draws. None: the number of earlier
            graphs of this name, so that each submission draws anew.
        flop, bytes : new values for a prepared graph
            Mapping from row to value, or one value per row with NaN for no change. Backends are
            called only for new combinations.
        way : int or None
            Number of the way that a prepared graph takes, see :meth:`prepare`. None: the GPUs and
            routes of its preparation.
        at : mapping or sequence of int, or None
            Numbers of a prepared :class:`~.step_grid.StepGrid`, one per axis. Between its points,
            op times are interpolated; outside of it, backends are asked.
        """
        self._check_may_act("submit a graph")
        if key is not None:
            key = as_integer("key", key, self._refuse)
        rank = self._rank(rank, graph)
        return self._run.submit(
            graph, self._job, self._who, rank=rank, key=key, flop=flop, bytes=bytes, way=way, at=at
        )

    def launch(
        self,
        workload: Workload,
        name: str,
        on: Mapping[str, Sequence[str]] | None = None,
        processes: Sequence[Process] = (),
    ) -> Job:
        """Start another job now; wait for its event ``done`` or ``lost``.

        Parameters
        ----------
        name : str
            Name of the job in results; it must be unique in the run.
        on : mapping or None
            Component names by pool; see :class:`~.job.Job`.
        processes : sequence of Process
            Further processes of the new job.
        """
        self._check_may_act("launch a job")
        if not isinstance(processes, Iterable) or not all(map(callable, processes := [*processes])):
            raise self._refuse(f"processes is {shown(processes)}; give a list of processes")
        return self._job.launch(Job(name, workload, on), processes)

    def emit(self, metric: str, value: float, unit: str = "") -> None:
        """Record a value of a metric of this job at the current time.

        Parameters
        ----------
        unit : str
            Unit of the metric, if its workload does not declare one.
        """
        found = self._value_of("metric", metric, value)
        self._run.emissions.add(self._job.number, metric, int(self.env.now), found, unit)

    def record(self, series: str, value: float, unit: str = "") -> None:
        """Append a value to a time series of this job, such as the length of a queue.

        A series keeps up to 1,024 points. With more values, neighbours are merged; each point then
        has their number, mean, extremes and last value. See ``result.series``.

        Parameters
        ----------
        unit : str
            Unit of the series, if its workload declares no metric of this name.

        Examples
        --------
        >>> from foretrace.sim.facts.system import System
        >>> from foretrace.sim.run.simulation import Simulation
        >>> def fills(sim):
        ...     for length in (3, 8, 5):
        ...         sim.record("queue", length)
        ...         yield sim.wait(1.0)
        >>> run = Simulation(System((), ()), {}, engine="reference").run(None, fills)
        >>> run.series["queue"].time.tolist(), run.series["queue"].final.tolist()
        ([0.0, 1.0, 2.0], [3.0, 8.0, 5.0])
        """
        found = self._value_of("series", series, value)
        self._run.series.record(self._job.number, series, int(self.env.now), found, unit)

    def _value_of(self, what: str, name: str, value: float) -> float:
        """Value of a metric or series, which must be finite."""
        if type(name) is str and name and type(value) is float and isfinite(value):
            return value
        as_text(what, name, self._refuse)
        return as_finite(f"value of the {what} {name!r}", value, self._refuse)

    def emit_many(self, metric: str, values: NDArray[np.float64], unit: str = "") -> None:
        """Record many values of a metric of this job at the current time."""
        as_text("metric", metric, self._refuse)
        what = f"value of the metric {metric!r}"
        values = np.atleast_1d(as_column(what, values, np.float64, self._refuse))
        if not len(values):  # a metric without values does not exist
            return
        if not np.all(np.isfinite(values)):
            as_finite(what, float(values[~np.isfinite(values)].flat[0]), self._refuse)
        emissions, job = self._run.emissions, self._job.number
        if unit:
            emissions.units.declare(job, metric, unit)
        stream = np.full(len(values), emissions.stream(job, metric), np.int32)
        emissions.extend(stream, np.full(len(values), int(self.env.now)), values)

    def at_end(self, call: Callable[[], None]) -> None:
        """Call a function when the run ends, before its results are collected."""
        if not callable(call):
            raise self._refuse(f"call is {shown(call)}; give a function")
        self._run.closing.append(call)

    def add_items(self, table: ItemTable) -> None:
        """Add the table of a stream of items to the results of the run."""
        if not isinstance(table, ItemTable):
            raise self._refuse(f"table is {shown(table)}; give an ItemTable")
        self._run.items.append(table)

    @property
    def stopped(self) -> bool:
        """True if the job of this process was stopped."""
        return self._job.stopped

    @property
    def tick(self) -> Seconds:
        """Length of a tick of the run."""
        return self._run.tick

    @property
    def engine(self) -> str:
        """Name of the engine of the run: ``core`` or ``reference``."""
        return self._run.engine

    def count(self, counter: str, by: int = 1) -> None:
        """Add to a counter of this job; its total is emitted as a metric when the run ends."""
        as_text("counter", counter, self._refuse)
        number = as_integer(f"what is added to the counter {counter!r}", by, self._refuse)
        self._run.counters.add(self._job.number, counter, number)

    def mailbox(self, name: str) -> Mailbox:
        """Mailbox of this job, through which its processes send each other messages.

        ``box.send(a, b, c)`` is an action; ``message = yield box.receive()`` waits for the next.

        Examples
        --------
        >>> from foretrace.sim.facts.system import System
        >>> from foretrace.sim.run.simulation import Simulation
        >>> def asks(sim):
        ...     yield sim.wait(1.0)
        ...     sim.mailbox("work").send(7)
        >>> def works(sim):
        ...     message = yield sim.mailbox("work").receive()
        ...     sim.emit("got", message.a)
        >>> Simulation(System((), ()), {}, engine="reference").run(None, asks, works).metrics
        (('got', 1.0, 7.0),)
        """
        as_text("mailbox", name, self._refuse)
        return self._run.machine.mail.box(self._job.number, name)
