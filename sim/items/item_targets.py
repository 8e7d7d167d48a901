"""Quantities of a stream that processes wait for."""

from __future__ import annotations

from ..facts.items.layout import (
    ARRIVED_ITEMS,
    COUNTER,
    DROPPED_ITEMS,
    ENDED_ITEMS,
    NONE,
    WAITING,
)
from ..kernel.jit import Int, jit_without_refcounts
from .item_arrays import CAME, LEFT, LOST, ItemArrays

QUANTITY, OF, LEAST = range(3)


@jit_without_refcounts
def first_met(w: ItemArrays) -> Int:
    """First row of ``wanted`` that has come true; NONE for none."""
    for row in range(len(w.wanted)):
        if value_of(w, w.wanted[row, QUANTITY], w.wanted[row, OF]) >= w.wanted[row, LEAST]:
            return row
    return NONE


@jit_without_refcounts
def value_of(w: ItemArrays, quantity: Int, of: Int) -> Int:
    """Present value of a quantity."""
    if quantity == COUNTER:
        return w.turn.counts[of]
    if quantity == ARRIVED_ITEMS:
        return _total(w, CAME)
    if quantity == ENDED_ITEMS:
        return _total(w, LEFT)
    if quantity == DROPPED_ITEMS:
        return _total(w, LOST)
    return w.turn.pools[of, WAITING]


@jit_without_refcounts
def _total(w: ItemArrays, column: Int) -> Int:
    found = 0
    for of in range(len(w.totals)):
        found += w.totals[of, column]
    return found
