"""Lines of pools: room, the pools that an item tries, and lists of items and of pools."""

from __future__ import annotations

from typing import Any

from ..facts.items import layout as lay
from ..facts.items.layout import NONE
from ..kernel.jit import Int, jit_without_refcounts
from . import item_arrays as rows
from .item_arrays import ItemArrays


@jit_without_refcounts
def has_room(pools: Any, pool: Int) -> bool:
    """True if one more item may come to a pool; its free servers count as room."""
    if pools[pool, rows.LENGTH] == NONE:
        return True
    free = pools[pool, lay.SERVERS] - pools[pool, lay.BUSY]
    return bool(pools[pool, lay.WAITING] < pools[pool, rows.LENGTH] + free)


@jit_without_refcounts
def find_room(w: ItemArrays, pool: Int) -> Int:
    """Pool to which an item goes that was sent to one; NONE to drop it."""
    pools = w.turn.pools
    if has_room(pools, pool):
        return pool
    pools[pool, rows.FOUND_FULL] += 1
    for k in range(pools[pool, rows.TRIED], pools[pool, rows.TRIED_END]):
        if has_room(pools, w.tried[k]):
            return w.tried[k]
    return pools[pool, rows.LAST]


@jit_without_refcounts
def append(w: ItemArrays, pool: Int, first: Int, item: Int) -> Int:
    """Append an item to a list of a pool; the column after ``first`` is the last of the list."""
    pools = w.turn.pools
    w.items[item, rows.NEXT] = NONE
    if pools[pool, first] == NONE:
        pools[pool, first] = item
    else:
        w.items[pools[pool, first + 1], rows.NEXT] = item
    pools[pool, first + 1] = item
    return 0


@jit_without_refcounts
def take_first(w: ItemArrays, pool: Int, first: Int) -> Int:
    """Remove the first item of a list of a pool."""
    item = w.turn.pools[pool, first]
    w.turn.pools[pool, first] = w.items[item, rows.NEXT]
    return item


@jit_without_refcounts
def wait_at_source(w: ItemArrays, item: Int, pool: Int) -> Int:
    """Let an item wait for a pool where it is."""
    w.items[item, rows.TO] = pool
    return append(w, pool, rows.HELD_UP, item)


@jit_without_refcounts
def give_back(w: ItemArrays, pool: Int) -> Int:
    """Note that a server of a pool is free again; pools take them in the order of the notes."""
    pools, clock = w.turn.pools, w.clock
    pools[pool, rows.FREED] += 1
    if pools[pool, rows.FREED] > 1:
        return 0
    pools[pool, rows.NEXT_FREED] = NONE
    if clock[rows.FIRST_FREED] == NONE:
        clock[rows.FIRST_FREED] = pool
    else:
        pools[clock[rows.LAST_FREED], rows.NEXT_FREED] = pool
    clock[rows.LAST_FREED] = pool
    return 0
