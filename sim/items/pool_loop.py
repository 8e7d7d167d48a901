"""Compiled loop of a stream of items: events in order, pools, and calls of the policy.

Events of one tick happen in the order of their creation. The rules are in ``docs/semantics.md``,
*Items*; the plain twin is ``sim/reference/item_pools.py``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..facts.items import layout as lay
from ..facts.items.layout import NONE, ItemTurn
from ..kernel.jit import Int, jit_without_refcounts
from . import item_arrays as rows
from .arrival_source import prepare_arrival
from .event_heap import pop_event, push_event
from .item_arrays import ItemArrays
from .item_rows import free_item, new_item
from .item_sums import count_drop, count_latency, count_ticks, sums_row
from .item_targets import first_met
from .pool_lines import append, find_room, give_back, has_room, take_first, wait_at_source

State = Any  # arrays of the policy, a NamedTuple
Step = Any  # the policy


@jit_without_refcounts
def run_items(step: Step, state: State, w: ItemArrays, horizon: Int, budget: Int) -> Int:
    """Process events up to and including a tick; returns a status, see ``facts/items/layout.py``.

    Parameters
    ----------
    budget : most events of this call
    """
    head, clock = w.turn.head, w.clock
    while head[lay.STATUS] == lay.GOES_ON:
        is_arrival = _is_arrival_next(clock, w.events)
        if not is_arrival and clock[rows.EVENTS] == 0:
            return lay.DEADLOCK if clock[rows.INSIDE] else lay.OVER
        tick = clock[rows.NEXT_TICK] if is_arrival else w.events[0, rows.TICK]
        if tick > horizon:
            return lay.REACHED
        if budget == 0:
            return lay.BUDGET
        if clock[rows.IS_EXACT] and clock[rows.LATENCIES] == len(w.latencies):
            return lay.NO_LATENCIES
        if is_arrival and clock[rows.FREE] == NONE and clock[rows.USED] == len(w.items):
            return lay.NO_ROWS
        budget -= 1
        head[lay.NOW] = tick
        if is_arrival:
            _arrive(step, state, w)
        else:
            _end(step, state, w, pop_event(w.events, clock))
        if len(w.wanted):
            clock[rows.MET] = first_met(w)
            if clock[rows.MET] != NONE:
                break
    return head[lay.STATUS]


@jit_without_refcounts
def _is_arrival_next(clock: Any, events: Any) -> bool:
    """True if the next event is an arrival."""
    if clock[rows.NEXT_TICK] == NONE or clock[rows.EVENTS] == 0:
        return bool(clock[rows.NEXT_TICK] != NONE)
    if clock[rows.NEXT_TICK] != events[0, rows.TICK]:
        return bool(clock[rows.NEXT_TICK] < events[0, rows.TICK])
    return bool(clock[rows.NEXT_SEQUENCE] < events[0, rows.ORDER])


@jit_without_refcounts
def _fail(turn: ItemTurn, status: Int, wrong: Int) -> Int:
    """Note the first error of a call; the loop ends after this event."""
    if turn.head[lay.STATUS] == lay.GOES_ON:
        turn.head[lay.STATUS], turn.head[lay.WRONG] = status, wrong
    return 0


@jit_without_refcounts
def _call(step: Step, state: State, w: ItemArrays, kind: Int, item: Int, pool: Int) -> Int:
    """Call the policy for one item; the answer of a wrong call is to leave."""
    head = w.turn.head
    head[lay.KIND], head[lay.POOL] = kind, pool
    answer = np.int64(step(state, w.items[item, : lay.SEEN_COLUMNS], w.turn) | 0)  # refuses floats
    of = w.items[item, lay.CLASS]
    if of < 0 or of >= len(w.totals):
        _fail(w.turn, lay.BAD_CLASS, of)
        w.items[item, lay.CLASS] = 0
    if kind == lay.STARTS:
        if answer < 0 or answer > lay.MAX_TICK - head[lay.NOW]:
            _fail(w.turn, lay.BAD_TIME if answer < 0 else lay.OVERFLOW, answer)
            return 0
    elif answer < lay.DROP or answer >= len(w.turn.pools):
        _fail(w.turn, lay.BAD_POOL, answer)
        return lay.LEAVE
    return answer


@jit_without_refcounts
def _arrive(step: Step, state: State, w: ItemArrays) -> Int:
    """Let the next item arrive, and prepare the arrival after it."""
    clock = w.clock
    item = new_item(w)
    answer = _call(step, state, w, lay.ARRIVES, item, NONE)
    w.totals[w.items[item, lay.CLASS], rows.CAME] += 1
    _route(step, state, w, item, answer)
    prepare_arrival(w)
    return clock[rows.NEXT_TICK]


@jit_without_refcounts
def _end(step: Step, state: State, w: ItemArrays, item: Int) -> Int:
    """End the service of an item, and let its pool go on."""
    pool = w.items[item, rows.AT]
    passed = w.turn.head[lay.NOW] - w.items[item, rows.SINCE]
    count_ticks(w.sums, sums_row(w, item, pool), rows.WORK, passed)
    answer = _call(step, state, w, lay.ENDS, item, pool)
    if _route(step, state, w, item, answer):
        give_back(w, pool)
        _serve_freed(step, state, w)
    return 0


@jit_without_refcounts
def _route(step: Step, state: State, w: ItemArrays, item: Int, answer: Int) -> bool:
    """Send an item where the policy said; False if it waits at its source."""
    if answer == lay.LEAVE:
        count_latency(w, item)
        free_item(w, item)
        return True
    if answer == lay.DROP:
        at = w.items[item, rows.AT]
        count_drop(w, item, len(w.turn.pools) if at == NONE else at)
        free_item(w, item)
        return True
    pool = find_room(w, answer)
    if pool == NONE:
        count_drop(w, item, answer)
        free_item(w, item)
        return True
    w.items[item, rows.SINCE] = w.turn.head[lay.NOW]
    if not has_room(w.turn.pools, pool):
        wait_at_source(w, item, pool)
        return False
    _enter(step, state, w, item, pool)
    return True


@jit_without_refcounts
def _enter(step: Step, state: State, w: ItemArrays, item: Int, pool: Int) -> Int:
    """Let an item come to a pool: a free server takes it, or it joins the line."""
    pools = w.turn.pools
    w.items[item, rows.AT] = pool
    if pools[pool, lay.BUSY] < pools[pool, lay.SERVERS]:
        return _start(step, state, w, item, pool)
    pools[pool, lay.WAITING] += 1
    return append(w, pool, rows.FIRST, item)


@jit_without_refcounts
def _start(step: Step, state: State, w: ItemArrays, item: Int, pool: Int) -> Int:
    """Let a server take an item."""
    now, items = w.turn.head[lay.NOW], w.items
    waited = now - items[item, rows.SINCE]
    items[item, rows.SINCE] = now
    w.turn.pools[pool, lay.BUSY] += 1
    time = _call(step, state, w, lay.STARTS, item, pool)
    row = sums_row(w, item, pool)
    w.sums[row, rows.SERVED] += 1
    if waited:
        count_ticks(w.sums, row, rows.WAIT, waited)
    if waited or time:
        items[item, rows.VISITS] = 0
    else:
        items[item, rows.VISITS] += 1
        if items[item, rows.VISITS] > lay.MOST_VISITS:
            _fail(w.turn, lay.LOOP, pool)
    return push_event(w.events, w.clock, now + time, item)


@jit_without_refcounts
def _serve_freed(step: Step, state: State, w: ItemArrays) -> Int:
    """Let each freed server take the next item of its line, then items that wait at a source."""
    pools, clock = w.turn.pools, w.clock
    while clock[rows.FIRST_FREED] != NONE:
        pool = clock[rows.FIRST_FREED]
        pools[pool, lay.BUSY] -= 1
        if pools[pool, rows.FIRST] != NONE:
            pools[pool, lay.WAITING] -= 1
            _start(step, state, w, take_first(w, pool, rows.FIRST), pool)
        if pools[pool, rows.HELD_UP] != NONE and has_room(pools, pool):
            item = take_first(w, pool, rows.HELD_UP)
            source = w.items[item, rows.AT]
            _enter(step, state, w, item, pool)
            if source != NONE:
                give_back(w, source)
        pools[pool, rows.FREED] -= 1
        if pools[pool, rows.FREED] == 0:
            clock[rows.FIRST_FREED] = pools[pool, rows.NEXT_FREED]
    return 0
