"""Binary heap of events, ordered by tick, and of one tick by the order of creation."""

from __future__ import annotations

from typing import Any

from ..kernel.jit import Int, jit_without_refcounts
from .item_arrays import EVENTS, ORDER, ROW, SEQUENCE, TICK

Array = Any


@jit_without_refcounts
def next_order(clock: Array) -> Int:
    """Number of the event that is created now."""
    clock[SEQUENCE] += 1
    return clock[SEQUENCE]


@jit_without_refcounts
def push_event(events: Array, clock: Array, tick: Int, row: Int) -> Int:
    """Add the end of an item's service."""
    order, at = next_order(clock), clock[EVENTS]
    clock[EVENTS] += 1
    while at > 0:
        above = (at - 1) >> 1
        if events[above, TICK] <= tick:  # a new event follows older ones of its tick
            break
        _move(events, above, at)
        at = above
    events[at, TICK], events[at, ORDER], events[at, ROW] = tick, order, row
    return 0


@jit_without_refcounts
def pop_event(events: Array, clock: Array) -> Int:
    """Remove the first event; returns its item."""
    found = events[0, ROW]
    clock[EVENTS] -= 1
    count = clock[EVENTS]
    tick, order, row = events[count, TICK], events[count, ORDER], events[count, ROW]
    at, below = 0, 1
    while below < count:
        if below + 1 < count and _is_before(
            events, below + 1, events[below, TICK], events[below, ORDER]
        ):
            below += 1
        if not _is_before(events, below, tick, order):
            break
        _move(events, below, at)
        at, below = below, 2 * below + 1
    events[at, TICK], events[at, ORDER], events[at, ROW] = tick, order, row
    return found


@jit_without_refcounts
def _is_before(events: Array, a: Int, tick: Int, order: Int) -> bool:
    """True if an event precedes the one with this tick and order."""
    return bool(events[a, TICK] < tick or (events[a, TICK] == tick and events[a, ORDER] < order))


@jit_without_refcounts
def _move(events: Array, a: Int, b: Int) -> Int:
    """Move an event from one place to another."""
    events[b, TICK], events[b, ORDER], events[b, ROW] = (
        events[a, TICK], events[a, ORDER], events[a, ROW],
    )  # fmt: skip
    return 0
