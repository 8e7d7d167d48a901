"""Places on their way: who may join a line, the lines for slots, and who gets a slot."""

from __future__ import annotations

from ..media.max_min.table_layout import State
from .jit import Int, lean
from .linked_lists import append, line_up, sort, unlink
from .op_start import hold
from .radix_heap import push
from .state_layout import (
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


@lean
def await_release(rows: Rows, times: Array, world: Array, c: Int) -> None:
    """A place whose dependencies ended comes in this round, or at its release."""
    op = rows[c]["link"] if rows[c]["flags"] & FURTHER else c
    if rows[op]["state"] != PENDING or rows[c]["at"] != WAITING or rows[op]["flags"] & NEVER:
        return
    rows[c]["at"] = COMING
    release = -1 - times[c, ARRIVED]
    if release > world[NOW]:
        push(rows, world, c, release)
    else:
        come(rows, world, c)


@lean
def await_all(rows: Rows, times: Array, world: Array, first: Int, last: Int) -> None:
    """The same for all cells of a range that wait for nothing else."""
    for c in range(first, last):
        if rows[c]["unmet"] == 0:
            await_release(rows, times, world, c)


@lean
def come(rows: Rows, world: Array, c: Int) -> None:
    """A place arrives in this round."""
    append(rows, world, ARRIVING, c)
    if rows[c]["slot"] >= 0:
        world[JOINING] += 1
    if rows[c]["flags"] & HOLDS:
        world[CLAIMING] += 1


@lean
def arrive(rows: Rows, times: Array, world: Array, s: State) -> None:
    """Places of this round become ready, by op and place, and take a free slot or join the line."""
    c = world[ARRIVING]
    if world[JOINING] > 1:
        c = sort(rows, world, c)
    world[ARRIVING] = NONE
    world[JOINING] = 0
    while c != NONE:
        following = rows[c]["next"]
        if times[c, ARRIVED] < 0:
            times[c, ARRIVED] = world[NOW]
        if rows[c]["slot"] < 0:
            hold(rows, times, world, s, c)
        else:
            part = world[PARTS] + rows[c]["slot"] * PART
            if world[part + HEAD] == NONE and has_slot(world, part):
                world[part + TAKEN] += 1
                hold(rows, times, world, s, c)
            else:
                rows[c]["at"] = QUEUED
                line_up(rows, world, part + HEAD, c)
        c = following


@lean
def has_slot(world: Array, part: Int) -> bool:
    """Whether a component has a free slot to give."""
    return bool(world[part + TAKEN] < world[part + SLOTS] and not world[part + FAILED])


@lean
def grant(rows: Rows, times: Array, world: Array, s: State) -> None:
    """Slots that were given back go to those in line, first come first served."""
    part = world[MOVING]
    world[MOVING] = NONE
    while part != NONE:
        while world[part + HEAD] != NONE and has_slot(world, part):
            c = world[part + HEAD]
            unlink(rows, world, part + HEAD, c)
            world[part + TAKEN] += 1
            hold(rows, times, world, s, c)
        following = world[part + MOVES]
        world[part + MOVES] = UNMOVED
        part = following


@lean
def moves(world: Array, part: Int) -> None:
    """A line has to be looked at in this round, if there is one."""
    if world[part + HEAD] != NONE and world[part + MOVES] == UNMOVED:
        world[part + MOVES] = world[MOVING]
        world[MOVING] = part
