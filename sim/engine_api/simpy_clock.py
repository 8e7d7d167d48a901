"""Loop that drives an engine and SimPy by one clock; the engine's turns are SimPy events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import simpy
from simpy.events import Condition

from ..errors import SimulationError
from . import interface as engine_api

LOOK = 2**16  # events between two checks for open ops
NOTHING_RAN = -1  # instead of a number of events


class Turn(simpy.Event):
    """Turn of the engine, as a SimPy event."""

    def __init__(self, env: simpy.Environment, take: Callable[[simpy.Event], None]):
        self.env, self._ok, self._value = env, True, None
        self.callbacks = [take]

    def cancel(self) -> None:
        """Cancel the turn, because another one was scheduled in its place."""
        self.callbacks = []


class DrivenEngine(Protocol):
    """Interface of an engine that :func:`step_simpy` needs."""

    env: simpy.Environment
    watchers: set[simpy.Process]
    drives: bool

    def due(self) -> tuple[int, int] | None:
        """Tick and priority of the next planned turn; None if none is planned."""

    def run_policies(self) -> tuple[int, int, int] | None:
        """Run what concerns only compiled processes; see ``SimpyAdapter.run_policies``."""

    @property
    def submissions(self) -> int:
        """Number of graphs submitted so far, freed ones included."""

    @property
    def turns(self) -> int:
        """Number of turns so far."""

    def has_open_ops(self) -> bool:
        """True if some op has neither ended nor been cancelled."""

    def open_ops(self) -> tuple[int, ...]:
        """Ops that have neither ended nor been cancelled."""


def fire_in_this_turn(env: simpy.Environment, event: simpy.Event, value: object) -> None:
    """Fire an event as part of the current turn, before all other SimPy events of the tick."""
    event._ok, event._value = True, value
    env.schedule(event, engine_api.FIRST)  # type: ignore[arg-type]


def step_simpy(engine: DrivenEngine, until: int | None = None) -> None:
    """Process SimPy events until no event can change the run, or up to a tick.

    Raises
    ------
    ValueError
        The tick has already passed.
    SimulationError
        Zero-time loop: too many events at one tick. Time overflow: the only event left is a
        process beyond the range of ticks. Endless process: it continues long after the last op.
    """
    steps = _TickSteps(engine)
    if until is None:
        while engine.due() is not None or is_acting_process_due(engine):
            if not (engine.drives and steps.run_policies()):
                steps.step()
            if steps.stuck:
                return
        return
    if until < engine.env.now:
        raise ValueError(
            f"until is tick {until}, but the run is already at {engine.env.now}; give a later time"
        )
    reached = simpy.Event(engine.env)
    reached._ok, reached._value = True, None
    engine.env.schedule(reached, engine_api.FIRST - 1, until - engine.env.now)  # type: ignore[arg-type]
    while not reached.processed:
        if not (engine.drives and steps.run_policies()):
            steps.step()
    while engine.due() == (until, engine_api.FIRST):
        steps.step()


class _TickSteps:
    """Loop over SimPy events that counts the events at the current tick."""

    def __init__(self, engine: DrivenEngine):
        self.engine, self.env = engine, engine.env
        self.tick, self.count = -1.0, 0
        self.steps, self.idle = 0, 0
        self.submissions, self.turns = engine.submissions, engine.turns
        self.stuck = False
        self.rest = 0  # events until compiled processes may run without SimPy again

    def step(self) -> None:
        env = self.env
        tick = env.peek()
        if tick != self.tick:
            if tick > engine_api.MAX_TICK:
                raise self._beyond_range_error()
            self.tick, self.count = tick, 0
        elif self.count > engine_api.MAX_EVENTS:
            raise zero_time_loop_error(self.engine, f"{self.count} events", _woken_process(env))
        self.count += 1
        self.steps += 1
        if not self.steps % LOOK:
            self._check_can_end()
        env.step()

    def run_policies(self) -> bool:
        """Let the engine run compiled processes without SimPy; True if it did."""
        if self.rest:
            self.rest -= 1
            return False
        ran = self.engine.run_policies()
        if ran is None:
            return False
        events, count, self.rest = ran
        if events == NOTHING_RAN:
            return False
        self.tick, self.count, before = self.env.now, count, self.steps
        self.steps += events
        if self.steps // LOOK > before // LOOK:
            self._check_can_end()
        return True

    def _check_can_end(self) -> None:
        """Raise an error if events go on long after the last op has ended.

        If ops are open that nothing moves, the run is stuck, and its end tells why.
        """
        engine = self.engine
        is_open, submissions, turns = engine.has_open_ops(), engine.submissions, engine.turns
        moves = is_open and (engine.due() is not None or turns != self.turns)
        if moves or submissions != self.submissions:
            self.idle = 0
        else:
            self.idle += LOOK
        self.submissions, self.turns = submissions, turns
        if self.idle > engine_api.MAX_IDLE:
            if not is_open:
                raise endless_process_error(engine, self.idle)
            self.stuck = True

    def _beyond_range_error(self) -> SimulationError:
        said = "a process waits for a tick that does not fit in 63 bits; use a coarser tick"
        return SimulationError("time overflow", said, (), self.engine.open_ops())


def zero_time_loop_error(engine: DrivenEngine, what: str, who: str) -> SimulationError:
    """Error for a process that loops without simulated time passing."""
    message = f"{who}: {what} at tick {engine.env.now}; let some time pass between its actions"
    return SimulationError("zero-time loop", message, (), engine.open_ops())


def endless_process_error(engine: DrivenEngine, idle: int) -> SimulationError:
    """Error for a process that continues long after the last op."""
    who = ", ".join(sorted({_waiting_process(event) for *_, event in engine.env._queue} - {""}))
    said = (
        f"{who or 'a process'}: had {idle:,} events since the last op ended, and submitted no "
        "other; end its loop with the ops ('while sim.open():'), or declare 'touches = ()' if it "
        "only watches"
    )
    return SimulationError("endless process", said)


def is_acting_process_due(engine: DrivenEngine) -> bool:
    """True if a pending event wakes a process that may change the run, or raises its error."""
    return any(not event._ok or _may_act(event, engine.watchers) for *_, event in engine.env._queue)


def _may_act(event: simpy.Event, watchers: set[simpy.Process]) -> bool:
    if isinstance(event, Turn):
        return False
    owners = {getattr(c, "__self__", None) for c in event.callbacks or ()} - {event}
    return any(
        _may_act(o, watchers) if isinstance(o, Condition) else o not in watchers for o in owners
    )


def _woken_process(env: simpy.Environment) -> str:
    """Name of the process that the next event wakes."""
    return _waiting_process(env._queue[0][3]) or "a process"


def _waiting_process(event: simpy.Event) -> str:
    """Name of the first process that waits for an event; "" for none."""
    owners = (getattr(callback, "__self__", None) for callback in event.callbacks or ())
    return next((str(who.name) for who in owners if isinstance(who, simpy.Process)), "")
