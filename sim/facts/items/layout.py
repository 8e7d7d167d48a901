"""Layout of what the policy of a stream of items reads and writes.

All of it is integers in flat arrays, so the same policy runs compiled and as plain Python.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

NONE = -1

# Columns of an item that its policy sees; A to D are for the policy
CLASS, NUMBER, ARRIVED, A, B, C, D = range(7)
SEEN_COLUMNS = 7

# Kinds of calls, and what a policy returns: for STARTS the ticks of service, else a pool or a code
ARRIVES = 0  # the item arrives from outside
STARTS = 1  # a server of a pool takes it
ENDS = 2  # its service has ended
LEAVE, DROP = -1, -2

# Fields of the head of a turn
KIND, POOL, NOW, PER_SECOND, KEY, STATUS, WRONG = range(7)
HEAD_FIELDS = 7

# Columns of a pool that a policy sees
SERVERS, BUSY, WAITING = range(3)

# Status of a stream: why it stopped, or what was wrong (WRONG is the value)
GOES_ON, OVER, REACHED, NO_ROWS, NO_LATENCIES, BUDGET = range(6)
BAD_POOL, BAD_TIME, BAD_CLASS, BAD_COUNTER, LOOP, OVERFLOW, DEADLOCK = range(10, 17)
ERRORS = frozenset((NO_ROWS, BAD_POOL, BAD_TIME, BAD_CLASS, BAD_COUNTER, LOOP, OVERFLOW))

# What a process may wait for: a quantity, and the number of its counter or pool
ARRIVED_ITEMS, ENDED_ITEMS, DROPPED_ITEMS, COUNTER, LINE = range(5)

MOST_VISITS = 1000  # times that an item may be served in no time, at one instant
MAX_TICK = 2**62  # as far as a service may end


class ItemTurn(NamedTuple):
    """Arrays through which a policy acts and observes.

    Parameters
    ----------
    head : kind of the call, pool, tick, ticks in a second, key of random numbers, status
    pools : one row per pool: servers, servers in use, items in the line
    counts : total of each counter
    """

    head: NDArray[np.int64]
    pools: NDArray[np.int64]
    counts: NDArray[np.int64]


class ItemSums(NamedTuple):
    """Sums of a stream in ticks, as an engine returns them.

    Parameters
    ----------
    served, waited, worked : by class and pool
    drops : by class and pool, the last one outside of all pools
    came, left, lost : items that arrived, left and were dropped, by class
    latency, longest : sum of latencies and longest one, by class
    inside : items that are inside
    counts : totals of the counters
    latencies : latencies of each class in the order of leaving; None if they were too many
    histogram : then the number of latencies in each bucket, by class
    """

    served: list[list[int]]
    waited: list[list[int]]
    worked: list[list[int]]
    drops: list[list[int]]
    came: list[int]
    left: list[int]
    lost: list[int]
    latency: list[int]
    longest: list[int]
    inside: int
    counts: list[int]
    latencies: list[Any] | None
    histogram: list[list[int]] | None = None
