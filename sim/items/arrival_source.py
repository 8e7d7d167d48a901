"""Compiled generator of arrivals: the tick of the next item."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..facts.items.arrival_process import ON_OFF, PACED, TABLE
from ..facts.items.layout import KEY, NONE
from ..kernel.jit import Int, jit_without_refcounts
from .event_heap import next_order
from .item_arrays import DRAWS, MADE, NEXT_SEQUENCE, NEXT_TICK, ItemArrays
from .item_draws import keyed_bits, to_exponential

SOURCE_KIND, SOURCE_COUNT, SOURCE_LAST, SOURCE_START = range(4)
GAP, ON, OFF, LEFT_ON = range(4)


@jit_without_refcounts
def prepare_arrival(w: ItemArrays) -> Int:
    """Set the tick of the next arrival; NONE after the last one."""
    clock, source = w.clock, w.source
    if clock[MADE] == source[SOURCE_COUNT]:
        clock[NEXT_TICK] = NONE
        return 0
    kind = source[SOURCE_KIND]
    if kind == TABLE:
        tick = source[SOURCE_START] + w.at[clock[MADE]]
    elif kind == PACED:
        tick = source[SOURCE_START] + np.int64(np.rint(clock[MADE] * w.means[GAP]))
    else:
        since = source[SOURCE_START] if clock[MADE] == 0 else clock[NEXT_TICK]
        tick = since + np.int64(np.rint(_gap(w)))
    late = tick - source[SOURCE_START] > source[SOURCE_LAST]
    clock[NEXT_TICK] = NONE if late else tick
    clock[NEXT_SEQUENCE] = next_order(clock)
    return 0


@jit_without_refcounts
def _draw(w: ItemArrays) -> Any:
    """Next exponential number of the arrivals; their key is that of no item."""
    w.clock[DRAWS] += 1
    return to_exponential(keyed_bits(w.turn.head[KEY], NONE, w.clock[DRAWS]))


@jit_without_refcounts
def _gap(w: ItemArrays) -> Any:
    """Ticks to the next arrival."""
    gap = _draw(w) * w.means[GAP]
    if w.source[SOURCE_KIND] != ON_OFF:
        return gap
    passed = 0.0
    while gap >= w.means[LEFT_ON]:
        gap -= w.means[LEFT_ON]
        passed += w.means[LEFT_ON] + _draw(w) * w.means[OFF]
        w.means[LEFT_ON] = _draw(w) * w.means[ON]
    w.means[LEFT_ON] -= gap
    return passed + gap
