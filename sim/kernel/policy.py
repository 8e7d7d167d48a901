"""Rows and helper kernels by which the kernel of a compiled process acts and observes.

A kernel is a function ``step(state, event, turn)``, called once per event. ``event`` is one row of
integers, ``turn`` a few flat arrays. A helper appends one row to the list of actions; the engine
checks the rows and applies them in order. Nothing here is a Python object, so the same kernel runs
compiled, interpreted, or inside the compiled engine. ``docs/extending.md`` shows an example.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from .jit import Int, jit, jit_without_refcounts

Step = TypeVar("Step", bound=Callable[..., Any])
Real = Any  # 64-bit float in a kernel

# Columns of an event, and kinds of events. What TAG, A, B, C mean depends on the kind.
KIND, TAG, A, B, C, NOW = range(6)
EVENT_COLUMNS = 6
START = 0  # the process begins
TIMER = 1  # TAG as given to `after`
ENDED = 2  # TAG as given to `submit`; A: ops of it that were cancelled; B: the graph
GRANT = 3  # TAG as given to `acquire`; A: the part, B: the amount
MESSAGE = 4  # A, B, C as sent; TAG: the mailbox for an answer, in `boxes`, or -1
ARRIVAL = 5  # TAG: row of the arrivals; A, B, C: its columns
LOST = 6  # TAG as given to `watch`; A: row of the op, B: the part that failed or -1; C: more to come

# Return codes
GO_ON, DONE, GROW = 0, 1, 2

# Columns of an action; its number, if any, is in `Turn.numbers`
VERB = 0
ACTION_COLUMNS = 5
SUBMIT, FLOP, BYTES, KEY, AFTER, TAKE, ACQUIRE, RELEASE, SEND, SET_RATE, EMIT = range(11)
CANCEL, WATCH, BAD_PART, BAD_COUNTER = range(11, 15)
VERBS = 15

# Fields of the head
COUNT, MOST, PER_SECOND, GROW_TABLE, GROW_ROWS = range(5)
HEAD_FIELDS = 5

# Columns of a part: amounts at the end of the last turn, and what `take` would give now
TOTAL, HELD, TAKEABLE, WAITING, FAILED = range(5)
PART_COLUMNS = 5


class Turn(NamedTuple):
    """Arrays through which a kernel acts and observes.

    Parameters
    ----------
    head : number of actions written, their limit, ticks in a second, and the request to grow
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


def new_turn(actions: int, parts: int, counts: NDArray[np.int64], per_second: int) -> Turn:
    """Turn with room for some actions; nothing is written yet."""
    head = np.zeros(HEAD_FIELDS, np.int64)
    head[MOST], head[PER_SECOND] = actions, per_second
    rows = np.zeros((actions + 1, ACTION_COLUMNS), np.int64)
    return Turn(
        head, rows, np.zeros(actions + 1), np.zeros((parts, PART_COLUMNS), np.int64), counts
    )


def policy_kernel(step: Step) -> Step:
    """Decorator of the kernel of a compiled process: compiled by numba, unless interpreted.

    Raises
    ------
    TypeError
        The function has other arguments than ``state, event, turn``.

    Examples
    --------
    >>> @policy_kernel
    ... def step(state, event, turn):
    ...     return DONE
    >>> turn = new_turn(4, 0, np.zeros(0, np.int64), 10**12)
    >>> int(step((), np.zeros(EVENT_COLUMNS, np.int64), turn))
    1
    """
    if len(inspect.signature(step).parameters) != 3:
        raise TypeError(
            f"{step.__name__}: a kernel has three arguments; write def "
            f"{step.__name__}(state, event, turn)"
        )
    return jit(step)


# Act.


@jit_without_refcounts
def _write(turn: Turn, verb: Int, tag: Int, a: Int, b: Int, c: Int, number: Real) -> Int:
    """Append an action; beyond the limit it is only counted."""
    row = min(turn.head[COUNT], turn.head[MOST])
    actions = turn.actions
    actions[row, VERB], actions[row, TAG] = verb, tag
    actions[row, A], actions[row, B], actions[row, C] = a, b, c
    turn.numbers[row] = number
    turn.head[COUNT] += 1
    return 0


@jit_without_refcounts
def submit(turn: Turn, graph: Int, tag: Int) -> Int:
    """Submit a graph, by its number in ``graphs``; an event ENDED with the tag follows its end."""
    return _write(turn, SUBMIT, tag, graph, 0, 0, 0.0)


@jit_without_refcounts
def with_flop(turn: Turn, row: Int, flop: Real) -> Int:
    """Give a row of the graph just submitted another number of flop."""
    return _write(turn, FLOP, 0, row, 0, 0, flop)


@jit_without_refcounts
def with_bytes(turn: Turn, row: Int, moved: Real) -> Int:
    """Give a row of the graph just submitted another number of bytes."""
    return _write(turn, BYTES, 0, row, 0, 0, moved)


@jit_without_refcounts
def with_key(turn: Turn, key: Int) -> Int:
    """Give the graph just submitted a key of its random draws."""
    return _write(turn, KEY, 0, key, 0, 0, 0.0)


@jit_without_refcounts
def after(turn: Turn, ticks: Int, tag: Int) -> Int:
    """Set a timer: an event TIMER with the tag comes after some ticks."""
    return _write(turn, AFTER, tag, ticks, 0, 0, 0.0)


@jit_without_refcounts
def take(turn: Turn, part: Int, amount: Int) -> bool:
    """Acquire an amount of a capacity at once; True on success."""
    if not _is_part(turn, part):
        return False
    if amount > turn.parts[part, TAKEABLE] and 1 <= amount <= turn.parts[part, TOTAL]:
        return False  # any other amount is an error, as it is for a process
    turn.parts[part, TAKEABLE] -= amount
    _write(turn, TAKE, 0, part, amount, 0, 0.0)
    return True


@jit_without_refcounts
def acquire(turn: Turn, part: Int, amount: Int, tag: Int) -> Int:
    """Request an amount of a capacity; an event GRANT with the tag follows."""
    if _is_part(turn, part):
        turn.parts[part, TAKEABLE] = 0  # who takes now would pass a request
        _write(turn, ACQUIRE, tag, part, amount, 0, 0.0)
    return 0


@jit_without_refcounts
def release(turn: Turn, part: Int, amount: Int) -> Int:
    """Release an amount of a capacity at the next turn."""
    return _write(turn, RELEASE, 0, part, amount, 0, 0.0)


@jit_without_refcounts
def send(turn: Turn, to: Int, a: Int, b: Int, c: Int) -> Int:
    """Send a message to a mailbox, by its number in ``boxes``."""
    return _write(turn, SEND, to, a, b, c, 0.0)


@jit_without_refcounts
def set_rate(turn: Turn, part: Int, rate: Real) -> Int:
    """Change the rate of a part, in its unit per second."""
    return _write(turn, SET_RATE, 0, part, 0, 0, rate)


@jit_without_refcounts
def emit(turn: Turn, metric: Int, value: Real) -> Int:
    """Record a value of a metric, by its number in ``metrics``."""
    return _write(turn, EMIT, 0, metric, 0, 0, value)


@jit_without_refcounts
def count(turn: Turn, counter: Int, by: Int) -> Int:
    """Add to a counter, by its number in ``counters``; it is no action and costs no row."""
    if 0 <= counter < len(turn.counts):
        turn.counts[counter] += by
    else:
        _write(turn, BAD_COUNTER, 0, counter, 0, 0, 0.0)
    return 0


@jit_without_refcounts
def cancel(turn: Turn, tag: Int) -> Int:
    """Cancel what is open under a tag: timers and requests are dropped, submissions cancelled."""
    return _write(turn, CANCEL, tag, 0, 0, 0, 0.0)


@jit_without_refcounts
def watch(turn: Turn, tag: Int) -> Int:
    """Ask for the next losses of the submission with a tag; an event LOST per op follows."""
    return _write(turn, WATCH, tag, 0, 0, 0, 0.0)


@jit_without_refcounts
def grow(turn: Turn, table: Int, rows: Int) -> Int:
    """Return code that asks for more rows of an array of the state, by its number.

    The array is enlarged with zeros and the kernel is called again with the same event. So return
    it before anything else was changed.
    """
    turn.head[GROW_TABLE], turn.head[GROW_ROWS] = table, rows
    return GROW


# Observe: the machine at the end of the last turn, as every process does.


@jit_without_refcounts
def _is_part(turn: Turn, part: Int) -> bool:
    """True if a part has this number; otherwise the error is noted as an action."""
    if 0 <= part < len(turn.parts):
        return True
    _write(turn, BAD_PART, 0, part, 0, 0, 0.0)
    return False


@jit_without_refcounts
def free(turn: Turn, part: Int) -> Int:
    """Free amount of a capacity."""
    return turn.parts[part, TOTAL] - turn.parts[part, HELD] if _is_part(turn, part) else 0


@jit_without_refcounts
def held(turn: Turn, part: Int) -> Int:
    """Amount of a capacity, or slots, in use."""
    return turn.parts[part, HELD] if _is_part(turn, part) else 0


@jit_without_refcounts
def waiting(turn: Turn, part: Int) -> Int:
    """Number of requests in the line of a capacity."""
    return turn.parts[part, WAITING] if _is_part(turn, part) else 0


@jit_without_refcounts
def failed(turn: Turn, part: Int) -> bool:
    """True if a part has failed."""
    return _is_part(turn, part) and turn.parts[part, FAILED] != 0


@jit_without_refcounts
def ticks_per_second(turn: Turn) -> Int:
    """Ticks in a second."""
    return turn.head[PER_SECOND]
