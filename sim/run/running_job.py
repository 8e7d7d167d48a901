"""State of a job in one run: its number, its ranks, its open graphs and processes.

A job is running while one of its processes has not returned or one of its graphs has not ended.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol, cast

import simpy

from ..argument import as_finite
from ..engine_api.interface import Submitted
from ..errors import SimulationError
from ..facts.graph import Graph
from ..facts.sampling import MAIN
from ..units import ticks
from .job import Job
from .losses import Lost, loss_event
from .policies.compiled_process import CompiledProcess
from .policies.policy_run import PolicyRun
from .process import Process, Running, Steps
from .ranks import Ranks
from .run_interface import RunInterface
from .workload import check_start_result

STOPPED = "its job was stopped"


class RunOfJobs(RunInterface, Protocol):
    """Interface of a run to which further jobs may be added."""

    def add_job(self, job: Job, parent: Job | None = None) -> RunningJob:
        """Add a job to the run."""


class RunningJob:
    """Job in progress: its number, its ranks, its open graphs and processes.

    Parameters
    ----------
    session : Run that the job belongs to.
    number : int
        Number of jobs added to the run before.
    job : Job
        Description of the job; the attribute :attr:`job` is the running job.
    parent : Job or None
        Job that launched it; None if it was given to the run.
    """

    def __init__(self, session: RunOfJobs, number: int, job: Job, parent: Job | None = None):
        self.session, self.number, self.parent = session, number, parent
        self.job = job.as_started(self, session.system)
        self.arrived = session.ticks(job.arrives)
        self.given: int | None = None  # number of ops of the job's own graph
        self.opening: int | None = None  # number of that graph
        self.count = 0  # ops submitted so far
        self.ranks = Ranks()
        self.times: dict[str, int] = {}  # number of submissions by graph name
        self.stopped = False
        self._graphs: dict[int, Submitted] = {}  # open graphs, by number
        self.processes: dict[simpy.Process, None] = {}  # not returned, or monitors
        self._going = 0  # processes that may act and have not returned
        self._done: simpy.Event | None = None
        self._lost: simpy.Event | None = None
        self._untold: list[Lost] = []
        self._timer: simpy.Event | None = None

    @property
    def name(self) -> str:
        """Name of the job."""
        return self.job.name

    @property
    def seed(self) -> tuple[int, int]:
        """Seed of the run, and replica number + 1 (0 for typical durations)."""
        return self.session.seeds

    @property
    def periodic(self) -> bool:
        """True if its ops belong to periods."""
        return self.job.workload.periodic

    @property
    def edit(self) -> Callable[[Graph], Graph] | None:
        """Function that changes each graph before the job submits or prepares it; None for none."""
        return self.job.workload.edit

    @property
    def placement(self) -> tuple[str, ...] | None:
        """GPUs of its ranks: the components of its first pool; None for those of the graph."""
        return next(iter(self.job.on.values()), None)

    @cached_property
    def graph_or_process(self) -> Graph | Process:
        """Graph or process that its workload returns for this run."""
        return check_start_result(self.job.workload.start(self.job), f"job {self.name}")

    def begin(self, processes: Sequence[Process] = ()) -> None:
        """Start the job at its arrival: at once, or when it has its amounts of capacities."""
        self.arrived = int(self.session.machine.env.now)
        amounts = self.holds
        if amounts:

            def hold_and_begin(sim: Running) -> Steps:
                yield from self._begin_with(amounts, processes, sim)

            self.start([hold_and_begin])
        else:
            self._begin(processes)
        until = self.job.workload.until
        if until is not None:
            until = as_finite("until of its workload", until, self._refuse, 0.0, " s")
            self._timer = self.session.machine.env.timeout(ticks(until, self.session.tick))
            cast(list[Any], self._timer.callbacks).append(lambda _: self.stop())

    def _refuse(self, why: str) -> SimulationError:
        return SimulationError("action", f"job {self.name}: {why}")

    @cached_property
    def holds(self) -> Mapping[str, int]:
        """Amounts of capacities that the job holds from its start to its end, by component."""
        return self.job.workload.holds(self.job, self.session.system)

    def _begin_with(
        self, amounts: Mapping[str, int], processes: Sequence[Process], sim: Running
    ) -> Steps:
        """Start the job once it holds all its amounts.

        All are requested at one instant, so that of two jobs the same one is ahead in every queue.
        """
        if self.job.workload.waits:
            yield sim.env.all_of([sim.acquire(c, n) for c, n in amounts.items()])
        else:
            self._take(amounts, sim)
        self._begin(processes)

    def _take(self, amounts: Mapping[str, int], sim: Running) -> None:
        """Acquire the job's amounts at once.

        Raises
        ------
        SimulationError
            An amount is not free.
        """
        for component, amount in amounts.items():
            if not sim.take(component, amount):
                part = self.session.system[component]
                raise SimulationError(
                    "capacity",
                    f"job {self.name}: needs {amount:,} of the {part.total:,} {part.unit} of "
                    f"{component}, but other jobs hold too much; let it wait, or run it elsewhere",
                )

    def _begin(self, processes: Sequence[Process]) -> None:
        """Submit the job's graph or start its process, then its further processes."""
        if isinstance(self.graph_or_process, Graph):
            self.given = len(self.graph_or_process)
            handle = self.session.submit(self.graph_or_process, self)
            self.opening = handle.index
            self.session.note_job_graph(handle)
        else:
            self.start([self.graph_or_process])
        self.start(processes)

    def launch(self, job: Job, processes: Sequence[Process] = ()) -> Job:
        """Start another job, launched by this one."""
        entered = self.session.add_job(job, self.job)
        entered.begin(processes)
        return entered.job

    def start(self, processes: Sequence[Process]) -> list[simpy.Process]:
        """Start processes of this job."""
        found = []
        for process in processes:
            made, touches = self._begin_process(process)
            if touches is not None and not len(touches):
                self.session.machine.watchers.add(made)
            else:
                self._going += 1
                cast(list[Any], made.callbacks).append(self._note_process_returned)
            self.processes[made] = None
            found.append(made)
        return found

    def _begin_process(self, process: Process) -> tuple[simpy.Process, Sequence[str] | None]:
        """Start a process; returns it and the components that it may change, None for all."""
        touches, who = getattr(process, "touches", None), self._process_label(process)
        steps = process(Running(self.session, self, who, touches))
        if not isinstance(steps, CompiledProcess):
            if not isinstance(steps, Generator):
                raise SimulationError(
                    "action",
                    f"{who}: it returned {steps!r} in place of a generator; write it with `yield`, "
                    "e.g. `yield sim.wait(1.0)`, or return a CompiledProcess",
                )
            return self.session.machine.env.process(steps), touches
        touches = touches if steps.touches is None else steps.touches
        sim = Running(self.session, self, who, touches)
        return PolicyRun(self.session, sim, steps, self.number), touches

    def _process_label(self, process: Process) -> str:
        """Name of a process for error messages."""
        own = str(getattr(process, "__name__", type(process).__name__))
        return own if self.name == MAIN else f"{self.name}: {own}"

    def next_submission(self, name: str, key: int | None = None) -> int:
        """Number of earlier submissions of a graph name in this job, or ``key`` if given.

        The call counts as a submission.
        """
        number = self.times.get(name, 0)
        self.times[name] = number + 1
        return number if key is None else key

    def note_submitted(self, graph: Submitted) -> None:
        """Record a submitted graph as open until all its ops have ended."""
        self.count += graph.count
        self._graphs[graph.index] = graph
        cast(list[Any], graph.done.callbacks).append(lambda _: self._note_graph_ended(graph.index))
        if self._lost is not None and not self._lost.triggered:
            self._listen_to_graph(graph)

    def note_over(self, ops: int) -> None:
        """Count the ops of submitted graphs that are over already."""
        self.count += ops

    @property
    def watches_losses(self) -> bool:
        """True if a process waits for losses of any of its graphs."""
        return self._lost is not None

    def open(self) -> bool:
        """True if some op of the job has neither ended nor been cancelled."""
        return any(g.count and not g.done.triggered for g in self._graphs.values())

    @property
    def done(self) -> simpy.Event:
        """Event that fires when all processes and graphs of the job have ended."""
        if self._done is None:
            self._done = simpy.Event(self.session.machine.env)
            self._finish_if_over()
        return self._done

    @property
    def lost(self) -> simpy.Event:
        """Event that fires with the ops that failures stopped and that were not reported yet."""
        if self._lost is None or self._lost.triggered:
            self._lost = simpy.Event(self.session.machine.env)
            if self._untold:
                self._fire_losses()
            else:
                for graph in self._graphs.values():
                    self._listen_to_graph(graph)
        return self._lost

    def stop(self) -> None:
        """End the job's processes and cancel its ops."""
        env, machine = self.session.machine.env, self.session.machine
        if env.active_process in self.processes:
            raise SimulationError(
                "action",
                f"job {self.name}: its own process tries to stop it; let that process return "
                f"instead",
            )
        self.stopped = True
        for process in tuple(self.processes):
            if process.is_alive:
                _end_process(process)
        for graph in self._graphs.values():
            machine.cancel(range(graph.first, graph.first + graph.count))
        self._give_back()

    def _listen_to_graph(self, graph: Submitted) -> None:
        event = loss_event(self.session, graph)
        if event.callbacks is not None and self._was_lost not in event.callbacks:
            event.callbacks.append(self._was_lost)

    def _was_lost(self, event: simpy.Event) -> None:
        self._untold += event.value  # type: ignore[arg-type]
        self._fire_losses()

    def _fire_losses(self) -> None:
        """Report all ops that failures stopped to the processes that wait for :attr:`lost`."""
        if self._lost is not None and not self._lost.triggered:
            self._lost.succeed(self._untold)
            cast(list[Any], self._lost.callbacks).append(self._mark_reported)

    def _mark_reported(self, _: simpy.Event) -> None:
        self._untold = []

    def _note_graph_ended(self, index: int) -> None:
        del self._graphs[index]
        self._finish_if_over()

    def _note_process_returned(self, process: simpy.Event) -> None:
        del self.processes[cast(simpy.Process, process)]
        self._going -= 1
        self._finish_if_over()

    def _finish_if_over(self) -> None:
        """Finish the job if none of its processes and graphs is left.

        It fires ``done``, releases the job's capacities and cancels the timer that would stop it.
        """
        if self._going or self._graphs:
            return
        if self._done is not None and not self._done.triggered:
            self._done.succeed()
        if self._timer is not None:
            self._timer.callbacks = []
        self._give_back()

    @property
    def owner(self) -> int:
        """Owner number under which the job holds capacity amounts; it is negative."""
        return -1 - self.number

    def _give_back(self) -> None:
        """Release the job's amounts of capacities, and withdraw its requests."""
        if len(self.session.parts.capacity):
            self.session.machine.release_all(self.owner)


def _end_process(process: simpy.Process) -> None:
    """End a waiting process: its ``finally`` blocks run, and its waiters continue."""
    if isinstance(process, PolicyRun):
        process.close()
        return
    if process.target.callbacks is not None:
        process.target.callbacks.remove(process._resume)
    process._generator.close()
    process.succeed()
