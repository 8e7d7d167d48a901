"""What a process may do to either engine, and wait for: checked and noted here, once.

How an engine applies what was noted is its own: ``reference/engine.py`` says it plainly,
``core/actions.py`` does it to the state of the kernels.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import cast

import simpy

from .deadlock import Stuck, diagnose
from .engine_api import ComponentTable, Submitted
from .errors import SimulationError
from .past import Past
from .simpy_adapter import Handed, SimpyAdapter
from .simpy_clock import drive
from .threshold import Thresholds
from .validation import check_component, check_op, check_rate, check_resume


class EngineControl(SimpyAdapter):
    """An engine that takes orders.

    Parameters
    ----------
    parts : Parts
    env : simpy.Environment or None
    per_second : int
        Ticks in a second; for messages.
    """

    def __init__(
        self, parts: ComponentTable, env: simpy.Environment | None = None, per_second: int = 10**12
    ):
        super().__init__(parts, env, per_second)
        self.thresholds = Thresholds(self)
        self.count = 0  # ops that were ever handed in
        self.held_ops = 0  # of the graphs that are held
        self.past = Past()

    # Done: noted now, applied at the start of the next turn.

    def set_rate(self, component: int, rate: int) -> None:
        """Change a rate; flows keep their progress."""
        check_rate(self.parts, component, rate)
        self._note(lambda: self._set_rate(component, rate))

    def fail(self, component: int) -> None:
        """Stop what runs on it, uses it, or holds a place on it."""
        check_component(self.parts, component)
        self._note(lambda: self._fail(component))

    def restore(self, component: int) -> None:
        """Let its queue move again; resumes nothing."""
        check_component(self.parts, component)
        self._note(lambda: self._restore(component))

    def stop(self, op: int) -> None:
        """Take an op out of its queue, place and components."""
        check_op(op, self.count)
        who = self._who()
        self._note(lambda: self._stop(op, who))

    def resume(
        self,
        op: int,
        keep: bool = True,
        slots: Sequence[int] | None = None,
        usage: dict[int, int] | None = None,
    ) -> None:
        """Let a stopped op queue again."""
        check_op(op, self.count)
        places = self._places(op)
        if places is not None:
            check_resume(self.parts, op, places, slots, usage)
        self._note(lambda: self._resume(op, keep, slots, usage))

    def cancel(self, ops: Sequence[int]) -> None:
        """Remove ops and all that depends on them."""
        for op in ops:
            check_op(op, self.count)
        self._note(lambda: self._cancel(ops))

    # Waited for.

    def lost(self, graph: Submitted) -> simpy.Event:
        """Fires with the losses (list of :class:`Loss`) nobody was told of."""
        mine = cast(Handed, graph)
        if mine.lost is None or mine.lost.triggered:
            mine.lost = self.env.event()
            if mine.untold:
                mine.lost.succeed(mine.tell())
        return mine.lost

    def settled(self) -> simpy.Event:
        """Fires after the next turn."""
        self._note(lambda: None)
        return self.thresholds.settled()

    def reaches(
        self, what: str, component: int, at_least: int | None = None, at_most: int | None = None
    ) -> simpy.Event:
        """Fires when a turn settles with ``what`` of a component within the bound."""
        event = self.thresholds.add(what, component, at_least, at_most)
        self._note(lambda: None)
        return event

    def amount(self, what: str, component: int) -> int:
        """A quantity that thresholds are about, as the last turn left it."""
        if what == "flows":
            return self.users(component)
        return len(self.queue(component)) if what == "queue" else self.held(component)

    # The run as a whole.

    def run(self, until: int | None = None) -> None:
        """Go on until nothing is open, or to a tick: its first turn included, no process.

        Raises
        ------
        SimulationError
            Nothing can happen and ops are open: lost, time overflow, starvation, deadlock.
        """
        drive(self, until)
        if until is None and self.any_open():
            raise diagnose(self._stuck())

    def _refused(self, op: int, why: str) -> SimulationError:
        message = f"op {op}: cannot be resumed: {why}"
        return SimulationError("action", message, (op,), self.open_ops())

    # What each engine does in its own way.

    @abstractmethod
    def queue(self, component: int) -> list[tuple[int, int]]:
        """(op, number of the place) that wait there, first in line first."""

    @abstractmethod
    def held(self, component: int) -> int:
        """Slots taken; of a rate component, the sum of weight x rate, rounded down."""

    @abstractmethod
    def users(self, component: int) -> int:
        """Flows in flight that use a component."""

    @abstractmethod
    def _places(self, op: int) -> int | None:
        """How many an op has; None where it was given back."""

    @abstractmethod
    def _stuck(self) -> Stuck:
        """The last state, as a diagnosis reads it."""

    @abstractmethod
    def _set_rate(self, component: int, rate: int) -> None: ...

    @abstractmethod
    def _fail(self, component: int) -> None: ...

    @abstractmethod
    def _restore(self, component: int) -> None: ...

    @abstractmethod
    def _stop(self, op: int, who: str) -> None: ...

    @abstractmethod
    def _resume(
        self, op: int, keep: bool, slots: Sequence[int] | None, usage: dict[int, int] | None
    ) -> None: ...

    @abstractmethod
    def _cancel(self, ops: Sequence[int]) -> None: ...
