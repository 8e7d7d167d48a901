"""Adapter that runs an engine's turns as events of a SimPy simulation.

Commands of processes are recorded, and applied in order at the start of the engine's next turn.
So a process always observes the state at the end of the last turn. Each engine runs a turn in
its own way: ``reference/event_loop.py`` in plain Python, ``core/simpy_loop.py`` in compiled
kernels.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import simpy

from . import interface as engine_api
from .interface import FIRST, LATER, ComponentTable, LostOp
from .simpy_clock import Turn, zero_time_loop_error


class GraphHandle:
    """Submitted graph, with the SimPy events of its end and of its losses.

    Parameters
    ----------
    env : simpy.Environment
    index : number of earlier submissions
    first : id of its row 0
    count : number of ops
    """

    def __init__(self, env: simpy.Environment, index: int, first: int, count: int):
        self.index, self.first, self.count = index, first, count
        self.done = env.event()
        self.lost: simpy.Event | None = None
        self.unreported: list[LostOp] = []

    def take_unreported(self) -> list[LostOp]:
        """Losses that were not reported yet; they count as reported from now on."""
        told, self.unreported = self.unreported, []
        return told


class SimpyAdapter(ABC):
    """Base class of an engine whose turns are SimPy events.

    Parameters
    ----------
    parts : Table of all components.
    env : SimPy environment to use; None creates one.
    per_second : int
        Ticks in a second.
    """

    def __init__(
        self, parts: ComponentTable, env: simpy.Environment | None = None, per_second: int = 10**12
    ):
        self.env = env or simpy.Environment(initial_time=0)
        self.parts, self.per_second = parts, per_second
        self.watchers: set[simpy.Process] = set()
        self.losing: set[GraphHandle] = set()  # graphs with unreported losses
        self.todo: list[Callable[[], None]] = []
        self.news: list[tuple[simpy.Event, object]] = []
        self.submissions = 0  # graphs submitted so far
        self.turns = 0  # turns so far
        self.actor = "nobody"
        self.tick, self.turn = -1, 0
        self.drives = False  # compiled processes, see `run_policies`
        self.planned: tuple[int, int] | None = None
        self.next_turn: Turn | None = None
        self._plan_turn(self._now, FIRST)

    def due(self) -> tuple[int, int] | None:
        """Tick and priority of the next planned turn; None if none is planned."""
        return self.planned

    def run_policies(self) -> tuple[int, int, int] | None:
        """Run what concerns only compiled processes, as far as the engine can without SimPy.

        Returns
        -------
        tuple or None
            Number of their events, of those at the current tick, and of SimPy's events until it is
            worth to try again. `NOTHING_RAN` instead of the first, or None, if nothing ran.
        """
        return None

    @property
    def _now(self) -> int:
        return int(self.env.now)

    def _acting_process(self) -> str:
        process = self.env.active_process
        return str(process.name) if process is not None else "the program"

    def _note_action(self, action: Callable[[], None]) -> None:
        self.todo.append(action)
        self.actor = self._acting_process()
        if self.planned is None or self.planned[0] != self._now:
            self._plan_turn(self._now, LATER)

    def _plan_turn(self, tick: int, priority: int) -> None:
        """Schedule the next turn; it replaces a turn that was scheduled before."""
        if self.next_turn is not None:
            self.next_turn.cancel()
        self.planned = tick, priority
        self.next_turn = Turn(self.env, self._begin_turn)
        self.env.schedule(self.next_turn, priority, tick - int(self.env.now))  # type: ignore[arg-type]

    def _begin_turn(self, _: simpy.Event) -> None:
        now, self.next_turn, self.planned = int(self.env.now), None, None
        self.turn = self.turn + 1 if now == self.tick else 0
        self.tick = now
        self.turns += 1
        if self.turn > engine_api.MAX_TURNS:
            raise zero_time_loop_error(self, f"{self.turn} turns", self.actor)
        self._run_turn(now)

    def _losses_by_graph(self) -> list[tuple[simpy.Event, object]]:
        """Loss events to fire, each with the losses of its graph since the last report."""
        told: list[tuple[simpy.Event, object]] = [
            (graph.lost, graph.take_unreported())
            for graph in sorted(self.losing, key=lambda graph: graph.index)
            if graph.unreported and graph.lost is not None and not graph.lost.triggered
        ]
        self.losing.clear()  # who waits later is told at once
        return told

    # Methods that each engine implements.

    @abstractmethod
    def _run_turn(self, now: int) -> None:
        """Run one turn: apply commands, run the instant, wake the processes that wait."""

    @abstractmethod
    def has_open_ops(self) -> bool:
        """True if some submitted op has neither ended nor been cancelled."""

    @abstractmethod
    def open_ops(self) -> tuple[int, ...]:
        """Ops that have neither ended nor been cancelled."""
