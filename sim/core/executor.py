"""The turn and round loop: what happens within one instant, and from one instant to the next.

``advance`` runs instants until somebody has to be asked or told, or nothing is due.  A round:
what ends now ends; places join their lines; slots are granted; ops start.  Zero-time ops end in
the next round; when there are none, rates are computed once and the instant is over.
"""

from __future__ import annotations

import numpy as np

from .cells import (
    ANSWERED,
    ASK,
    ASKED,
    ASKING,
    ASKS,
    BARRED,
    BARRIER,
    BEYOND,
    COLLECTIVE,
    COLLECTIVES,
    COMING,
    DUE,
    END,
    ENDED,
    ENDING,
    FIRST_CELL,
    FLOW_COUNT,
    FLOWING,
    FLOWS,
    FURTHER,
    FURTHER_CELL,
    GRANTED,
    GRAPH,
    GRAPH_COUNT,
    GRAPHS,
    HEAD,
    HELD,
    IDLE,
    LIMIT,
    MISSING,
    NEWS,
    NONE,
    NOTHING,
    NOW,
    ONLINE,
    OPEN,
    OPEN_OPS,
    OWNERS,
    PART,
    PARTS,
    PENDING,
    PHASE,
    QUEUED,
    ROUND,
    RUNNING,
    SCRATCH,
    STALE,
    START,
    STARTED,
    STEPWISE,
    TAIL,
    TAKEN,
    TELLS,
    TIMED,
    WAITING,
    WATCHED,
    WATCHING,
    WIDE,
    WIDE_FLOW,
    Array,
    Links,
    Rows,
)
from .jit import Int, lean
from .queue import forget, push, soonest, sort, take, unlink
from .sharing import State, due, join, leave, left, settle, take_due
from .slots import append, arrive, await_release, come, grant, moves
from .wide import MAX


@lean
def advance(rows: Rows, times: Array, links: Links, world: Array, s: State) -> Int:
    """Run instants, up to and including tick ``LIMIT``.

    Comes back with `ASKS` in the middle of a round (backends of the list ``ASKED``), with `TELLS`
    after an instant of which somebody has to be told (the list ``NEWS``), else with `NOTHING`.
    """
    while True:
        if world[PHASE] == ANSWERED:
            answered(rows, world, s)
        else:
            if world[PHASE] == IDLE:
                tick = next_tick(rows, times, world, s)
                world[DUE] = tick
                if tick == NONE or tick > world[LIMIT]:
                    return NOTHING
                world[NOW] = tick
            world[ROUND] = 0
            begin(rows, times, world, s)
            take_round(rows, times, links, world, s)
        while True:
            if world[ASKING]:
                world[PHASE] = ANSWERED
                return ASKS
            if world[ENDING] == NONE:
                break
            world[ROUND] += 1
            take_round(rows, times, links, world, s)
        world[PHASE] = IDLE
        if world[STALE]:
            settle(s, world[NOW])
            world[STALE] = 0
        if world[NEWS] != NONE or world[STEPWISE]:
            world[DUE] = next_tick(rows, times, world, s)
            return TELLS


@lean
def next_tick(rows: Rows, times: Array, world: Array, s: State) -> Int:
    """The next tick at which something happens by itself, NONE for none."""
    tick = soonest(rows, times, world)
    if world[FLOWS]:
        flow = due(s)
        if flow < MAX and (tick == NONE or flow < tick):
            tick = flow
    return tick


@lean
def begin(rows: Rows, times: Array, world: Array, s: State) -> None:
    """What is due at this tick: releases, ends of fixed times, flows whose work is done."""
    now = world[NOW]
    while world[BARRIER] != NONE:  # whoever is still barred comes back
        c = world[BARRIER]
        world[BARRIER] = rows[c]["next"]
        append(rows, world, GRANTED, c)
    # Before any flow joins here: one that has just joined hides those that are due.
    if world[FLOWS] and due(s) <= now < MAX:
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
            if rows[c]["at"] == COMING:
                come(rows, world, c)
            else:
                rows[c]["flags"] &= ~TIMED
                rows[c]["left"] = 0
                work(rows, world, s, c)
            c = following


@lean
def end_soon(rows: Rows, world: Array, c: Int) -> None:
    """An op ends in the round that comes."""
    rows[c]["next"] = world[ENDING]
    world[ENDING] = c


@lean
def flow_of(rows: Rows, world: Array, c: Int) -> Int:
    """The flow of an op, NONE for none."""
    if rows[c]["flags"] & WIDE:
        return world[world[COLLECTIVES] + rows[c]["link"] * COLLECTIVE + WIDE_FLOW]
    return rows[c]["link"]


@lean
def work(rows: Rows, world: Array, s: State, c: Int) -> None:
    """After its fixed time an op works, or ends."""
    flow = flow_of(rows, world, c)
    if flow != NONE:
        hi, lo = left(s, flow)
        if hi != 0 or lo != 0:
            join(s, flow, world[NOW])
            rows[c]["flags"] |= FLOWING
            world[FLOWS] += 1
            world[STALE] = 1
            return
    end_soon(rows, world, c)


@lean
def take_round(rows: Rows, times: Array, links: Links, world: Array, s: State) -> None:
    """One round."""
    c = world[ENDING]
    world[ENDING] = NONE
    if world[WATCHING] or world[GRAPH_COUNT] > 1:
        c = sort(rows, world, c)
    while c != NONE:
        following = rows[c]["next"]
        end(rows, times, links, world, c)
        c = following
    arrive(rows, times, world)
    grant(rows, world)
    start(rows, times, world, s)
    if world[ASKED] != NONE and not world[ASKING]:
        answered(rows, world, s)


@lean
def end(rows: Rows, times: Array, links: Links, world: Array, c: Int) -> None:
    """An op ends: its slots are free, its dependents come nearer."""
    rows[c]["state"] = ENDED
    times[END, c] = world[NOW]
    give_back(rows, world, c)
    close(rows, world, c)
    for e in range(rows[c]["first"], rows[c + 1]["first"]):
        p = np.int64(links[e])
        rows[p]["unmet"] -= 1
        if rows[p]["unmet"] == 0:
            await_release(rows, times, world, p)


@lean
def give_back(rows: Rows, world: Array, c: Int) -> None:
    """All slots that an op holds."""
    free(rows, world, c)
    if rows[c]["flags"] & WIDE:
        p = world[world[COLLECTIVES] + rows[c]["link"] * COLLECTIVE + FURTHER_CELL]
        while rows[p]["flags"] & FURTHER and rows[p]["link"] == c:
            free(rows, world, p)
            p += 1


@lean
def free(rows: Rows, world: Array, p: Int) -> None:
    """The slot of one place."""
    if rows[p]["at"] == HELD and rows[p]["slot"] >= 0:
        part = world[PARTS] + rows[p]["slot"] * PART
        world[part + TAKEN] -= 1
        moves(world, part)
    rows[p]["at"] = WAITING


@lean
def close(rows: Rows, world: Array, c: Int) -> None:
    """One op less is open; note whom this concerns."""
    world[OPEN] -= 1
    low, high = 0, world[GRAPH_COUNT]
    while high - low > 1:
        middle = (low + high) >> 1
        if world[world[GRAPHS] + middle * GRAPH + FIRST_CELL] <= c:
            low = middle
        else:
            high = middle
    graph = world[GRAPHS] + low * GRAPH + OPEN_OPS
    world[graph] -= 1
    if world[graph] == 0 or rows[c]["flags"] & WATCHED:
        append(rows, world, NEWS, c)


@lean
def start(rows: Rows, times: Array, world: Array, s: State) -> None:
    """Ops that hold all their places start, unless a component they use has failed."""
    c = world[GRANTED]
    world[GRANTED] = NONE
    if world[ONLINE]:
        c = sort(rows, world, c)
    while c != NONE:
        following = rows[c]["next"]
        if rows[c]["flags"] & BARRED:
            rows[c]["next"] = world[BARRIER]
            world[BARRIER] = c
        else:
            rows[c]["state"] = RUNNING
            rows[c]["flags"] |= STARTED
            times[START, c] = world[NOW]
            if world[ONLINE]:
                append(rows, world, ASKED, c)
                world[ASKING] += (rows[c]["flags"] & ASK) != 0
            else:
                go_on(rows, world, s, c)
        c = following


@lean
def answered(rows: Rows, world: Array, s: State) -> None:
    """Ops of a round in which backends could be asked go on, now that they have been."""
    c = world[ASKED]
    world[ASKED] = NONE
    while c != NONE:
        following = rows[c]["next"]
        go_on(rows, world, s, c)
        c = following


@lean
def go_on(rows: Rows, world: Array, s: State, c: Int) -> None:
    """An op that started begins with its fixed time, or with its work."""
    fixed = rows[c]["left"]
    if fixed == 0:
        work(rows, world, s, c)
        return
    rows[c]["flags"] |= TIMED
    if fixed > MAX - world[NOW]:
        rows[c]["flags"] |= BEYOND
        return
    rows[c]["left"] = world[NOW] + fixed
    push(rows, world, c, world[NOW] + fixed)


@lean
def leave_all(rows: Rows, times: Array, world: Array, s: State, c: Int) -> None:
    """An op leaves its lines, places and components; what is left of it is kept."""
    flags = rows[c]["flags"]
    if flags & TIMED:
        if flags & BEYOND:
            rows[c]["left"] -= world[NOW] - times[START, c]
        else:
            forget(rows, times, world, c)
            rows[c]["left"] -= world[NOW]
    if flags & FLOWING:
        leave(s, flow_of(rows, world, c), world[NOW])
        world[FLOWS] -= 1
        world[STALE] = 1
    if rows[c]["state"] == PENDING and is_granted(rows, world, c):
        unlink(rows, world, BARRIER, c)
    rows[c]["flags"] = flags & ~(TIMED | FLOWING | BEYOND | STARTED)
    leave_place(rows, times, world, c)
    if flags & WIDE:
        row = world[COLLECTIVES] + rows[c]["link"] * COLLECTIVE
        p = world[row + FURTHER_CELL]
        world[row + MISSING] = 1
        while rows[p]["flags"] & FURTHER and rows[p]["link"] == c:
            leave_place(rows, times, world, p)
            world[row + MISSING] += 1
            p += 1


@lean
def is_granted(rows: Rows, world: Array, c: Int) -> bool:
    """Whether an op holds all its places."""
    if rows[c]["flags"] & WIDE:
        return bool(world[world[COLLECTIVES] + rows[c]["link"] * COLLECTIVE + MISSING] == 0)
    return bool(rows[c]["at"] == HELD)


@lean
def leave_place(rows: Rows, times: Array, world: Array, p: Int) -> None:
    """One place is given up, wherever it stands."""
    if rows[p]["at"] == COMING:
        forget(rows, times, world, p)
    elif rows[p]["at"] == QUEUED:
        part = world[PARTS] + rows[p]["slot"] * PART
        before = unlink(rows, world, part + HEAD, p)
        if world[part + TAIL] == p:
            world[part + TAIL] = before
    free(rows, world, p)
