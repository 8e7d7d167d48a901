"""Layout of what the kernel of a compiled process reads and writes: events, actions, parts.

All of it is integers in flat arrays, so that an engine can call the kernel without Python.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

# Columns of an event, and kinds of events. What TAG, A, B, C mean depends on the kind.
KIND, TAG, A, B, C, NOW = range(6)
EVENT_COLUMNS = 6
START = 0  # the process begins
TIMER = 1  # TAG as given to `after`
ENDED = 2  # TAG as given to `submit`; A: ops of it that were cancelled; B: the graph
GRANT = 3  # TAG as given to `acquire`; A: the part, B: the amount
MESSAGE = 4  # A, B, C as sent; TAG: the mailbox for an answer, in `boxes`, or -1
ARRIVAL = 5  # TAG: row of the arrivals; A, B, C: its columns
LOST = 6  # TAG as given to `watch`; A: row of the op; B: failed part or -1; C: more to come
SETTLED = 7  # TAG as given to `settle`

# Return codes
GO_ON, DONE, GROW = 0, 1, 2

# Columns of an action; its number, if any, is in `TurnArrays.numbers`
VERB = 0
ACTION_COLUMNS = 5
SUBMIT, FLOP, BYTES, KEY, AFTER, TAKE, ACQUIRE, RELEASE, SEND, SET_RATE, EMIT = range(11)
CANCEL, WATCH, SETTLE, BAD_PART, BAD_COUNTER, AT, RECORD = range(11, 18)
WAY = 18
BAD_STORE = 19  # TAG: a verb of `store_verbs.py`; A: the part, B: the key, C: the number
VERBS = 20

# Fields of the head
COUNT, MOST, PER_SECOND, GROW_TABLE, GROW_ROWS = range(5)
STORE_FUNCTION, STORE_TABLE, STORE_STATE = range(5, 8)
HEAD_FIELDS = 8
ACTED, STOPPED = 1, 2  # states: the call changed a store; a verb on a store was wrong

# Columns of a part: amounts at the end of the last turn, and what `take` would give now
TOTAL, HELD, TAKEABLE, WAITING, FAILED = range(5)
PART_COLUMNS = 5


class TurnArrays(NamedTuple):
    """Arrays through which a kernel acts and observes.

    Parameters
    ----------
    head : number of actions written, their limit, ticks in a second, the request to grow; address
        of the function of the stores, its first argument, and what this call did to a store
    actions : one row per action, and one more that is overwritten when the list is full
    numbers : number of each action, e.g. the value to emit
    parts : one row per part of the process
    counts : total of each counter
    """

    head: NDArray[np.int64]
    actions: NDArray[np.int64]
    numbers: NDArray[np.float64]
    parts: NDArray[np.int64]
    counts: NDArray[np.int64]


def new_turn(actions: int, parts: int, counts: NDArray[np.int64], per_second: int) -> TurnArrays:
    """Turn with room for some actions; nothing is written yet."""
    head = np.zeros(HEAD_FIELDS, np.int64)
    head[MOST], head[PER_SECOND] = actions, per_second
    rows = np.zeros((actions + 1, ACTION_COLUMNS), np.int64)
    return TurnArrays(
        head, rows, np.zeros(actions + 1), np.zeros((parts, PART_COLUMNS), np.int64), counts
    )
