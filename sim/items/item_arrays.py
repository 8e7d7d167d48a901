"""Arrays of a stream of items: what its compiled loop reads and writes.

A row of ``items`` is one item that is inside; rows of items that left are reused. Events are a heap
of ends of service; the next arrival is stored next to it. Columns that a policy sees are in
``facts/items/layout.py``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..facts.items.layout import NONE, SEEN_COLUMNS, ItemTurn

# Further columns of an item: next in a list; tick since which it waits or is served; pool in which
# it is (NONE: outside) and for which it waits at its source; times served at this instant
NEXT, SINCE, AT, TO, VISITS = range(SEEN_COLUMNS, SEEN_COLUMNS + 5)
ITEM_COLUMNS = 12

# Further columns of a pool: bound of its line (NONE: none); range of pools that an item tries
# instead, and the last one, where it waits (NONE: it is dropped); first and last of its line, and
# of the items that wait for it at their source; servers given back, next pool with such
LENGTH, TRIED, TRIED_END, LAST, FIRST, TAIL, HELD_UP, HELD_TAIL, FREED, NEXT_FREED = range(3, 13)
IS_DELAY, FOUND_FULL = 13, 14
POOL_COLUMNS = 15

# Fields of the clock
EVENTS, SEQUENCE, FREE, USED, INSIDE, LATENCIES, IS_EXACT, FIRST_FREED, LAST_FREED, MET = range(10)
NEXT_TICK, NEXT_SEQUENCE, MADE, DRAWS = range(10, 14)
CLOCK_FIELDS = 14

# Columns of an event, of a sum by class and pool, and of the totals of a class; sums of ticks have
# two words, the higher one in units of 2^62
TICK, ORDER, ROW = range(3)
SERVED, WAIT, WAIT_HIGH, WORK, WORK_HIGH, DROPS = range(6)
CAME, LEFT, LOST, LATENCY, LATENCY_HIGH, SHORTEST, LONGEST = range(7)
WORD = 2**62


class ItemArrays(NamedTuple):
    """Complete state of a stream, except that of its policy.

    Parameters
    ----------
    turn : what the policy sees
    clock : counters and heads of lists
    items : one row per item inside
    events : heap of ends of service
    sums : (classes x (pools + 1)) items served, ticks waited and served, drops; last: outside
    totals : by class
    latencies : class and latency of each item that left, while they fit
    histogram : by class, number of latencies in each bucket, afterwards
    wanted : what processes wait for: quantity, its number, and its least value
    tried : pools that an item tries when a line is full
    source : kind of arrivals, their count and last tick
    means : mean gap, on and off period in ticks, and what is left of this on period
    at, columns : table of arrivals
    """

    turn: ItemTurn
    clock: NDArray[np.int64]
    items: NDArray[np.int64]
    events: NDArray[np.int64]
    sums: NDArray[np.int64]
    totals: NDArray[np.int64]
    latencies: NDArray[np.int64]
    histogram: NDArray[np.int64]
    wanted: NDArray[np.int64]
    tried: NDArray[np.int64]
    source: NDArray[np.int64]
    means: NDArray[np.float64]
    at: NDArray[np.int64]
    columns: NDArray[np.int64]


SHARED = frozenset(("at", "columns", "tried", "latencies"))  # never change, or only grow


def new_clock() -> NDArray[np.int64]:
    """Clock of a stream that has not begun."""
    clock = np.zeros(CLOCK_FIELDS, np.int64)
    clock[[FREE, FIRST_FREED, LAST_FREED, MET, NEXT_TICK]] = NONE
    clock[IS_EXACT] = 1
    return clock
