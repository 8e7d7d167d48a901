"""Main loop of the compiled engine: instants in order of time, each made of rounds.

``run_instants`` runs until Python must ask a backend or wake a process, or until nothing is due.
In one round, due ops end, capacities are granted, participants of ops join their queues, slots are
granted, and ops start. An op of zero duration ends in the next round. When a round has nothing
left to do, rates are computed once and the instant is over.
"""

from __future__ import annotations

import numpy as np

from ..kernel.jit import Int, jit_without_refcounts
from ..media.max_min.medium import due, settle, take_due
from ..media.max_min.table_layout import OVERFULL, TAG_HI, TAG_LO, State
from .capacity import request_and_grant_amounts
from .drops import drop_ops_turned_away
from .memory import state_layout as lay
from .memory.linked_lists import append, sort_list
from .memory.plugged_memory import Plugged
from .memory.radix_heap import earliest_tick, take_due_cells
from .memory.state_layout import NONE, Array, Links, Rows
from .op_end import end_op
from .op_start import (
    begin_work_phase,
    continue_answered_ops,
    end_in_next_round,
    flow_of,
    start_granted_in_row_order,
)
from .slots import add_to_arrivals, grant_slots, queue_or_take_slots

PAUSE = 1 << 12  # instants; a pause takes some 3 us, they some 1,000 and more


@jit_without_refcounts
def run_instants(
    rows: Rows,
    times: Array,
    links: Links,
    world: Array,
    s: State,
    limit: Int,
    stepwise: Int,
    plugged: Plugged | None,
) -> Int:
    """Run instants up to and including tick ``limit``, or a single one if ``stepwise``.

    ``plugged`` is the medium next to max-min, or None; numba then compiles the loop without it.

    The return code says why the loop stopped. `ASKS`: ops of the list ``ASKED`` need the timing of
    an online backend. `TELLS`: processes must be woken (lists ``NEWS`` and ``GRANTS``). `HEAVY`:
    the weights in flight overflow their integer range. `PAUSES`: `PAUSE` instants have passed, so
    that Python can be interrupted. `NOTHING`: otherwise.
    """
    instants = 0
    while True:
        if world[lay.PHASE] == lay.ANSWERED:
            continue_answered_ops(rows, times, world, s)
        else:
            if world[lay.PHASE] == lay.IDLE:
                if instants == PAUSE:
                    return lay.PAUSES
                instants += 1
                tick = next_event_tick(rows, times, world, s)
                world[lay.DUE] = tick
                if tick == NONE or tick > limit:
                    return lay.NOTHING
                world[lay.NOW] = tick
            if plugged is not None:
                end_plugged_flows(rows, world, s, plugged)
            begin_instant(rows, times, world, s)
            run_round(rows, times, links, world, s)
        while True:
            if world[lay.ASKING]:
                world[lay.PHASE] = lay.ANSWERED
                return lay.ASKS
            if world[lay.ENDING] == NONE and world[lay.LINES] == NONE:
                break
            run_round(rows, times, links, world, s)
        world[lay.PHASE] = lay.IDLE
        if world[lay.STALE]:
            if s[3][0, OVERFULL]:
                return lay.HEAVY
            settle(s, world[lay.NOW])
            if plugged is not None:
                settle_plugged_medium(rows, world, s, plugged)
            world[lay.STALE] = 0
        if world[lay.NEWS] != NONE or world[lay.GRANTS] != NONE or stepwise:
            world[lay.DUE] = next_event_tick(rows, times, world, s)
            return lay.TELLS


@jit_without_refcounts
def next_event_tick(rows: Rows, times: Array, world: Array, s: State) -> Int:
    """Tick of the next event, or NONE."""
    tick = earliest_tick(rows, times, world)
    if world[lay.FLOWS]:
        flow = due(s)
        if flow != NONE and (tick == NONE or flow < tick):
            tick = flow
        flow = world[lay.PLUGGED_DUE]
        if flow != NONE and (tick == NONE or flow < tick):
            tick = flow
    return tick


@jit_without_refcounts
def end_plugged_flows(rows: Rows, world: Array, s: State, plugged: Plugged) -> None:
    """If the plugged-in medium is due, advance it to now and end the ops whose flows are done."""
    own, _, advance = plugged
    if not NONE < world[lay.PLUGGED_DUE] <= world[lay.NOW]:
        return
    over = world[world[lay.SCRATCH] : world[lay.SCRATCH] + world[lay.FLOW_COUNT]]
    count = advance(s, own, over, world[lay.NOW])
    for i in range(count):
        s[1][over[i], TAG_HI], s[1][over[i], TAG_LO] = 0, 0
        c = world[world[lay.OWNERS] + over[i]]
        rows[c]["flags"] &= ~lay.FLOWING
        end_in_next_round(rows, world, c)
    world[lay.FLOWS] -= count
    world[lay.PLUGGED_DUE] = NONE
    world[lay.STALE] = 1


@jit_without_refcounts
def settle_plugged_medium(rows: Rows, world: Array, s: State, plugged: Plugged) -> None:
    """Pass flows that began in this turn to the plug-in medium, and store when it must run next."""
    own, settle, _ = plugged
    c, count = sort_list(rows, world, world[lay.BEGAN]), 0
    world[lay.BEGAN] = NONE
    while c != NONE:
        world[world[lay.SCRATCH] + count] = flow_of(rows, world, c)
        count += 1
        c = np.int64(rows[c]["next"])
    began = world[world[lay.SCRATCH] : world[lay.SCRATCH] + count]
    world[lay.PLUGGED_DUE] = settle(s, own, began, world[lay.NOW])


@jit_without_refcounts
def begin_instant(rows: Rows, times: Array, world: Array, s: State) -> None:
    """Start an instant: handle the releases, ends of fixed times and flows that are due now."""
    now = world[lay.NOW]
    c = world[lay.BARRIER]
    world[lay.BARRIER] = NONE
    while c != NONE:
        following = rows[c]["next"]
        rows[c]["unmet"] = 0
        append(rows, world, lay.GRANTED, c)  # ops that are still barred return to the list
        c = following
    # Before any flow joins here: one that has just joined hides those that are due.
    if world[lay.FLOWS] and NONE < due(s) <= now:
        out = world[world[lay.SCRATCH] : world[lay.SCRATCH] + world[lay.FLOW_COUNT]]
        count = take_due(s, now, out)
        for i in range(count):
            c = world[world[lay.OWNERS] + out[i]]
            rows[c]["flags"] &= ~lay.FLOWING
            end_in_next_round(rows, world, c)
        world[lay.FLOWS] -= count
        world[lay.STALE] = 1
    if earliest_tick(rows, times, world) == now:
        c = take_due_cells(rows, times, world, now)
        while c != NONE:
            following = rows[c]["next"]
            rows[c]["unmet"] = 0
            if rows[c]["at"] == lay.COMING:
                add_to_arrivals(rows, world, c)
            else:
                rows[c]["flags"] &= ~lay.TIMED
                rows[c]["left"] = 0
                begin_work_phase(rows, world, s, c)
            c = following


@jit_without_refcounts
def run_round(rows: Rows, times: Array, links: Links, world: Array, s: State) -> None:
    """Run one round of an instant: ops end, capacities and slots are granted, ops start."""
    c = world[lay.ENDING]
    world[lay.ENDING] = NONE
    if world[lay.WATCHING] or world[lay.GRAPH_COUNT] > 1:
        c = sort_list(rows, world, c)
    while c != NONE:
        following = rows[c]["next"]
        end_op(rows, times, links, world, c)
        c = following
    if world[lay.CLAIMING] or world[lay.LINES] != NONE:
        request_and_grant_amounts(rows, times, world)
    queue_or_take_slots(rows, times, world, s)
    if world[lay.TURNED_AWAY] != NONE:
        drop_ops_turned_away(rows, times, links, world, s)
    grant_slots(rows, times, world, s)
    if world[lay.GRANTED] != NONE:
        start_granted_in_row_order(rows, times, world, s)
