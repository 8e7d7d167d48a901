"""Main loop of the compiled engine: rounds within an instant, and instants in order.

``advance`` runs instants until somebody has to be asked or told, or nothing is due.  A round:
what ends now ends; amounts of capacities are granted; places join their lines; slots are granted;
ops start.  Zero-time ops end in the next round; when there are none, rates are computed once and
the instant is over.
"""

from __future__ import annotations

from ..media.max_min.medium import due, settle, take_due
from ..media.max_min.table_layout import OVERFULL, State
from .capacity import grant_amounts
from .jit import Int, lean
from .linked_lists import append, sort
from .op_end import end
from .op_start import answered, end_soon, start_granted_in_row_order, work
from .radix_heap import soonest, take
from .slots import arrive, come, grant_slots
from .state_layout import (
    ANSWERED,
    ASKING,
    ASKS,
    BARRIER,
    CLAIMING,
    COMING,
    DUE,
    ENDING,
    FLOW_COUNT,
    FLOWING,
    FLOWS,
    GRANTED,
    GRANTS,
    GRAPH_COUNT,
    HEAVY,
    IDLE,
    LINES,
    NEWS,
    NONE,
    NOTHING,
    NOW,
    OWNERS,
    PAUSES,
    PHASE,
    SCRATCH,
    STALE,
    TELLS,
    TIMED,
    WATCHING,
    Array,
    Links,
    Rows,
)

PAUSE = 1 << 12  # instants; a pause takes some 3 us, they some 1,000 and more


@lean
def advance(
    rows: Rows, times: Array, links: Links, world: Array, s: State, limit: Int, stepwise: Int
) -> Int:
    """Run instants, up to and including tick ``limit``; one if ``stepwise``.

    Comes back with `ASKS` in the middle of a round (backends of the list ``ASKED``), with `TELLS`
    after an instant of which somebody has to be told (the lists ``NEWS`` and ``GRANTS``), with
    `HEAVY` where weights in flight sum to more than there are bits for, with `PAUSES` after `PAUSE`
    instants, so that Python can be interrupted, else with `NOTHING`.
    """
    instants = 0
    while True:
        if world[PHASE] == ANSWERED:
            answered(rows, times, world, s)
        else:
            if world[PHASE] == IDLE:
                if instants == PAUSE:
                    return PAUSES
                instants += 1
                tick = next_tick(rows, times, world, s)
                world[DUE] = tick
                if tick == NONE or tick > limit:
                    return NOTHING
                world[NOW] = tick
            begin(rows, times, world, s)
            take_round(rows, times, links, world, s)
        while True:
            if world[ASKING]:
                world[PHASE] = ANSWERED
                return ASKS
            if world[ENDING] == NONE:
                break
            take_round(rows, times, links, world, s)
        world[PHASE] = IDLE
        if world[STALE]:
            if s[3][0, OVERFULL]:
                return HEAVY
            settle(s, world[NOW])
            world[STALE] = 0
        if world[NEWS] != NONE or world[GRANTS] != NONE or stepwise:
            world[DUE] = next_tick(rows, times, world, s)
            return TELLS


@lean
def next_tick(rows: Rows, times: Array, world: Array, s: State) -> Int:
    """Tick of the next event, NONE for none."""
    tick = soonest(rows, times, world)
    if world[FLOWS]:
        flow = due(s)
        if flow != NONE and (tick == NONE or flow < tick):
            tick = flow
    return tick


@lean
def begin(rows: Rows, times: Array, world: Array, s: State) -> None:
    """Start an instant: releases, ends of fixed times and flows due at this tick."""
    now = world[NOW]
    c = world[BARRIER]
    world[BARRIER] = NONE
    while c != NONE:
        following = rows[c]["next"]
        rows[c]["unmet"] = 0
        append(rows, world, GRANTED, c)  # whoever is still barred comes back
        c = following
    # Before any flow joins here: one that has just joined hides those that are due.
    if world[FLOWS] and NONE < due(s) <= now:
        out = world[world[SCRATCH] : world[SCRATCH] + world[FLOW_COUNT]]
        count = take_due(s, now, out)
        for i in range(count):
            c = world[world[OWNERS] + out[i]]
            rows[c]["flags"] &= ~FLOWING
            end_soon(rows, world, c)
        world[FLOWS] -= count
        world[STALE] = 1
    if soonest(rows, times, world) == now:
        c = take(rows, times, world, now)
        while c != NONE:
            following = rows[c]["next"]
            rows[c]["unmet"] = 0
            if rows[c]["at"] == COMING:
                come(rows, world, c)
            else:
                rows[c]["flags"] &= ~TIMED
                rows[c]["left"] = 0
                work(rows, world, s, c)
            c = following


@lean
def take_round(rows: Rows, times: Array, links: Links, world: Array, s: State) -> None:
    """Run one round of an instant: ops end, capacity and slots are granted, ops start."""
    c = world[ENDING]
    world[ENDING] = NONE
    if world[WATCHING] or world[GRAPH_COUNT] > 1:
        c = sort(rows, world, c)
    while c != NONE:
        following = rows[c]["next"]
        end(rows, times, links, world, c)
        c = following
    if world[CLAIMING] or world[LINES] != NONE:
        grant_amounts(rows, times, world)
    arrive(rows, times, world, s)
    grant_slots(rows, times, world, s)
    if world[GRANTED] != NONE:
        start_granted_in_row_order(rows, times, world, s)
