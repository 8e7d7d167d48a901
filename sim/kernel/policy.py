"""Rows and helper kernels by which the kernel of a compiled process acts and observes.

A kernel is a function ``step(state, event, turn)``, called once per event. ``event`` is one row of
integers, ``turn`` a few flat arrays. A helper appends one row to the list of actions; the engine
checks the rows and applies them in order. Nothing here is a Python object, so the same kernel runs
compiled, interpreted, or inside the compiled engine. ``docs/extending.md`` shows an example.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from .jit import Int, jit, jit_without_refcounts
from .policy_actions import Real, is_part, write_action
from .policy_rows import (
    ACQUIRE,
    AFTER,
    ARRIVAL,
    AT,
    BAD_COUNTER,
    BYTES,
    CANCEL,
    DONE,
    EMIT,
    ENDED,
    FAILED,
    FLOP,
    GO_ON,
    GRANT,
    GROW,
    GROW_ROWS,
    GROW_TABLE,
    HELD,
    KEY,
    KIND,
    LOST,
    MESSAGE,
    NOW,
    PER_SECOND,
    RECORD,
    RELEASE,
    SEND,
    SET_RATE,
    SETTLE,
    SETTLED,
    START,
    SUBMIT,
    TAG,
    TAKE,
    TAKEABLE,
    TIMER,
    TOTAL,
    WAITING,
    WATCH,
    WAY,
    A,
    B,
    C,
    TurnArrays,
)

__all__ = [
    "ARRIVAL",
    "DONE",
    "ENDED",
    "GO_ON",
    "GRANT",
    "KIND",
    "LOST",
    "MESSAGE",
    "NOW",
    "SETTLED",
    "START",
    "TAG",
    "TIMER",
    "A",
    "B",
    "C",
    "TurnArrays",
    "acquire",
    "after",
    "at",
    "cancel",
    "count",
    "emit",
    "failed",
    "free",
    "grow",
    "held",
    "policy_kernel",
    "record",
    "release",
    "send",
    "set_rate",
    "settle",
    "submit",
    "take",
    "ticks_per_second",
    "waiting",
    "watch",
    "with_bytes",
    "with_flop",
    "with_key",
    "with_way",
]

_Step = TypeVar("_Step", bound=Callable[..., Any])


def policy_kernel(step: _Step) -> _Step:
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
    >>> from foretrace.sim.run.policies.compiled_process import CompiledProcess
    >>> CompiledProcess(step)
    <CompiledProcess step>
    """
    if len(inspect.signature(step).parameters) != 3:
        raise TypeError(
            f"{step.__name__}: a kernel has three arguments; write def "
            f"{step.__name__}(state, event, turn)"
        )
    return jit(step)


# Act.


@jit_without_refcounts
def submit(turn: TurnArrays, graph: Int, tag: Int) -> Int:
    """Submit a graph, by its number in ``graphs``; an event ENDED with the tag follows its end."""
    return write_action(turn, SUBMIT, tag, graph, 0, 0, 0.0)


@jit_without_refcounts
def with_flop(turn: TurnArrays, row: Int, flop: Real) -> Int:
    """Give a row of the graph just submitted another number of flop."""
    return write_action(turn, FLOP, 0, row, 0, 0, flop)


@jit_without_refcounts
def with_bytes(turn: TurnArrays, row: Int, moved: Real) -> Int:
    """Give a row of the graph just submitted another number of bytes."""
    return write_action(turn, BYTES, 0, row, 0, 0, moved)


@jit_without_refcounts
def with_key(turn: TurnArrays, key: Int) -> Int:
    """Give the graph just submitted a key of its random draws."""
    return write_action(turn, KEY, 0, key, 0, 0, 0.0)


@jit_without_refcounts
def with_way(turn: TurnArrays, way: Int) -> Int:
    """Let the graph just submitted take one of its ways, by its number in ``ways``."""
    return write_action(turn, WAY, 0, way, 0, 0, 0.0)


@jit_without_refcounts
def at(turn: TurnArrays, axis: Int, number: Int) -> Int:
    """Give the grid just submitted its number on an axis, by the axis's place in ``axes``."""
    return write_action(turn, AT, 0, axis, number, 0, 0.0)


@jit_without_refcounts
def after(turn: TurnArrays, ticks: Int, tag: Int) -> Int:
    """Set a timer: an event TIMER with the tag comes after some ticks."""
    return write_action(turn, AFTER, tag, ticks, 0, 0, 0.0)


@jit_without_refcounts
def take(turn: TurnArrays, part: Int, amount: Int) -> bool:
    """Acquire an amount of a capacity at once; True on success."""
    if not is_part(turn, part):
        return False
    if amount > turn.parts[part, TAKEABLE] and 1 <= amount <= turn.parts[part, TOTAL]:
        return False  # any other amount is an error, as it is for a process
    turn.parts[part, TAKEABLE] -= amount
    write_action(turn, TAKE, 0, part, amount, 0, 0.0)
    return True


@jit_without_refcounts
def acquire(turn: TurnArrays, part: Int, amount: Int, tag: Int) -> Int:
    """Request an amount of a capacity; an event GRANT with the tag follows."""
    if is_part(turn, part):
        turn.parts[part, TAKEABLE] = 0  # who takes now would pass a request
        write_action(turn, ACQUIRE, tag, part, amount, 0, 0.0)
    return 0


@jit_without_refcounts
def release(turn: TurnArrays, part: Int, amount: Int) -> Int:
    """Release an amount of a capacity at the next turn."""
    return write_action(turn, RELEASE, 0, part, amount, 0, 0.0)


@jit_without_refcounts
def send(turn: TurnArrays, to: Int, a: Int, b: Int, c: Int) -> Int:
    """Send a message to a mailbox, by its number in ``boxes``."""
    return write_action(turn, SEND, to, a, b, c, 0.0)


@jit_without_refcounts
def set_rate(turn: TurnArrays, part: Int, rate: Real) -> Int:
    """Change the rate of a part, in its unit per second."""
    return write_action(turn, SET_RATE, 0, part, 0, 0, rate)


@jit_without_refcounts
def emit(turn: TurnArrays, metric: Int, value: Real) -> Int:
    """Record a value of a metric, by its number in ``metrics``."""
    return write_action(turn, EMIT, 0, metric, 0, 0, value)


@jit_without_refcounts
def record(turn: TurnArrays, series: Int, value: Real) -> Int:
    """Append a value to a time series, by its number in ``series``."""
    return write_action(turn, RECORD, 0, series, 0, 0, value)


@jit_without_refcounts
def count(turn: TurnArrays, counter: Int, by: Int) -> Int:
    """Add to a counter, by its number in ``counters``; it is no action and costs no row."""
    if 0 <= counter < len(turn.counts):
        turn.counts[counter] += by
    else:
        write_action(turn, BAD_COUNTER, 0, counter, 0, 0, 0.0)
    return 0


@jit_without_refcounts
def cancel(turn: TurnArrays, tag: Int) -> Int:
    """Cancel what is open under a tag: timers and requests are dropped, submissions cancelled."""
    return write_action(turn, CANCEL, tag, 0, 0, 0, 0.0)


@jit_without_refcounts
def watch(turn: TurnArrays, tag: Int) -> Int:
    """Ask for the next losses of the submission with a tag; an event LOST per op follows."""
    return write_action(turn, WATCH, tag, 0, 0, 0, 0.0)


@jit_without_refcounts
def settle(turn: TurnArrays, tag: Int) -> Int:
    """Ask for an event SETTLED after the next turn, when all actions so far are applied."""
    return write_action(turn, SETTLE, tag, 0, 0, 0, 0.0)


@jit_without_refcounts
def grow(turn: TurnArrays, table: Int, rows: Int) -> Int:
    """Return code that asks for more rows of an array of the state, by its number.

    The array is enlarged with zeros and the kernel is called again with the same event. So return
    it before anything else was changed.
    """
    turn.head[GROW_TABLE], turn.head[GROW_ROWS] = table, rows
    return GROW


# Observe: the machine at the end of the last turn, as every process does.


@jit_without_refcounts
def free(turn: TurnArrays, part: Int) -> Int:
    """Free amount of a capacity."""
    return turn.parts[part, TOTAL] - turn.parts[part, HELD] if is_part(turn, part) else 0


@jit_without_refcounts
def held(turn: TurnArrays, part: Int) -> Int:
    """Amount of a capacity, or slots, in use."""
    return turn.parts[part, HELD] if is_part(turn, part) else 0


@jit_without_refcounts
def waiting(turn: TurnArrays, part: Int) -> Int:
    """Number of requests in the line of a capacity."""
    return turn.parts[part, WAITING] if is_part(turn, part) else 0


@jit_without_refcounts
def failed(turn: TurnArrays, part: Int) -> bool:
    """True if a part has failed."""
    return is_part(turn, part) and turn.parts[part, FAILED] != 0


@jit_without_refcounts
def ticks_per_second(turn: TurnArrays) -> Int:
    """Ticks in a second."""
    return turn.head[PER_SECOND]
