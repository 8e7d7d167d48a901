"""Rows of items: taken when an item arrives, and reused after it has left."""

from __future__ import annotations

from ..facts.items import layout as lay
from ..facts.items.layout import NONE
from ..kernel.jit import Int, jit_without_refcounts
from . import item_arrays as rows
from .item_arrays import ItemArrays


@jit_without_refcounts
def new_item(w: ItemArrays) -> Int:
    """Take a free row for the item that arrives now."""
    clock, items = w.clock, w.items
    item = clock[rows.FREE]
    if item == NONE:
        item = clock[rows.USED]
        clock[rows.USED] += 1
    else:
        clock[rows.FREE] = items[item, rows.NEXT]
    items[item] = 0
    items[item, lay.NUMBER], items[item, lay.ARRIVED] = clock[rows.MADE], w.turn.head[lay.NOW]
    items[item, rows.AT] = NONE
    if clock[rows.MADE] < len(w.columns):
        for k in range(w.columns.shape[1]):
            items[item, lay.A + k] = w.columns[clock[rows.MADE], k]
    clock[rows.MADE] += 1
    clock[rows.INSIDE] += 1
    return item


@jit_without_refcounts
def free_item(w: ItemArrays, item: Int) -> Int:
    """Give back the row of an item that has left."""
    w.items[item, rows.NEXT] = w.clock[rows.FREE]
    w.clock[rows.FREE] = item
    w.clock[rows.INSIDE] -= 1
    return 0
