"""Thresholds on quantities of components, and the events that fire when they are reached."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol
from weakref import proxy

import simpy

from .interface import ComponentTable
from .validation import check_reaches


class Measurable(Protocol):
    """Interface of an engine whose quantities thresholds can compare."""

    env: simpy.Environment
    parts: ComponentTable

    def amount(self, what: str, component: int) -> int:
        """Value of a component's quantity, as of the end of the last turn."""


class Threshold(NamedTuple):
    """Bounds on a quantity of a component, and the event that fires when it is within them."""

    what: str
    component: int
    at_least: int | None
    at_most: int | None
    event: simpy.Event

    def holds(self, value: int) -> bool:
        """True if a value is within the bounds."""
        return (self.at_least is None or value >= self.at_least) and (
            self.at_most is None or value <= self.at_most
        )


class Thresholds:
    """Pending thresholds of a run, in the order of their requests."""

    def __init__(self, engine: Measurable):
        # They belong to the engine: were each to hold the other, the state of a run would stay
        # until Python looks for such circles, which it does by their number and not their size.
        self.engine: Measurable = proxy(engine)
        self.waiting: list[Threshold] = []
        self.next_turn: list[simpy.Event] = []

    def add(
        self, what: str, component: int, at_least: int | None, at_most: int | None
    ) -> simpy.Event:
        """Event that fires when, after a turn, the quantity ``what`` is within the bounds."""
        check_reaches(self.engine.parts, what, component, at_least, at_most)
        event = self.engine.env.event()
        self.waiting.append(Threshold(what, component, at_least, at_most, event))
        return event

    def settled(self) -> simpy.Event:
        """Event that fires after the next turn."""
        self.next_turn.append(self.engine.env.event())
        return self.next_turn[-1]

    def reached(self) -> Iterator[simpy.Event]:
        """Events to fire after this turn: reached thresholds first, then those of ``settled``."""
        waiting, self.waiting = self.waiting, []
        for one in waiting:
            if one.holds(self.engine.amount(one.what, one.component)):
                yield one.event
            else:
                self.waiting.append(one)
        settled, self.next_turn = self.next_turn, []
        yield from settled
