"""From the last place that an op gets to its fixed time and its work."""

from __future__ import annotations

from ..engine_api import MAX_TICK
from ..media.max_min.medium import join
from ..media.max_min.table_layout import State
from ..media.max_min.work_clock import left
from .jit import Int, lean
from .linked_lists import append, prepend, sort
from .prefetch import prefetch
from .radix_heap import push
from .state_layout import (
    ASK,
    ASKED,
    ASKING,
    BARRED,
    BARRIER,
    BEYOND,
    COLLECTIVE,
    COLLECTIVES,
    ENDING,
    FLOWING,
    FLOWS,
    FURTHER,
    GRANTED,
    HELD,
    MISSING,
    NONE,
    NOW,
    ONLINE,
    RUNNING,
    STALE,
    START,
    STARTED,
    TIMED,
    WIDE,
    WIDE_FLOW,
    Array,
    Rows,
)


@lean
def hold(rows: Rows, times: Array, world: Array, s: State, c: Int) -> None:
    """A place is held; with its last place an op starts, or waits until all that start are known.

    Where backends may be asked the ops that start in a round are put in order first.
    """
    rows[c]["at"] = HELD
    op = rows[c]["link"] if rows[c]["flags"] & FURTHER else c
    if rows[op]["flags"] & WIDE:
        row = world[COLLECTIVES] + rows[op]["link"] * COLLECTIVE
        world[row + MISSING] -= 1
        if world[row + MISSING] > 0:
            return
    if world[ONLINE]:
        append(rows, world, GRANTED, op)
    else:
        start(rows, times, world, s, op)


@lean
def start(rows: Rows, times: Array, world: Array, s: State, c: Int) -> None:
    """An op that holds all its places starts, unless a component it uses has failed."""
    flags = rows[c]["flags"]
    if flags & BARRED:
        prepend(rows, world, BARRIER, c)
        return
    rows[c]["state"] = RUNNING
    rows[c]["flags"] = flags | STARTED
    times[c, START] = world[NOW]
    if world[ONLINE]:
        append(rows, world, ASKED, c)
        if flags & ASK:
            world[ASKING] += 1
    else:
        go_on(rows, times, world, s, c)


@lean
def start_in_order(rows: Rows, times: Array, world: Array, s: State) -> None:
    """Ops that hold all their places start, by row; those that ask nobody wait for the rest."""
    c = sort(rows, world, world[GRANTED])
    world[GRANTED] = NONE
    while c != NONE:
        following = rows[c]["next"]
        start(rows, times, world, s, c)
        c = following
    if world[ASKED] != NONE and not world[ASKING]:
        answered(rows, times, world, s)


@lean
def answered(rows: Rows, times: Array, world: Array, s: State) -> None:
    """Ops of a round in which backends could be asked go on, now that they have been."""
    c = world[ASKED]
    world[ASKED] = NONE
    while c != NONE:
        following = rows[c]["next"]
        go_on(rows, times, world, s, c)
        c = following


@lean
def go_on(rows: Rows, times: Array, world: Array, s: State, c: Int) -> None:
    """An op that started begins with its fixed time, or with its work."""
    fixed = rows[c]["left"]
    if fixed == 0:
        work(rows, world, s, c)
        return
    rows[c]["flags"] |= TIMED
    if fixed > MAX_TICK - world[NOW]:
        rows[c]["flags"] |= BEYOND
        return
    rows[c]["left"] = world[NOW] + fixed
    push(rows, world, c, world[NOW] + fixed)
    prefetch(rows, c + 1)  # what mostly comes after it
    prefetch(times, c + 1)


@lean
def work(rows: Rows, world: Array, s: State, c: Int) -> None:
    """After its fixed time an op works, or ends."""
    flow = flow_of(rows, world, c)
    if flow != NONE:
        hi, lo = left(s, flow)
        if hi != 0 or lo != 0:
            join(s, flow, world[NOW])
            rows[c]["flags"] |= FLOWING
            world[FLOWS] += 1
            world[STALE] = 1
            return
    end_soon(rows, world, c)


@lean
def flow_of(rows: Rows, world: Array, c: Int) -> Int:
    """The flow of an op, NONE for none."""
    if rows[c]["flags"] & WIDE:
        return world[world[COLLECTIVES] + rows[c]["link"] * COLLECTIVE + WIDE_FLOW]
    return rows[c]["link"]


@lean
def end_soon(rows: Rows, world: Array, c: Int) -> None:
    """An op ends in the round that comes."""
    rows[c]["next"] = world[ENDING]
    world[ENDING] = c
