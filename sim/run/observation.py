"""Observations and events of a running simulation, for processes."""

from __future__ import annotations

import simpy

from ..engine_api.interface import State, Submitted
from ..errors import SimulationError
from ..facts.system import System
from ..units import Seconds, ticks_per_second
from .losses import loss_event
from .run_interface import RunInterface


class Observation:
    """View of the machine and ops of a run, as of the end of the last turn.

    Parameters
    ----------
    run : Run in progress.
    """

    def __init__(self, run: RunInterface):
        self._run, self._machine, self._system = run, run.machine, run.system
        self._per_second = ticks_per_second(run.tick)

    @property
    def env(self) -> simpy.Environment:
        """SimPy environment of the run; its time is in ticks."""
        return self._machine.env

    @property
    def now(self) -> Seconds:
        """Current simulated time, in s."""
        return float(self.env.now) / self._per_second  # as `units.seconds`, of one number

    def ended(self, op: int) -> simpy.Event:
        """Event that fires with ``"ended"``, ``"cancelled"`` or ``"dropped"`` at an op's end."""
        return self._machine.ended(op)

    def settled(self) -> simpy.Event:
        """Event that fires after the next turn, when all commands so far are applied."""
        return self._machine.settled()

    def reaches(
        self, what: str, name: str, at_least: int | None = None, at_most: int | None = None
    ) -> simpy.Event:
        """Event that fires when, after a turn, a quantity of a component is within bounds.

        Parameters
        ----------
        what : ``queue`` (queue length), ``held`` (slots or amount in use), or ``flows`` (flows in
            flight)
        """
        return self._machine.reaches(what, self._system.number(name), at_least, at_most)

    def lost(self, graph: Submitted) -> simpy.Event:
        """Event that fires with a list of :class:`Lost`: ops stopped by a failure."""
        return loss_event(self._run, graph)

    @property
    def system(self) -> System:
        """Machine of the run."""
        return self._system

    def queue(self, name: str) -> list[int]:
        """Ops in the queue of a component's slots or capacity, the first to be served first."""
        c = self._system.number(name)
        line = (
            self._machine.queue
            if self._system.components[c].capacity is None
            else self._machine.waiting
        )
        return [op for op, _ in line(c) if op >= 0]

    def capacity(self, name: str) -> int:
        """Total amount of a component's capacity, in its unit."""
        return self._machine.capacity(self._store_number(name))

    def held(self, name: str) -> int:
        """Amount of a capacity that ops and processes hold."""
        return self._machine.held(self._store_number(name))

    def free(self, name: str) -> int:
        """Free amount of a capacity."""
        return self.capacity(name) - self.held(name)

    def waiting(self, name: str) -> list[int]:
        """Amounts requested in the queue of a capacity, the first to be served first."""
        return [amount for _, amount in self._machine.waiting(self._store_number(name))]

    def _store_number(self, name: str) -> int:
        c = self._system.number(name)
        if self._system.components[c].capacity is None:
            raise SimulationError("action", f"{name}: has no capacity; give the component one")
        return c

    def utilisation(self, name: str) -> float:
        """Fraction in use of a component's slots, rate or capacity."""
        c = self._system.number(name)
        whole = self._system.components[c].slots
        if whole is None:  # a rate or a capacity
            whole = self._machine.capacity(c)
        return self._machine.held(c) / whole if whole else 0.0

    def rate(self, name: str) -> float:
        """Current rate of a component, in its unit per second."""
        c = self._system.number(name)
        part = self._system.components[c]
        if part.rate is None:
            raise SimulationError("action", f"{name}: has no rate; name a component with a rate")
        return self._machine.capacity(c) / (1 << self._run.scale[part.unit])

    def failed(self, name: str) -> bool:
        """True if a component has failed."""
        return self._machine.failed(self._system.number(name))

    def state(self, op: int) -> State:
        """State of one op, as of the end of the last turn."""
        return self._machine.state(op)

    def flows(self) -> list[int]:
        """Ids of all ops that are in their work phase now, ascending."""
        return sorted(self._machine.rates())
