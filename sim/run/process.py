"""Interface of a process to a running simulation, in names and SI units.

A process is a SimPy generator that is given a :class:`Running`.  It may wait, observe and act;
what it does is applied in the machine's next turn (``docs/semantics.md``, section 5).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from fnmatch import fnmatchcase
from operator import index
from typing import (
    TYPE_CHECKING,
    Any,
    NamedTuple,
    Protocol,
    SupportsIndex,
    TypeVar,
    cast,
    runtime_checkable,
)

import numpy as np
import simpy

from ..engine_api.capacity_ledger import Grant
from ..engine_api.interface import Engine, State, Submitted
from ..engine_api.lowering import rate_units, weight_units, why_weight_refused
from ..errors import SimulationError
from ..facts.system import System
from ..record.prepared import Prepared, Values
from ..registry import register
from ..units import Seconds, seconds, ticks, ticks_per_second
from .job import Job

if TYPE_CHECKING:
    from ..facts.graph import Graph
    from ..record.emitted import Emissions
    from .allocator import Allocator
    from .relocation import Relocations
    from .running_job import RunningJob
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


class Lost(NamedTuple):
    """One op that a failure stopped.

    Parameters
    ----------
    op : id, as ``graph.first`` + row
    fixed : s left
    work : left, in the unit of what it uses; NaN where it uses nothing
    component : name of what failed
    """

    op: int
    fixed: Seconds
    work: float
    component: str


class RunInterface(Protocol):
    """Interface of a run that :class:`Running` needs."""

    system: System
    tick: Seconds
    emissions: Emissions
    allocators: list[Allocator]
    jobs: list[RunningJob]
    rate_log: list[tuple[int, int, int]]
    relocations: Relocations

    @property
    def machine(self) -> Engine:
        """Engine of the run."""

    @property
    def scale(self) -> Mapping[str, int]:
        """Scale K of each unit: rates of that unit are in 2^-K."""

    def prepare(
        self,
        graph: Graph,
        job: RunningJob | None = None,
        gpus: Sequence[str] | None = None,
        rank: int | None = None,
    ) -> Prepared:
        """Place, time and check a graph that is submitted often."""

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
        """Place, time and hand in a graph of a process."""

    def launch(self, job: Job, parent: Job, processes: Sequence[Process] = ()) -> Job:
        """Start another job."""


def event_of_losses(stage: RunInterface, graph: Submitted) -> simpy.Event:
    """Event that fires with a list of :class:`Lost`, in names and SI units."""
    event = stage.machine.lost(graph)

    def translate(event: simpy.Event) -> None:
        """Replace engine losses by named ones, once."""
        losses: list[Any] = event.value  # type: ignore[assignment]
        losses[:] = [x if isinstance(x, Lost) else _loss_of(stage, *x) for x in losses]

    if event.callbacks is not None:
        event.callbacks.insert(0, translate)  # before whoever waits reads the value
    return event


def _loss_of(stage: RunInterface, op: int, fixed: int, work: int, component: int) -> Lost:
    tick, parts = stage.tick, stage.system.components
    units = [parts[c].unit for c in stage.machine.usage(op)]
    left = float("nan") if work else 0.0
    if units:
        left = work / (ticks_per_second(tick) << stage.scale[units[0]])
    return Lost(op, float(seconds(fixed, tick)), left, parts[component].name)


class Running:
    """Running simulation, as one process sees it.

    Ops are numbered over all graphs: row ``r`` of a submitted graph is ``graph.first + r``.

    Parameters
    ----------
    stage : RunInterface
    job : RunningJob
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
    >>> from foretrace.sim.facts.system import Component
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
        stage: RunInterface,
        job: RunningJob,
        who: str = "",
        touches: Sequence[str] | None = None,
    ):
        self._stage, self._machine, self._system = stage, stage.machine, stage.system
        self._job, self._who, self._touches = job, who, touches
        self._per_second = ticks_per_second(stage.tick)

    def start(self, processes: Sequence[Process]) -> list[simpy.Process]:
        """Start further processes of this job."""
        return self._job.start(processes)

    @property
    def job(self) -> Job:
        """Job whose process this is."""
        return self._job.job

    # Waiting

    @property
    def env(self) -> simpy.Environment:
        """SimPy environment of the run; its time is in ticks."""
        return self._machine.env

    @property
    def now(self) -> Seconds:
        """Simulated time."""
        return float(self.env.now) / self._per_second  # as `units.seconds`, of one number

    def wait(self, time: Seconds) -> simpy.Event:
        """Event that fires after a time in s."""
        if time < 0:
            raise SimulationError("action", f"{self._who}: waits {time:g} s; wait for 0 or more")
        return self.env.timeout(ticks(time, self._stage.tick))

    def ended(self, op: int) -> simpy.Event:
        """Event that fires with ``"ended"`` or ``"cancelled"`` when an op is over."""
        return self._machine.ended(op)

    def settled(self) -> simpy.Event:
        """Event that fires after the turn that applies all commands so far."""
        return self._machine.settled()

    def reaches(
        self, what: str, name: str, at_least: int | None = None, at_most: int | None = None
    ) -> simpy.Event:
        """Event that fires when a turn leaves a quantity of a component within the bound.

        Parameters
        ----------
        what : ``queue`` (who is in line), ``held`` (slots, or an amount), or ``flows`` (in flight)
        """
        return self._machine.reaches(what, self._system.number(name), at_least, at_most)

    def lost(self, graph: Submitted) -> simpy.Event:
        """Event that fires with a list of :class:`Lost` not yet reported: ops that failed."""
        return event_of_losses(self._stage, graph)

    def acquire(self, name: str, amount: int, owner: int | None = None) -> Grant:
        """Request for an amount of a capacity: an event that fires when it is granted.

        ``with sim.acquire("node0.kv", 8) as grant: yield grant`` gives it back at the end of the
        block, ``grant.release()`` at any other time.  A grant that nobody waits for any more (its
        process was interrupted, or ``grant | sim.wait(1.0)`` took too long) leaves the line.

        Parameters
        ----------
        amount : in the component's unit
        owner : whose it is, see :meth:`release_all`; unless said the job, which gives it back at
            its end
        """
        return self._machine.acquire(
            self._may_touch(name),
            _integer_amount(name, amount),
            self._job.owner if owner is None else owner,
        )

    def take(self, name: str, amount: int, owner: int | None = None) -> bool:
        """Whether an amount was free, and nobody waiting: then it is held from now on."""
        return self._machine.take(
            self._may_touch(name),
            _integer_amount(name, amount),
            self._job.owner if owner is None else owner,
        )

    # Observing: the machine as its last turn left it

    @property
    def system(self) -> System:
        """Machine of the run: its components, by name."""
        return self._system

    def queue(self, name: str) -> list[int]:
        """Ops in the queue of a component's slots or capacity, first in line first."""
        c = self._system.number(name)
        line = (
            self._machine.queue
            if self._system.components[c].capacity is None
            else self._machine.waiting
        )
        return [op for op, _ in line(c) if op >= 0]

    def capacity(self, name: str) -> int:
        """Whole amount of a capacity, in its unit."""
        return self._machine.capacity(self._store_number(name))

    def held(self, name: str) -> int:
        """Amount of a capacity that ops and processes hold."""
        return self._machine.held(self._store_number(name))

    def free(self, name: str) -> int:
        """Amount of a capacity that nobody holds."""
        return self.capacity(name) - self.held(name)

    def waiting(self, name: str) -> list[int]:
        """Amounts in the queue of a capacity, first in line first."""
        return [amount for _, amount in self._machine.waiting(self._store_number(name))]

    def _store_number(self, name: str) -> int:
        c = self._system.number(name)
        if self._system.components[c].capacity is None:
            raise SimulationError("action", f"{name}: has no capacity; give the component one")
        return c

    def utilisation(self, name: str) -> float:
        """Share in use of a component's slots, rate or capacity."""
        c = self._system.number(name)
        whole = self._system.components[c].slots
        if whole is None:  # a rate or a capacity
            whole = self._machine.capacity(c)
        return self._machine.held(c) / whole if whole else 0.0

    def rate(self, name: str) -> float:
        """Rate of a component, in its unit a second."""
        c = self._system.number(name)
        unit = self._stage.scale[self._system.components[c].unit]
        return self._machine.capacity(c) / (1 << unit)

    def failed(self, name: str) -> bool:
        """Whether a component has failed."""
        return self._machine.failed(self._system.number(name))

    def open(self) -> bool:
        """Whether any op of this job has neither ended nor been cancelled.

        ``while sim.open(): ...`` is a loop that ends with the job's work.
        """
        return self._machine.any_open() if len(self._stage.jobs) == 1 else self._job.open()

    def state(self, op: int) -> State:
        """State of one op, as the last turn left it."""
        return self._machine.state(op)

    def flows(self) -> list[int]:
        """Ops in their work phase, ascending."""
        return sorted(self._machine.rates())

    # Acting: applied in the next turn

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
        >>> from foretrace.sim.facts.system import Component
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
        return self._stage.prepare(graph, self._job, gpus, rank)

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
        return self._stage.submit(
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
        return self._stage.launch(Job(name, workload, on), self.job, processes)

    def set_rate(self, name: str, rate: float) -> None:
        """Change a rate, in the component's unit a second; flows keep their progress."""
        c = self._may_touch(name)
        part = self._system.components[c]
        if part.rate is None:
            raise SimulationError("action", f"{name}: has no rate to set; fail() it instead")
        if not 0 <= rate <= part.top:
            raise SimulationError(
                "action",
                f"{name}: rate {rate:g} {part.unit}/s; it must be within 0 and its max_rate "
                f"{part.top:g}",
            )
        units = rate_units(rate, self._stage.scale[part.unit])
        self._machine.set_rate(c, units)
        self._stage.rate_log.append((int(self.env.now), c, units))

    def fail(self, name: str) -> None:
        """Fail a component: ops that run on it, use it, or hold a slot of it stop; see ``lost``.

        Of a node (``node1``): on every component of it.
        """
        for c in self._components_named(name):
            self._machine.fail(c)

    def restore(self, name: str) -> None:
        """Restore a component, or all of a node: queues move again; stopped ops stay stopped."""
        for c in self._components_named(name):
            self._machine.restore(c)
        for allocator in self._stage.allocators:
            cast(list[Any], self.settled().callbacks).append(allocator.serve)

    def enrol(self, allocator: Allocator) -> None:
        """Register an allocator that looks again whenever components are restored."""
        self._stage.allocators.append(allocator)

    def _components_named(self, name: str) -> list[int]:
        """Components of a name: itself, or all of a node."""
        nodes = {c.node for c in self._system.components if c.node}
        is_node = name in nodes and name not in self._system.index
        names = self._system.select(node=name) if is_node else (name,)
        return [self._may_touch(n) for n in names]

    def lead_around(self, names: Sequence[str]) -> None:
        """Lead data around some components from now on, as routing does that knows them to be down.

        Open sends and collectives whose way changes go on by the new one with what is left of
        them, and new ones take it.

        Raises
        ------
        GraphError
            One that nothing leads around.
        """
        down = {self._may_touch(name) for name in names}
        self._stage.relocations.lead(self._stage.relocations.down | down)

    def lead_over(self, names: Sequence[str]) -> None:
        """Lead data over components again that :meth:`lead_around` named."""
        up = {self._may_touch(name) for name in names}
        self._stage.relocations.lead(self._stage.relocations.down - up)

    def stop(self, op: int) -> None:
        """Take an op out of its queue, places and components."""
        self._check_may_act("stop an op")
        self._machine.stop(op)

    def resume(
        self,
        op: int | Sequence[int],
        keep: bool = True,
        slots: Sequence[str] | None = None,
        usage: Mapping[str, float] | None = None,
        instead: Mapping[str, str] | None = None,
    ) -> None:
        """Let a stopped op, or several, queue again, here or elsewhere.

        Elsewhere the backend of that place is asked how long it takes, and the fabric about its
        route; with ``keep`` the share that is left of it is left there too.

        Parameters
        ----------
        keep : keep the progress; else from zero, asking an online backend again
        slots : components to queue for, one for each place; the same as before unless said
        usage : ``{component: weight}`` instead of what it uses
        instead : the GPU that stands in for another of its ranks; slots and routes follow
        """
        self._check_may_act("resume an op")
        if slots is not None and instead is not None:
            raise TypeError("resume() takes slots or instead: where an op queues, or by which GPUs")
        number = self._system.number
        to = None if slots is None else [number(name) for name in slots]
        gpus = None if instead is None else {number(a): number(b) for a, b in instead.items()}
        uses = (
            None
            if usage is None
            else {number(c): _fixed_point_weight(c, w) for c, w in usage.items()}
        )
        ops = [int(op)] if isinstance(op, SupportsIndex) else list(op)
        stays = to is None and gpus is None
        going = [] if stays else [one for one in ops if not self._is_over(one)]
        moved = self._stage.relocations.move(going, to, gpus)
        for one in ops:
            where, there = moved.get(one, (None, None))
            self._machine.resume(one, keep, where, uses, there)

    def _is_over(self, op: int) -> bool:
        return self._machine.state(op) in (State.ENDED, State.CANCELLED)

    def cancel(self, what: int | Submitted) -> None:
        """Remove an op or a whole graph, with all that depends on it."""
        self._check_may_act("cancel an op")
        if isinstance(what, SupportsIndex):
            self._machine.cancel([int(what)])
        else:
            self._machine.cancel(range(what.first, what.first + what.count))

    def release(self, name: str, amount: int, owner: int | None = None) -> None:
        """Give an amount of a capacity back; not more than its owner holds."""
        self._machine.release(
            self._may_touch(name),
            _integer_amount(name, amount),
            self._job.owner if owner is None else owner,
        )

    def release_all(self, owner: int) -> None:
        """Give back all that an owner acquired and took, and withdraw its requests."""
        self._check_may_act("release what an owner holds")
        self._machine.release_all(owner)

    def emit(self, metric: str, value: float, unit: str = "") -> None:
        """Record a value of a metric of this job at this time.

        Parameters
        ----------
        unit : str
            Where its workload did not declare one.
        """
        self._stage.emissions.add(self._job.number, metric, self.now, float(value), unit)

    def _check_may_act(self, what: str) -> None:
        """Refuse an action of a process that declared to touch nothing (``touches = ()``)."""
        if self._touches is not None and not len(self._touches):
            raise SimulationError(
                "action", f"{self._who}: wants to {what}, but its touches are (); declare them"
            )

    def _may_touch(self, name: str) -> int:
        c = self._system.number(name)
        if self._touches is not None and not any(self._glob_fits(t, name) for t in self._touches):
            raise SimulationError(
                "action", f"{self._who}: alters {name}, which its touches do not name"
            )
        return c

    def _glob_fits(self, glob: str, name: str) -> bool:
        """Whether a glob fits a component; a name of one is no glob."""
        return glob == name or (glob not in self._system.index and fnmatchcase(name, glob))


def _fixed_point_weight(name: str, weight: float) -> int:
    """Weight of a use in 2^-40."""
    units = int(weight_units(np.array(weight)))
    if not units:
        raise SimulationError("action", why_weight_refused(name, weight))
    return units


def _integer_amount(name: str, amount: int) -> int:
    """Amount as an integer.

    Raises
    ------
    SimulationError
        It is none.
    """
    try:
        return index(amount)
    except TypeError:
        raise SimulationError(
            "action", f"{name}: amount {amount!r}; amounts of a capacity are whole numbers"
        ) from None
