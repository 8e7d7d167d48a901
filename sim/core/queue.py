"""The event queue: a radix heap of ticks whose buckets are lists through the cells.

Ticks only grow, so a tick goes to the bucket of the highest bit in which it differs from a base
that is never behind the earliest.  When the lowest bucket that is not empty has to be opened,
its earliest tick becomes the base and its cells move to lower buckets: each moves at most 63
times, mostly three to five, and memory is the link in the cell.
"""

from __future__ import annotations

import numpy as np

from .cells import ARRIVED, BASE, BUCKETS, COMING, NONE, SOONEST, Array, Rows
from .jit import Int, lean
from .lists import unlink


@lean
def bucket(tick: Int, base: Int) -> Int:
    """Number of the highest bit that differs, from 1; 0 for none.

    >>> x = [np.int64(i) for i in (7, 8, 12, 13, 2**62)]
    >>> int(bucket(x[2], x[2])), int(bucket(x[3], x[2])), int(bucket(x[1], x[0]))
    (0, 1, 4)
    >>> int(bucket(x[4] - 1, x[4]))
    63
    """
    x = tick ^ base
    if x == 0:
        return np.int64(0)
    x &= ~(x >> 1)  # the next bit cleared, so that the float is not rounded up
    return (np.float64(x).view(np.int64) >> 52) - 1022  # its exponent


@lean
def tick_of(rows: Rows, times: Array, c: Int) -> Int:
    """When a cell in the queue is due: the end of a fixed time, or a release."""
    if rows[c]["at"] == COMING:
        return -1 - times[c, ARRIVED]
    return rows[c]["left"]


@lean
def push(rows: Rows, world: Array, c: Int, tick: Int) -> None:
    """Let something happen to a cell at a tick, not before the last that was taken."""
    b = BUCKETS + bucket(tick, world[BASE])
    rows[c]["next"] = world[b]
    world[b] = c
    if tick < world[SOONEST]:  # NONE is below all ticks
        world[SOONEST] = tick


@lean
def soonest(rows: Rows, times: Array, world: Array) -> Int:
    """The earliest tick, NONE when nothing is due."""
    if world[SOONEST] != NONE:
        return world[SOONEST]
    for b in range(BUCKETS, BUCKETS + 64):
        c = world[b]
        if c != NONE:
            tick = tick_of(rows, times, c)
            while c != NONE:
                tick = min(tick, tick_of(rows, times, c))
                c = rows[c]["next"]
            world[SOONEST] = tick
            return tick
    return NONE


@lean
def take(rows: Rows, times: Array, world: Array, tick: Int) -> Int:
    """The list of all cells that are due at the earliest tick; they leave the queue."""
    b = BUCKETS + bucket(tick, world[BASE])
    if b > BUCKETS:
        world[BASE] = tick
        c = world[b]
        world[b] = NONE
        while c != NONE:
            following = rows[c]["next"]
            to = BUCKETS + bucket(tick_of(rows, times, c), tick)
            rows[c]["next"] = world[to]
            world[to] = c
            c = following
    c = world[BUCKETS]
    world[BUCKETS] = NONE
    world[SOONEST] = NONE
    return c


@lean
def forget(rows: Rows, times: Array, world: Array, c: Int) -> None:
    """Take one cell out."""
    unlink(rows, world, BUCKETS + bucket(tick_of(rows, times, c), world[BASE]), c)
    world[SOONEST] = NONE
