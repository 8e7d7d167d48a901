"""The event queue: a radix heap of ticks whose buckets are lists through the cells.

Ticks only grow, so a tick goes to the bucket of the highest bit in which it differs from a base
that is never behind the earliest.  When the lowest bucket that is not empty has to be opened,
its earliest tick becomes the base and its cells move to lower buckets: each moves at most 63
times, mostly three to five, and memory is the link in the cell.
"""

from __future__ import annotations

from .cells import BASE, BINS, BUCKETS, END, FURTHER, NONE, SOONEST, Array, Rows
from .jit import Int, jit


@jit
def bucket(tick: Int, base: Int) -> Int:
    """Number of the highest bit that differs, from 1; 0 for none.

    >>> bucket(12, 12), bucket(13, 12), bucket(8, 7)
    (0, 1, 4)
    """
    x = tick ^ base
    n = 0
    if x >= 1 << 32:
        x >>= 32
        n += 32
    if x >= 1 << 16:
        x >>= 16
        n += 16
    if x >= 1 << 8:
        x >>= 8
        n += 8
    if x >= 1 << 4:
        x >>= 4
        n += 4
    if x >= 1 << 2:
        x >>= 2
        n += 2
    if x >= 2:
        x >>= 1
        n += 1
    return n + x


@jit
def push(rows: Rows, times: Array, world: Array, c: Int, tick: Int) -> None:
    """Let something happen to a cell at a tick, not before the last that was taken."""
    times[END, c] = tick
    b = BUCKETS + bucket(tick, world[BASE])
    rows[c]["next"] = world[b]
    world[b] = c
    if world[SOONEST] != NONE and tick < world[SOONEST]:
        world[SOONEST] = tick


@jit
def soonest(rows: Rows, times: Array, world: Array) -> Int:
    """The earliest tick, NONE when nothing is due."""
    if world[SOONEST] != NONE:
        return world[SOONEST]
    for b in range(BUCKETS, BUCKETS + 64):
        c = world[b]
        if c != NONE:
            tick = times[END, c]
            while c != NONE:
                tick = min(tick, times[END, c])
                c = rows[c]["next"]
            world[SOONEST] = tick
            return tick
    return NONE


@jit
def take(rows: Rows, times: Array, world: Array, tick: Int) -> Int:
    """The list of all cells that are due at the earliest tick; they leave the queue."""
    b = BUCKETS + bucket(tick, world[BASE])
    if b > BUCKETS:
        world[BASE] = tick
        c = world[b]
        world[b] = NONE
        while c != NONE:
            following = rows[c]["next"]
            to = BUCKETS + bucket(times[END, c], tick)
            rows[c]["next"] = world[to]
            world[to] = c
            c = following
    c = world[BUCKETS]
    world[BUCKETS] = NONE
    world[SOONEST] = NONE
    return c


@jit
def forget(rows: Rows, times: Array, world: Array, c: Int) -> None:
    """Take one cell out."""
    unlink(rows, world, BUCKETS + bucket(times[END, c], world[BASE]), c)
    world[SOONEST] = NONE


@jit
def unlink(rows: Rows, world: Array, head: Int, c: Int) -> Int:
    """Take a cell out of the list that begins at ``world[head]``; the cell before it."""
    before = NONE
    at = world[head]
    while at != c:
        before = at
        at = rows[at]["next"]
    if before == NONE:
        world[head] = rows[c]["next"]
    else:
        rows[before]["next"] = rows[c]["next"]
    return before


@jit
def is_before(rows: Rows, a: Int, b: Int) -> bool:
    """The order of places within a round: by op, then by place."""
    op_a = rows[a]["link"] if rows[a]["flags"] & FURTHER else a
    op_b = rows[b]["link"] if rows[b]["flags"] & FURTHER else b
    return bool(op_a < op_b or (op_a == op_b and a < b))


@jit
def merge(rows: Rows, a: Int, b: Int) -> Int:
    """Two sorted lists as one."""
    if is_before(rows, b, a):
        a, b = b, a
    head = a
    while b != NONE:
        following = rows[a]["next"]
        if following == NONE or is_before(rows, b, following):
            rows[a]["next"] = b
            b = following
        a = rows[a]["next"]
    return head


@jit
def sort(rows: Rows, world: Array, head: Int) -> Int:
    """A list in the order of op and place."""
    for b in range(BINS, BINS + 32):
        world[b] = NONE
    c = head
    while c != NONE:
        run = c  # of cells that are in order already
        while rows[c]["next"] != NONE and is_before(rows, c, rows[c]["next"]):
            c = rows[c]["next"]
        following = rows[c]["next"]
        rows[c]["next"] = NONE
        b = BINS
        while world[b] != NONE:
            run = merge(rows, world[b], run)
            world[b] = NONE
            b += 1
        world[b] = run
        c = following
    done = NONE
    for b in range(BINS, BINS + 32):
        if world[b] != NONE:
            done = world[b] if done == NONE else merge(rows, world[b], done)
    return done
