"""Clock of a flow class: the exact integral of its rate over time.

A flow that joins a class is tagged with ``clock + remaining work``. It is done when the clock
reaches the tag. So a rate change costs the same for one flow as for ten thousand.
"""

from __future__ import annotations

import numpy as np

from ...kernel.jit import Int, jit_without_refcounts
from . import table_layout as lay
from .int128 import add, div, mul, sub
from .pairing_heap import ABSENT, BEFORE, NONE, insert, remove
from .table_layout import Array, State


@jit_without_refcounts
def advance_class_clock(bundles: Array, b: Int, now: Int) -> None:
    """Advance the clock of a flow class to now."""
    if now != bundles[b, lay.SINCE]:
        hi, lo = mul(bundles[b, lay.RATE], now - bundles[b, lay.SINCE])
        hi, lo = add(bundles[b, lay.CLOCK_HI], bundles[b, lay.CLOCK_LO], hi, lo)
        bundles[b, lay.CLOCK_HI], bundles[b, lay.CLOCK_LO] = hi, lo
        bundles[b, lay.SINCE] = now


@jit_without_refcounts
def work_left(s: State, f: Int) -> tuple[Int, Int]:
    """Remaining work of a flow, as of the last update of its class's clock."""
    _, flows, _, bundles = s
    hi, lo = flows[f, lay.TAG_HI], flows[f, lay.TAG_LO]
    b = flows[f, lay.BUNDLE]
    if b:
        hi, lo = sub(hi, lo, bundles[b, lay.CLOCK_HI], bundles[b, lay.CLOCK_LO])
        if hi < 0:  # done within the last tick
            return np.int64(0), np.int64(0)
    return hi, lo


@jit_without_refcounts
def mark_class_changed(bundles: Array, b: Int) -> None:
    """Mark a flow class: its rate and next completion are computed at the end of the turn."""
    if not bundles[b, lay.TOUCHED]:
        bundles[b, lay.TOUCHED] = 1
        bundles[b, lay.NEXT_TOUCHED] = bundles[0, lay.FIRST_TOUCHED]
        bundles[0, lay.FIRST_TOUCHED] = b


@jit_without_refcounts
def schedule_completion(s: State, b: Int, now: Int) -> None:
    """Update the next completion of a flow class in the heap of completions."""
    _, _, _, bundles = s
    tick = _completion_tick(s, b, now)
    if bundles[b, BEFORE] != ABSENT:
        if tick == bundles[b, lay.DUE]:
            return
        bundles[0, lay.FIRST_DUE] = remove(bundles, bundles[0, lay.FIRST_DUE], b)
    if tick != NONE:
        bundles[b, lay.DUE] = tick
        bundles[0, lay.FIRST_DUE] = insert(bundles, bundles[0, lay.FIRST_DUE], b)


@jit_without_refcounts
def _completion_tick(s: State, b: Int, now: Int) -> Int:
    """First tick at which a flow of the class completes; NONE if beyond the range."""
    bundles = s[3]
    advance_class_clock(bundles, b, now)
    hi, lo = work_left(s, bundles[b, lay.ROOT])
    return completion_tick(hi, lo, bundles[b, lay.RATE], now)


@jit_without_refcounts
def completion_tick(hi: Int, lo: Int, rate: Int, now: Int) -> Int:
    """First tick at which the given work completes at a rate; NONE if beyond the range of ticks."""
    if hi == 0 and lo == 0:
        return now
    if rate == 0:
        return np.int64(NONE)
    hi, lo = sub(hi, lo, np.int64(0), np.int64(1))  # rounding up without going beyond 2^127
    ticks = div(hi, lo, rate)
    return np.int64(NONE) if ticks > lay.OPEN - now - 1 else now + ticks + 1
