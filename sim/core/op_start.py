"""Start of an op: from the last slot that it gets to its fixed time and its work."""

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
    """Mark a place as held; with its last place the op starts.

    Where backends may be asked during the run, ops that start in a round are first put in order.
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
    """Start an op that has all its slots, unless a component that it uses has failed."""
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
def start_granted_in_row_order(rows: Rows, times: Array, world: Array, s: State) -> None:
    """Start the ops that now have all their slots; backends are asked before they go on."""
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
    """Continue the ops of a round after their backends were asked."""
    c = world[ASKED]
    world[ASKED] = NONE
    while c != NONE:
        following = rows[c]["next"]
        go_on(rows, times, world, s, c)
        c = following


@lean
def go_on(rows: Rows, times: Array, world: Array, s: State, c: Int) -> None:
    """Begin the fixed time of a started op; its work if that is 0."""
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
    """Begin the work phase of an op as a flow; end it where nothing is left to do."""
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
    """Flow of an op, NONE for none."""
    if rows[c]["flags"] & WIDE:
        return world[world[COLLECTIVES] + rows[c]["link"] * COLLECTIVE + WIDE_FLOW]
    return rows[c]["link"]


@lean
def end_soon(rows: Rows, world: Array, c: Int) -> None:
    """Let an op end in the next round."""
    rows[c]["next"] = world[ENDING]
    world[ENDING] = c
