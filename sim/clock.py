"""How an engine shares SimPy's clock: its turns are events there, among those of processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import simpy
from simpy.events import Condition

from . import machine
from .errors import SimulationError


class Turn(simpy.Event):
    """A turn of the machine."""

    def __init__(self, env: simpy.Environment, take: Callable[[simpy.Event], None]):
        self.env, self._ok, self._value = env, True, None
        self.callbacks = [take]

    def cancel(self) -> None:
        """Another one was planned: nothing happens."""
        self.callbacks = []


class Clocked(Protocol):
    """What :func:`drive` needs of an engine."""

    env: simpy.Environment
    watchers: set[simpy.Process]

    def due(self) -> tuple[int, int] | None:
        """Tick and priority of the turn that is planned."""

    def open_ops(self) -> tuple[int, ...]:
        """Ops that have neither ended nor been cancelled."""


def wake(env: simpy.Environment, event: simpy.Event, value: object) -> None:
    """Fire an event of this turn: before all other SimPy events of the tick."""
    event._ok, event._value = True, value
    env.schedule(event, machine.FIRST)  # type: ignore[arg-type]


def drive(engine: Clocked, until: int | None = None) -> None:
    """Step SimPy until nothing that may act is due, or to a tick.

    Raises
    ------
    ValueError
        The tick has passed.
    SimulationError
        A zero-time loop: too many events at one tick.  Time overflow: only a process beyond the
        range of ticks is left.
    """
    steps = _Steps(engine)
    if until is None:
        while engine.due() is not None or acting(engine):
            steps.one()
        return
    if until < engine.env.now:
        raise ValueError(f"until is tick {until}, but it is {engine.env.now} already")
    reached = simpy.Event(engine.env)
    reached._ok, reached._value = True, None
    engine.env.schedule(reached, machine.FIRST - 1, until - engine.env.now)  # type: ignore[arg-type]
    while not reached.processed:
        steps.one()
    while engine.due() == (until, machine.FIRST):
        steps.one()


class _Steps:
    """Steps SimPy and counts the events of a tick."""

    def __init__(self, engine: Clocked):
        self.engine, self.env = engine, engine.env
        self.tick, self.count = -1.0, 0

    def one(self) -> None:
        env = self.env
        tick = env.peek()
        if tick != self.tick:
            if tick > machine.MAX_TICK:
                raise self._beyond()
            self.tick, self.count = tick, 0
        elif self.count > machine.MAX_EVENTS:
            raise zero_time_loop(self.engine, f"{self.count} events", _who(env))
        self.count += 1
        env.step()

    def _beyond(self) -> SimulationError:
        said = "a process waits for a tick beyond the range; use a coarser tick"
        return SimulationError("time overflow", said, (), self.engine.open_ops())


def zero_time_loop(engine: Clocked, what: str, who: str) -> SimulationError:
    """The error of a process that goes on for ever at one tick."""
    message = f"{who}: {what} at tick {engine.env.now}; let some time pass between its actions"
    return SimulationError("zero-time loop", message, (), engine.open_ops())


def acting(engine: Clocked) -> bool:
    """Whether an event is due that wakes a process which may act, or raises its error."""
    return any(not event._ok or _may_act(event, engine.watchers) for *_, event in engine.env._queue)


def _may_act(event: simpy.Event, watchers: set[simpy.Process]) -> bool:
    if isinstance(event, Turn):
        return False
    owners = {getattr(c, "__self__", None) for c in event.callbacks or ()} - {event}
    return any(
        _may_act(o, watchers) if isinstance(o, Condition) else o not in watchers for o in owners
    )


def _who(env: simpy.Environment) -> str:
    """The process that the next event wakes."""
    for callback in env._queue[0][3].callbacks or ():
        owner = getattr(callback, "__self__", None)
        if isinstance(owner, simpy.Process):
            return str(owner.name)
    return "a process"
