"""Helper kernels by which the policy of a stream of items acts and observes.

A policy is a function ``step(state, item, turn) -> code``. It is called when an item arrives, when
a server takes it, and when its service has ended; ``kind(turn)`` says which. When a server takes
the item, it returns the ticks of the service. Otherwise it returns the number of the pool to which
the item goes, or ``LEAVE`` or ``DROP``. ``docs/extending.md`` shows an example.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..facts.items.layout import (
    ARRIVED,
    ARRIVES,
    BAD_COUNTER,
    BUSY,
    CLASS,
    DROP,
    ENDS,
    GOES_ON,
    KEY,
    KIND,
    LEAVE,
    NOW,
    NUMBER,
    PER_SECOND,
    POOL,
    SERVERS,
    STARTS,
    STATUS,
    WAITING,
    WRONG,
    A,
    B,
    C,
    D,
    ItemTurn,
)
from ..kernel.jit import Int, jit_without_refcounts
from .item_draws import keyed_bits, to_exponential, to_unit

__all__ = [
    "ARRIVED",
    "ARRIVES",
    "CLASS",
    "DROP",
    "ENDS",
    "LEAVE",
    "NUMBER",
    "STARTS",
    "A",
    "B",
    "C",
    "D",
    "ItemTurn",
    "bits",
    "busy",
    "count",
    "exponential",
    "item_kernel",
    "kind",
    "now",
    "pool",
    "servers",
    "ticks_per_second",
    "uniform",
    "waiting",
    "zipf",
    "zipf_table",
]

_Step = TypeVar("_Step", bound=Callable[..., Any])
_Item = NDArray[np.int64]
_Real = Any  # 64-bit float in a kernel
_BY_ONE = np.uint64(1)


def item_kernel(step: _Step) -> _Step:
    """Decorator of the policy of a stream of items: compiled by numba, unless interpreted.

    Raises
    ------
    TypeError
        The function has other arguments than ``state, item, turn``.

    Examples
    --------
    >>> @item_kernel
    ... def step(state, item, turn):
    ...     return LEAVE
    >>> item_kernel(lambda item: 0)
    Traceback (most recent call last):
    TypeError: <lambda>: a policy has three arguments; write def <lambda>(state, item, turn)
    """
    if len(inspect.signature(step).parameters) != 3:
        raise TypeError(
            f"{step.__name__}: a policy has three arguments; write def "
            f"{step.__name__}(state, item, turn)"
        )
    return jit_without_refcounts(step)


@jit_without_refcounts
def kind(turn: ItemTurn) -> Int:
    """Kind of the call: ``ARRIVES``, ``STARTS`` or ``ENDS``."""
    return turn.head[KIND]


@jit_without_refcounts
def pool(turn: ItemTurn) -> Int:
    """Pool that serves the item, or has served it; -1 when it arrives."""
    return turn.head[POOL]


@jit_without_refcounts
def now(turn: ItemTurn) -> Int:
    """Current tick."""
    return turn.head[NOW]


@jit_without_refcounts
def ticks_per_second(turn: ItemTurn) -> Int:
    """Ticks in a second."""
    return turn.head[PER_SECOND]


@jit_without_refcounts
def servers(turn: ItemTurn, number: Int) -> Int:
    """Servers of a pool, by its number in ``pools``."""
    return turn.pools[number, SERVERS]


@jit_without_refcounts
def busy(turn: ItemTurn, number: Int) -> Int:
    """Servers of a pool in use; of a delay, the items in it."""
    return turn.pools[number, BUSY]


@jit_without_refcounts
def waiting(turn: ItemTurn, number: Int) -> Int:
    """Items in the line of a pool; those that wait at their source are not counted."""
    return turn.pools[number, WAITING]


@jit_without_refcounts
def count(turn: ItemTurn, counter: Int, by: Int) -> Int:
    """Add to a counter, by its number in ``counters``."""
    if 0 <= counter < len(turn.counts):
        turn.counts[counter] += by
    elif turn.head[STATUS] == GOES_ON:
        turn.head[STATUS], turn.head[WRONG] = BAD_COUNTER, counter
    return 0


@jit_without_refcounts
def bits(turn: ItemTurn, item: _Item, purpose: Int) -> Any:
    """64 random bits for one purpose of the item; the same item and purpose give the same bits."""
    return keyed_bits(turn.head[KEY], item[NUMBER], purpose)


@jit_without_refcounts
def uniform(turn: ItemTurn, item: _Item, purpose: Int) -> _Real:
    """Uniform random number between 0 and 1, for one purpose of the item."""
    return to_unit(bits(turn, item, purpose))


@jit_without_refcounts
def exponential(turn: ItemTurn, item: _Item, purpose: Int, mean: _Real) -> Int:
    """Exponential random number of ticks with this mean, rounded, for one purpose of the item."""
    return np.int64(np.rint(to_exponential(bits(turn, item, purpose)) * mean))


def zipf_table(count: int, skew: float) -> NDArray[np.int64]:
    """Table for :func:`zipf`: key k of ``count`` keys has a weight of (k + 1) ** -skew.

    Rows: cumulated weights in units of 2^-62; the first key to compare for each of equal parts of
    the range (the method of cut points, Chen and Asau 1974, doi:10.1080/05695557408974949); and the
    number of bits of a part.

    Examples
    --------
    >>> (zipf_table(2, 1.0)[0] / 2**62).round(3).tolist()
    [0.667, 1.0]
    """
    if count < 1:
        raise ValueError(f"zipf_table: count is {count}; give 1 key or more")
    size = 1 << max(count - 1, 1).bit_length()
    weights = np.cumsum(np.arange(1, count + 1, dtype=np.float64) ** -skew)
    table = np.full((3, size), 2**62, np.int64)
    table[0, : count - 1] = np.rint(weights[:-1] / weights[-1] * 2.0**62).astype(np.int64)
    cuts = np.arange(size, dtype=np.int64) * (2**62 // size)
    table[1] = np.searchsorted(table[0, :count], cuts, side="right")
    table[2] = 63 - size.bit_length()
    return table


@jit_without_refcounts
def zipf(turn: ItemTurn, item: _Item, purpose: Int, table: NDArray[np.int64]) -> Int:
    """Random key by Zipf's law, with a table of :func:`zipf_table`, for one purpose of the item."""
    at = np.int64(bits(turn, item, purpose) >> np.uint64(2))
    key = table[1, at >> table[2, 0]]
    while table[0, key] <= at:
        key += 1
    return key
