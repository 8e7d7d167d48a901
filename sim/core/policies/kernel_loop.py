"""Loop that runs the machine and the kernels of policies, until Python must decide something.

It means the same as SimPy's events, which ``sim/run/policies/policy_run.py`` and the engine would
process one by one: what wakes in a turn comes first, then timers that are due, and then a turn
that applies what was noted. It stops before the tick of the next event of anybody else.
"""

from __future__ import annotations

import numpy as np

from ...kernel import policy_rows as rows
from ...kernel.jit import Int, jit_without_refcounts
from ..executor import run_instants
from ..memory import state_layout as lay
from ..memory.state_layout import NONE, Array, Rows
from .desk_layout import (
    AT,
    BUSY,
    CALLING,
    CANCELS,
    CELLS,
    CROWDED,
    EVENTS,
    EVENTS_AT_TICK,
    FULL,
    LATE,
    LIMIT,
    NEXT_SETTLED,
    NOTED,
    OVER,
    PAUSE,
    SETTLED,
    SUB_BY,
    SUB_CANCELLED,
    SUB_GRAPH,
    SUB_OVER,
    SUB_TAG,
    TICK,
    TIMERS,
    TURNS,
    TURNS_AT_TICK,
    WAKE,
    WAKES,
    Desk,
)
from .mail_layout import DELIVERED, NEXT_DELIVERED
from .policy_calls import (
    begin_call,
    begin_call_of_message,
    begin_call_of_settled,
    begin_call_of_timer,
    go_on_with_call,
)
from .store_desk import CHANGED as STORES_CHANGED
from .store_turns import has_room_to_settle, settle_stores
from .submissions import apply_noted, graph_row


@jit_without_refcounts
def run_policies(machine: tuple, desk: Desk) -> Int:  # type: ignore[type-arg]
    """Run until Python must decide; the code says why.

    `OVER`: nothing is due before the limit. `SLOW`: Python goes on with the call in progress.
    `FULL`: a table needs room; then call again. `CROWDED`: very much happens at this tick.
    `PAUSES`: call again. `TELLS`, `ASKS`, `HEAVY`: as of `run_instants`.
    """
    world, now = machine[3], desk.now
    before = now[EVENTS]
    while True:
        code = 0
        if now[CALLING] != NONE:
            code = go_on_with_call(desk, world)
        elif now[WAKE] < now[WAKES]:
            begin_call_of_end(desk)
        elif desk.mail.now[NEXT_DELIVERED] < desk.mail.now[DELIVERED]:
            begin_call_of_message(desk)
        elif now[NEXT_SETTLED] < now[SETTLED]:
            begin_call_of_settled(desk)
        elif now[TIMERS] and desk.timers[0, AT] == now[TICK]:
            if now[EVENTS_AT_TICK] > BUSY:
                return CROWDED
            begin_call_of_timer(desk)
        elif now[NOTED] or desk.stores.numbers[STORES_CHANGED]:
            if now[TURNS_AT_TICK] > BUSY:
                return CROWDED
            code = run_turn(machine, desk)
        elif now[EVENTS] - before > PAUSE:
            return lay.PAUSES
        else:
            code = go_to_next_tick(machine, desk)
        if code:
            return code


@jit_without_refcounts
def go_to_next_tick(machine: tuple, desk: Desk) -> Int:  # type: ignore[type-arg]
    """Run the machine to the next tick at which a policy wakes; 0, or why Python must go on."""
    rows_, times, links, world, s = machine
    now = desk.now
    first = desk.timers[0, AT] if now[TIMERS] else np.int64(LATE)
    limit = min(first, now[LIMIT] - 1)
    code = run_instants(rows_, times, links, world, s, limit, 0, None)
    if code == lay.TELLS:
        begin_tick(desk, world[lay.NOW])
        now[TURNS] += 1
        return begin_wakes(rows_, world, desk)
    if code != lay.NOTHING:
        return code
    if first > limit or not now[TIMERS]:
        return OVER
    world[lay.NOW] = first
    begin_tick(desk, first)
    return 0


@jit_without_refcounts
def begin_tick(desk: Desk, tick: Int) -> None:
    """Begin a tick, at which nothing has happened yet."""
    now = desk.now
    now[TICK], now[EVENTS_AT_TICK], now[TURNS_AT_TICK] = tick, 0, 0


@jit_without_refcounts
def run_turn(machine: tuple, desk: Desk) -> Int:  # type: ignore[type-arg]
    """Run a turn of the machine that applies what was noted; 0, or why Python must go on."""
    rows_, times, links, world, s = machine
    now = desk.now
    if not has_room_to_settle(desk):
        return FULL
    world[lay.NOW] = now[TICK]
    settle_stores(world, desk)
    apply_noted(machine, desk)
    now[TURNS] += 1
    now[TURNS_AT_TICK] += 1
    world[lay.PHASE] = lay.BEGIN
    code = run_instants(rows_, times, links, world, s, now[TICK], 0, None)
    if code == lay.TELLS:
        return begin_wakes(rows_, world, desk)
    return 0 if code == lay.NOTHING else code


@jit_without_refcounts
def begin_wakes(cells: Rows, world: Array, desk: Desk) -> Int:
    """Let the ends of this turn wake, if they concern only policies; else Python must."""
    if world[lay.GRANTS] != NONE:
        return lay.TELLS
    now, c, count = desk.now, world[lay.NEWS], 0
    while c != NONE:
        graph = graph_row(world, c)
        if cells[c]["flags"] & lay.WATCHED or desk.owner[graph] == NONE:
            return lay.TELLS
        desk.wakes[count] = desk.owner[graph]
        count += 1
        c = np.int64(cells[c]["next"])
    now[WAKE], now[WAKES] = 0, count
    c = world[lay.NEWS]
    world[lay.NEWS] = NONE
    while c != NONE:
        graph = graph_row(world, c)
        if now[CANCELS]:
            one = desk.submissions[desk.owner[graph]]
            one[SUB_CANCELLED] = count_cancelled(cells, world, graph, now[CELLS])
        desk.owner[graph] = NONE
        c = np.int64(cells[c]["next"])
    return 0


@jit_without_refcounts
def begin_call_of_end(desk: Desk) -> None:
    """Begin to call a kernel for the end of the next graph that ended in this turn."""
    now = desk.now
    one = desk.submissions[desk.wakes[now[WAKE]]]
    now[WAKE] += 1
    one[SUB_OVER] = 1
    cancelled = one[SUB_CANCELLED]
    begin_call(desk, one[SUB_BY], np.int64(rows.ENDED), one[SUB_TAG], cancelled, one[SUB_GRAPH], 0)


@jit_without_refcounts
def count_cancelled(cells: Rows, world: Array, graph: Int, used: Int) -> Int:
    """Number of ops of a graph that were cancelled or dropped; ``used`` is the end of all cells."""
    row = world[lay.GRAPHS] + graph * lay.GRAPH + lay.FIRST_CELL
    end = world[row + lay.GRAPH] if graph + 1 < world[lay.GRAPH_COUNT] else used
    found = 0
    for c in range(world[row], end):
        if not cells[c]["flags"] & lay.FURTHER:
            state = cells[c]["state"]
            found += state == lay.CANCELLED or state == lay.DROPPED
    return found
