"""Event queue: a radix heap of ticks, with buckets linked through the cells.

Event times only grow. A tick is stored in the bucket of the highest bit in which it differs from a
base, which is never later than the earliest tick. When the lowest non-empty bucket is opened, its
earliest tick becomes the base and its cells move to lower buckets. A cell moves at most 63 times,
typically three to five. The only memory is the link in the cell.
"""

from __future__ import annotations

import numpy as np

from ...kernel.jit import Int, jit_without_refcounts
from .linked_lists import prepend, unlink
from .state_layout import ARRIVED, BASE, BUCKETS, COMING, NONE, OCCUPIED, SOONEST, Array, Rows

ONE = np.int64(1)


@jit_without_refcounts
def bucket_of_tick(tick: Int, base: Int) -> Int:
    """Number of the highest bit (from 1) in which two ticks differ; 0 if they are equal.

    >>> x = [np.int64(i) for i in (7, 8, 12, 13, 2**62)]
    >>> tuple(int(bucket_of_tick(x[a], x[b])) for a, b in ((2, 2), (3, 2), (1, 0)))
    (0, 1, 4)
    >>> int(bucket_of_tick(x[4] - 1, x[4]))
    63
    """
    x = tick ^ base
    if x == 0:
        return np.int64(0)
    x &= ~(x >> 1)  # the next bit cleared, so that the float is not rounded up
    return (np.float64(x).view(np.int64) >> 52) - 1022  # its exponent


@jit_without_refcounts
def due_tick(rows: Rows, times: Array, c: Int) -> Int:
    """Tick at which a cell in the event queue is due: the end of its fixed time, or its release."""
    if rows[c]["at"] == COMING:
        return -1 - times[c, ARRIVED]
    return rows[c]["left"]


@jit_without_refcounts
def lowest_set_bit(bits: Int) -> Int:
    """Index of the lowest bit that is set.

    >>> [int(lowest_set_bit(np.int64(x))) for x in (1, 12, 2**62, -(2**62))]
    [0, 2, 62, 62]
    """
    return (np.float64(bits & -bits).view(np.int64) >> 52 & 0x7FF) - 1023  # the exponent


@jit_without_refcounts
def put_in_bucket(rows: Rows, world: Array, c: Int, b: Int) -> None:
    """Insert a cell into a bucket."""
    prepend(rows, world, BUCKETS + b, c)
    world[OCCUPIED] |= ONE << b


@jit_without_refcounts
def schedule_cell(rows: Rows, world: Array, c: Int, tick: Int) -> None:
    """Insert a cell into the event queue at a tick, which must not be in the past."""
    put_in_bucket(rows, world, c, bucket_of_tick(tick, world[BASE]))
    if tick < world[SOONEST]:  # NONE is below all ticks
        world[SOONEST] = tick


@jit_without_refcounts
def earliest_tick(rows: Rows, times: Array, world: Array) -> Int:
    """Earliest tick in the event queue, NONE if it is empty."""
    tick = world[SOONEST]
    if tick == NONE and world[OCCUPIED] != 0:
        c = world[BUCKETS + lowest_set_bit(world[OCCUPIED])]
        tick = due_tick(rows, times, c)
        c = rows[c]["next"]
        while c != NONE:
            tick = min(tick, due_tick(rows, times, c))
            c = rows[c]["next"]
        world[SOONEST] = tick
    return tick


@jit_without_refcounts
def take_due_cells(rows: Rows, times: Array, world: Array, tick: Int) -> Int:
    """Remove all cells that are due at the earliest tick; returns them as a linked list."""
    b = lowest_set_bit(world[OCCUPIED])
    c = world[BUCKETS + b]
    world[BUCKETS + b] = NONE
    world[OCCUPIED] ^= ONE << b
    world[BASE] = tick
    world[SOONEST] = NONE
    if b == 0 or rows[c]["next"] == NONE:
        return c
    due: Int = NONE
    while c != NONE:
        following = rows[c]["next"]
        to = bucket_of_tick(due_tick(rows, times, c), tick)
        if to == 0:
            rows[c]["next"] = due
            due = c
        else:
            put_in_bucket(rows, world, c, to)
        c = following
    return due


@jit_without_refcounts
def remove_cell(rows: Rows, times: Array, world: Array, c: Int) -> None:
    """Remove one cell from the event queue, at whatever tick it is scheduled."""
    tick = due_tick(rows, times, c)
    b = bucket_of_tick(tick, world[BASE])
    unlink(rows, world, BUCKETS + b, c)
    if world[BUCKETS + b] == NONE:
        world[OCCUPIED] ^= ONE << b
    if tick == world[SOONEST]:
        world[SOONEST] = NONE
