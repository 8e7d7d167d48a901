"""Queues for slots: arrival of places, first come first served granting."""

from __future__ import annotations

from ..kernel.jit import Int, jit_without_refcounts
from ..media.max_min.table_layout import State
from .memory.linked_lists import append, append_doubly_linked, sort_list, unlink
from .memory.radix_heap import schedule_cell
from .memory.state_layout import (
    ARRIVED,
    ARRIVING,
    CLAIMING,
    COMING,
    FAILED,
    FURTHER,
    HEAD,
    HOLDS,
    JOINING,
    MOVES,
    MOVING,
    NEVER,
    NONE,
    NOW,
    PART,
    PARTS,
    PENDING,
    QUEUED,
    SLOTS,
    TAKEN,
    UNMOVED,
    WAITING,
    Array,
    Rows,
)
from .op_start import mark_place_held


@jit_without_refcounts
def arrive_at_release(rows: Rows, times: Array, world: Array, c: Int) -> None:
    """Let a place whose dependencies ended arrive in this round, or at its release time."""
    op = rows[c]["link"] if rows[c]["flags"] & FURTHER else c
    if rows[op]["state"] != PENDING or rows[c]["at"] != WAITING or rows[op]["flags"] & NEVER:
        return
    rows[c]["at"] = COMING
    release = -1 - times[c, ARRIVED]
    if release > world[NOW]:
        schedule_cell(rows, world, c, release)
    else:
        add_to_arrivals(rows, world, c)


@jit_without_refcounts
def arrive_range_at_release(rows: Rows, times: Array, world: Array, first: Int, last: Int) -> None:
    """Let all cells of a range without unmet dependencies arrive, as `arrive_at_release` does."""
    for c in range(first, last):
        if rows[c]["unmet"] == 0:
            arrive_at_release(rows, times, world, c)


@jit_without_refcounts
def add_to_arrivals(rows: Rows, world: Array, c: Int) -> None:
    """Add a place to the list of those that arrive in this round."""
    append(rows, world, ARRIVING, c)
    if rows[c]["slot"] >= 0:
        world[JOINING] += 1
    if rows[c]["flags"] & HOLDS:
        world[CLAIMING] += 1


@jit_without_refcounts
def queue_or_take_slots(rows: Rows, times: Array, world: Array, s: State) -> None:
    """Make arriving places ready, by op and place; each takes a free slot or joins the queue."""
    c = world[ARRIVING]
    if world[JOINING] > 1:
        c = sort_list(rows, world, c)
    world[ARRIVING] = NONE
    world[JOINING] = 0
    while c != NONE:
        following = rows[c]["next"]
        if times[c, ARRIVED] < 0:
            times[c, ARRIVED] = world[NOW]
        if rows[c]["slot"] < 0:
            mark_place_held(rows, times, world, s, c)
        else:
            part = world[PARTS] + rows[c]["slot"] * PART
            if world[part + HEAD] == NONE and has_slot(world, part):
                world[part + TAKEN] += 1
                mark_place_held(rows, times, world, s, c)
            else:
                rows[c]["at"] = QUEUED
                append_doubly_linked(rows, world, part + HEAD, c)
        c = following


@jit_without_refcounts
def has_slot(world: Array, part: Int) -> bool:
    """Whether a component has a free slot and has not failed."""
    return bool(world[part + TAKEN] < world[part + SLOTS] and not world[part + FAILED])


@jit_without_refcounts
def grant_slots(rows: Rows, times: Array, world: Array, s: State) -> None:
    """Give freed slots to queued places, first come first served."""
    part = world[MOVING]
    world[MOVING] = NONE
    while part != NONE:
        while world[part + HEAD] != NONE and has_slot(world, part):
            c = world[part + HEAD]
            unlink(rows, world, part + HEAD, c)
            world[part + TAKEN] += 1
            mark_place_held(rows, times, world, s, c)
        following = world[part + MOVES]
        world[part + MOVES] = UNMOVED
        part = following


@jit_without_refcounts
def mark_slot_queue(world: Array, part: Int) -> None:
    """Mark the slot queue of a component for a grant attempt in this round, unless it is empty."""
    if world[part + HEAD] != NONE and world[part + MOVES] == UNMOVED:
        world[part + MOVES] = world[MOVING]
        world[MOVING] = part
