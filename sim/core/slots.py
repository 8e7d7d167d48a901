"""Places on their way: who may join a line, the lines for slots, and who holds all it needs."""

from __future__ import annotations

from .cells import (
    ARRIVED,
    ARRIVING,
    COLLECTIVE,
    COLLECTIVES,
    COMING,
    FAILED,
    FURTHER,
    GRANTED,
    HEAD,
    HELD,
    JOINING,
    MISSING,
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
    WIDE,
    Array,
    Rows,
)
from .jit import Int, lean
from .queue import push, sort


@lean
def append(rows: Rows, world: Array, head: Int, c: Int) -> None:
    """Put a cell at the end of the list ``world[head]`` whose last is ``world[head + 1]``."""
    rows[c]["next"] = NONE
    if world[head] == NONE:
        world[head] = c
    else:
        rows[world[head + 1]]["next"] = c
    world[head + 1] = c


@lean
def await_release(rows: Rows, times: Array, world: Array, c: Int) -> None:
    """A place whose dependencies ended comes in this round, or at its release."""
    op = rows[c]["link"] if rows[c]["flags"] & FURTHER else c
    if rows[op]["state"] != PENDING or rows[c]["at"] != WAITING or rows[op]["flags"] & NEVER:
        return
    rows[c]["at"] = COMING
    release = -1 - times[ARRIVED, c]
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


@lean
def arrive(rows: Rows, times: Array, world: Array) -> None:
    """Places of this round become ready, by op and place."""
    c = world[ARRIVING]
    if world[JOINING] > 1:
        c = sort(rows, world, c)
    world[ARRIVING] = NONE
    world[JOINING] = 0
    while c != NONE:
        following = rows[c]["next"]
        if times[ARRIVED, c] < 0:
            times[ARRIVED, c] = world[NOW]
        if rows[c]["slot"] < 0:
            hold(rows, world, c)
        else:
            rows[c]["at"] = QUEUED
            part = world[PARTS] + rows[c]["slot"] * PART
            append(rows, world, part + HEAD, c)
            moves(world, part)
        c = following


@lean
def moves(world: Array, part: Int) -> None:
    """The line for a component has to be looked at in this round."""
    if world[part + MOVES] == UNMOVED:
        world[part + MOVES] = world[MOVING]
        world[MOVING] = part


@lean
def hold(rows: Rows, world: Array, c: Int) -> None:
    """A place is held; with its last place an op may start."""
    rows[c]["at"] = HELD
    op = rows[c]["link"] if rows[c]["flags"] & FURTHER else c
    if rows[op]["flags"] & WIDE:
        row = world[COLLECTIVES] + rows[op]["link"] * COLLECTIVE
        world[row + MISSING] -= 1
        if world[row + MISSING] > 0:
            return
    append(rows, world, GRANTED, op)


@lean
def grant(rows: Rows, world: Array) -> None:
    """Free slots go to those in line, first come first served."""
    part = world[MOVING]
    world[MOVING] = NONE
    while part != NONE:
        while world[part + HEAD] != NONE and not world[part + FAILED]:
            if world[part + TAKEN] >= world[part + SLOTS]:
                break
            c = world[part + HEAD]
            world[part + HEAD] = rows[c]["next"]
            world[part + TAKEN] += 1
            hold(rows, world, c)
        following = world[part + MOVES]
        world[part + MOVES] = UNMOVED
        part = following
