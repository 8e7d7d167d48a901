"""Bounded slot queues: who finds one full waits outside, goes elsewhere, or is dropped.

A component with a bounded queue has one row in a table of its own in ``world``; all other
components have none, and their arrivals cost one comparison more.
"""

from __future__ import annotations

from ..kernel.jit import Int, jit_without_refcounts
from ..media.max_min.table_layout import State
from .memory import state_layout as lay
from .memory.linked_lists import append, append_doubly_linked
from .memory.state_layout import NONE, Array, Rows
from .op_start import mark_place_held


@jit_without_refcounts
def has_slot(world: Array, part: Int) -> bool:
    """True if a component has a free slot and has not failed."""
    return bool(world[part + lay.TAKEN] < world[part + lay.SLOTS] and not world[part + lay.FAILED])


@jit_without_refcounts
def has_room(world: Array, part: Int) -> bool:
    """True if one more op may join the queue; slots that are free now count as room."""
    queue = world[part + lay.QUEUE]
    if queue == NONE:
        return True
    free: Int = 0
    if not world[part + lay.FAILED]:
        free = world[part + lay.SLOTS] - world[part + lay.TAKEN]
    return bool(world[queue + lay.QUEUING] < world[queue + lay.LENGTH] + free)


@jit_without_refcounts
def join_bounded_queue(rows: Rows, times: Array, world: Array, s: State, c: Int, part: Int) -> None:
    """Let a participant join the bounded queue of a component, or do what its rule says.

    An op that has started before is never turned away.
    """
    op = rows[c]["link"] if rows[c]["flags"] & lay.FURTHER else c
    if times[op, lay.START] == NONE and not has_room(world, part):
        part = find_room(world, part)
        if part == NONE:
            rows[c]["at"] = lay.WAITING
            append(rows, world, lay.TURNED_AWAY, c)
            return
        slot = (part - world[lay.PARTS]) // lay.PART
        if slot != rows[c]["slot"]:
            send_elsewhere(rows, world, c, slot)
    if world[part + lay.HEAD] == NONE and has_slot(world, part):
        world[part + lay.TAKEN] += 1
        mark_place_held(rows, times, world, s, c)
        return
    rows[c]["at"] = lay.QUEUED
    append_doubly_linked(rows, world, part + lay.HEAD, c)
    if world[part + lay.QUEUE] != NONE:
        world[world[part + lay.QUEUE] + lay.QUEUING] += 1


@jit_without_refcounts
def find_room(world: Array, part: Int) -> Int:
    """Component at which an op queues that found the queue of its own full; NONE to drop it."""
    queue = world[part + lay.QUEUE]
    world[queue + lay.FOUND_FULL] += 1
    for k in range(world[queue + lay.TRIED], world[queue + lay.TRIED_END]):
        other = world[lay.PARTS] + world[k] * lay.PART
        if has_room(world, other):
            return other
    last = world[queue + lay.LAST_TRIED]
    return NONE if last == NONE else world[lay.PARTS] + last * lay.PART


@jit_without_refcounts
def send_elsewhere(rows: Rows, world: Array, c: Int, slot: Int) -> None:
    """Give an op another slot component; its time there is asked when it starts."""
    rows[c]["slot"] = slot
    rows[c]["left"] = 0
    rows[c]["flags"] = (rows[c]["flags"] | lay.ASK | lay.SENT) & ~lay.BARRED
    if rows[c]["flags"] & lay.WIDE:
        row = world[lay.COLLECTIVES] + rows[c]["link"] * lay.COLLECTIVE
        world[row + lay.WIDE_FLOW] = NONE
    else:
        rows[c]["link"] = NONE
