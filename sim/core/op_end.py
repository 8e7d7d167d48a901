"""End of an op, and its withdrawal: slots are freed, dependents are counted down."""

from __future__ import annotations

import numpy as np

from ..kernel.jit import Int, jit_without_refcounts
from ..media.max_min.medium import leave
from ..media.max_min.table_layout import State
from .capacity import drop_claims_of_op, release_claims_of_ended_op
from .memory.linked_lists import append, unlink
from .memory.radix_heap import remove_cell
from .memory.state_layout import (
    BARRIER,
    BEYOND,
    COLLECTIVE,
    COLLECTIVES,
    COMING,
    END,
    ENDED,
    FIRST_CELL,
    FLOWING,
    FLOWS,
    FURTHER,
    FURTHER_CELL,
    GRAPH,
    GRAPH_COUNT,
    GRAPHS,
    HEAD,
    HELD,
    HOLDS,
    LAST,
    LETS,
    MISSING,
    NEWS,
    NOW,
    OPEN,
    OPEN_OPS,
    PART,
    PARTS,
    PENDING,
    QUEUED,
    STALE,
    START,
    STARTED,
    TAIL,
    TAKEN,
    TIMED,
    WAITING,
    WATCHED,
    WIDE,
    Array,
    Links,
    Rows,
)
from .op_start import flow_of
from .slots import arrive_at_release, mark_slot_queue


@jit_without_refcounts
def end_op(rows: Rows, times: Array, links: Links, world: Array, c: Int) -> None:
    """End an op: free its slots, count down its dependents, note who waits for it."""
    rows[c]["state"] = ENDED
    times[c, END] = world[NOW]
    free_slots_of_op(rows, world, c)
    count_op_ended(rows, world, c)
    if rows[c]["flags"] & (HOLDS | LETS):
        release_claims_of_ended_op(rows, world, c)
    for e in range(rows[c]["first"], rows[c + 1]["first"]):
        p = np.int64(links[e])
        rows[p]["unmet"] -= 1
        if rows[p]["unmet"] == 0:
            arrive_at_release(rows, times, world, p)


@jit_without_refcounts
def free_slots_of_op(rows: Rows, world: Array, c: Int) -> None:
    """Free all slots that an op holds."""
    free_slot(rows, world, c)
    if rows[c]["flags"] & WIDE:
        p = world[world[COLLECTIVES] + rows[c]["link"] * COLLECTIVE + FURTHER_CELL]
        while rows[p]["flags"] & FURTHER and rows[p]["link"] == c:
            free_slot(rows, world, p)
            p += 1


@jit_without_refcounts
def free_slot(rows: Rows, world: Array, p: Int) -> None:
    """Free the slot of one place."""
    if rows[p]["at"] == HELD and rows[p]["slot"] >= 0:
        part = world[PARTS] + rows[p]["slot"] * PART
        world[part + TAKEN] -= 1
        mark_slot_queue(world, part)
    rows[p]["at"] = WAITING


@jit_without_refcounts
def count_op_ended(rows: Rows, world: Array, c: Int) -> None:
    """Count one open op less, and note its end where somebody waits for it or for its graph."""
    world[OPEN] -= 1
    low, high = 0, world[GRAPH_COUNT]  # its graph is between
    while high - low > 1:
        middle = (low + high) >> 1
        if world[world[GRAPHS] + middle * GRAPH + FIRST_CELL] <= c:
            low = middle
        else:
            high = middle
    graph = world[GRAPHS] + low * GRAPH + OPEN_OPS
    world[graph] -= 1
    if world[graph] == 0:
        rows[c]["flags"] |= LAST
    if rows[c]["flags"] & (LAST | WATCHED):
        append(rows, world, NEWS, c)


@jit_without_refcounts
def withdraw_op(rows: Rows, times: Array, world: Array, s: State, c: Int) -> None:
    """Withdraw an op from queues, slots and flows; what is left of its work is kept."""
    flags = rows[c]["flags"]
    if flags & TIMED:
        if flags & BEYOND:
            rows[c]["left"] -= world[NOW] - times[c, START]
        else:
            remove_cell(rows, times, world, c)
            rows[c]["left"] -= world[NOW]
    if flags & FLOWING:
        leave(s, flow_of(rows, world, c), world[NOW])
        world[FLOWS] -= 1
        world[STALE] = 1
    if rows[c]["state"] == PENDING and has_all_slots(rows, world, c):
        unlink(rows, world, BARRIER, c)
    rows[c]["flags"] = flags & ~(TIMED | FLOWING | BEYOND | STARTED)
    withdraw_place(rows, times, world, c)
    if flags & WIDE:
        row = world[COLLECTIVES] + rows[c]["link"] * COLLECTIVE
        p = world[row + FURTHER_CELL]
        world[row + MISSING] = 1
        while rows[p]["flags"] & FURTHER and rows[p]["link"] == c:
            withdraw_place(rows, times, world, p)
            world[row + MISSING] += 1
            p += 1
    if flags & HOLDS:
        drop_claims_of_op(rows, world, c)


@jit_without_refcounts
def has_all_slots(rows: Rows, world: Array, c: Int) -> bool:
    """Whether an op has every slot that it needs."""
    if rows[c]["flags"] & WIDE:
        return bool(world[world[COLLECTIVES] + rows[c]["link"] * COLLECTIVE + MISSING] == 0)
    return bool(rows[c]["at"] == HELD)


@jit_without_refcounts
def withdraw_place(rows: Rows, times: Array, world: Array, p: Int) -> None:
    """Withdraw one place from the event queue, its line, or its slot."""
    if rows[p]["at"] == COMING:
        remove_cell(rows, times, world, p)
    elif rows[p]["at"] == QUEUED:
        part = world[PARTS] + rows[p]["slot"] * PART
        before = unlink(rows, world, part + HEAD, p)
        if world[part + TAIL] == p:
            world[part + TAIL] = before
    free_slot(rows, world, p)
