"""Slot queues: participants of ops arrive, and slots are granted first come, first served."""

from __future__ import annotations

from ..kernel.jit import Int, jit_without_refcounts
from ..media.max_min.table_layout import State
from .bounded_queues import has_slot, join_bounded_queue
from .memory import state_layout as lay
from .memory.linked_lists import append, append_doubly_linked, sort_list, unlink
from .memory.radix_heap import schedule_cell
from .memory.state_layout import NONE, Array, Rows
from .op_start import mark_place_held


@jit_without_refcounts
def arrive_at_release(rows: Rows, times: Array, world: Array, c: Int) -> None:
    """Let a participant without unmet dependencies arrive now, or at its release time."""
    op = rows[c]["link"] if rows[c]["flags"] & lay.FURTHER else c
    if (
        rows[op]["state"] != lay.PENDING
        or rows[c]["at"] != lay.WAITING
        or rows[op]["flags"] & lay.NEVER
    ):
        return
    rows[c]["at"] = lay.COMING
    release = -1 - times[c, lay.ARRIVED]
    if release > world[lay.NOW]:
        schedule_cell(rows, world, c, release)
    else:
        add_to_arrivals(rows, world, c)


@jit_without_refcounts
def arrive_range_at_release(rows: Rows, times: Array, world: Array, first: Int, last: Int) -> None:
    """Apply `arrive_at_release` to all cells of a range that have no unmet dependencies."""
    for c in range(first, last):
        if rows[c]["unmet"] == 0:
            arrive_at_release(rows, times, world, c)


@jit_without_refcounts
def add_to_arrivals(rows: Rows, world: Array, c: Int) -> None:
    """Add a participant to the list of those that arrive in this round."""
    append(rows, world, lay.ARRIVING, c)
    if rows[c]["slot"] >= 0:
        world[lay.JOINING] += 1
    if rows[c]["flags"] & lay.HOLDS:
        world[lay.CLAIMING] += 1


@jit_without_refcounts
def queue_or_take_slots(rows: Rows, times: Array, world: Array, s: State) -> None:
    """Give each arriving participant a free slot, or append it to the slot queue.

    They are served in order of op and participant.
    """
    c = world[lay.ARRIVING]
    if world[lay.JOINING] > 1:
        c = sort_list(rows, world, c)
    world[lay.ARRIVING] = NONE
    world[lay.JOINING] = 0
    while c != NONE:
        following = rows[c]["next"]
        if times[c, lay.ARRIVED] < 0:
            times[c, lay.ARRIVED] = world[lay.NOW]
        if rows[c]["slot"] < 0:
            mark_place_held(rows, times, world, s, c)
        else:
            part = world[lay.PARTS] + rows[c]["slot"] * lay.PART
            if world[part + lay.HEAD] == NONE and has_slot(world, part):
                world[part + lay.TAKEN] += 1
                mark_place_held(rows, times, world, s, c)
            elif world[part + lay.QUEUE] != NONE:
                join_bounded_queue(rows, times, world, s, c, part)
            else:
                rows[c]["at"] = lay.QUEUED
                append_doubly_linked(rows, world, part + lay.HEAD, c)
        c = following


@jit_without_refcounts
def grant_slots(rows: Rows, times: Array, world: Array, s: State) -> None:
    """Give freed slots to queued participants, first come, first served."""
    part = world[lay.MOVING]
    world[lay.MOVING] = NONE
    while part != NONE:
        while world[part + lay.HEAD] != NONE and has_slot(world, part):
            c = world[part + lay.HEAD]
            unlink(rows, world, part + lay.HEAD, c)
            if world[part + lay.QUEUE] != NONE:
                world[world[part + lay.QUEUE] + lay.QUEUING] -= 1
            world[part + lay.TAKEN] += 1
            mark_place_held(rows, times, world, s, c)
        following = world[part + lay.MOVES]
        world[part + lay.MOVES] = lay.UNMOVED
        part = following


@jit_without_refcounts
def mark_slot_queue(world: Array, part: Int) -> None:
    """Mark a non-empty slot queue: it may be able to grant a slot in this round."""
    if world[part + lay.HEAD] != NONE and world[part + lay.MOVES] == lay.UNMOVED:
        world[part + lay.MOVES] = world[lay.MOVING]
        world[lay.MOVING] = part
