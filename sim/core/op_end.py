"""End and withdrawal of ops: free slots, and count down the dependencies of successors."""

from __future__ import annotations

import numpy as np

from ..kernel.jit import Int, jit_without_refcounts
from ..media.max_min.medium import leave
from ..media.max_min.table_layout import State
from .capacity import drop_claims_of_op, release_claims_of_ended_op
from .memory import state_layout as lay
from .memory.linked_lists import append, unlink
from .memory.radix_heap import remove_cell
from .memory.state_layout import Array, Links, Rows
from .op_start import flow_of
from .slots import arrive_at_release, mark_slot_queue


@jit_without_refcounts
def end_op(rows: Rows, times: Array, links: Links, world: Array, c: Int) -> None:
    """End an op: free its slots, count down its successors, and note who waits for its end."""
    rows[c]["state"] = lay.ENDED
    times[c, lay.END] = world[lay.NOW]
    free_slots_of_op(rows, world, c)
    count_op_ended(rows, world, c)
    if rows[c]["flags"] & (lay.HOLDS | lay.LETS):
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
    if rows[c]["flags"] & lay.WIDE:
        p = world[world[lay.COLLECTIVES] + rows[c]["link"] * lay.COLLECTIVE + lay.FURTHER_CELL]
        while rows[p]["flags"] & lay.FURTHER and rows[p]["link"] == c:
            free_slot(rows, world, p)
            p += 1


@jit_without_refcounts
def free_slot(rows: Rows, world: Array, p: Int) -> None:
    """Free the slot of one participant of an op."""
    if rows[p]["at"] == lay.HELD and rows[p]["slot"] >= 0:
        part = world[lay.PARTS] + rows[p]["slot"] * lay.PART
        world[part + lay.TAKEN] -= 1
        mark_slot_queue(world, part)
    rows[p]["at"] = lay.WAITING


@jit_without_refcounts
def count_op_ended(rows: Rows, world: Array, c: Int) -> None:
    """Reduce the number of open ops by 1; note the end if a process waits for op or graph."""
    world[lay.OPEN] -= 1
    low, high = 0, world[lay.GRAPH_COUNT]  # its graph is between
    while high - low > 1:
        middle = (low + high) >> 1
        if world[world[lay.GRAPHS] + middle * lay.GRAPH + lay.FIRST_CELL] <= c:
            low = middle
        else:
            high = middle
    graph = world[lay.GRAPHS] + low * lay.GRAPH + lay.OPEN_OPS
    world[graph] -= 1
    if world[graph] == 0:
        rows[c]["flags"] |= lay.LAST
    if rows[c]["flags"] & (lay.LAST | lay.WATCHED):
        append(rows, world, lay.NEWS, c)


@jit_without_refcounts
def withdraw_op(rows: Rows, times: Array, world: Array, s: State, c: Int) -> None:
    """Withdraw an op from queues, slots and flows; its remaining work is stored."""
    flags = rows[c]["flags"]
    if flags & lay.TIMED:
        if flags & lay.BEYOND:
            rows[c]["left"] -= world[lay.NOW] - times[c, lay.START]
        else:
            remove_cell(rows, times, world, c)
            rows[c]["left"] -= world[lay.NOW]
    if flags & lay.FLOWING:
        leave(s, flow_of(rows, world, c), world[lay.NOW])
        world[lay.FLOWS] -= 1
        world[lay.STALE] = 1
    if rows[c]["state"] == lay.PENDING and has_all_slots(rows, world, c):
        unlink(rows, world, lay.BARRIER, c)
    rows[c]["flags"] = flags & ~(lay.TIMED | lay.FLOWING | lay.BEYOND | lay.STARTED)
    withdraw_place(rows, times, world, c)
    if flags & lay.WIDE:
        row = world[lay.COLLECTIVES] + rows[c]["link"] * lay.COLLECTIVE
        p = world[row + lay.FURTHER_CELL]
        world[row + lay.MISSING] = 1
        while rows[p]["flags"] & lay.FURTHER and rows[p]["link"] == c:
            withdraw_place(rows, times, world, p)
            world[row + lay.MISSING] += 1
            p += 1
    if flags & lay.HOLDS:
        drop_claims_of_op(rows, world, c)


@jit_without_refcounts
def has_all_slots(rows: Rows, world: Array, c: Int) -> bool:
    """True if an op holds every slot that it needs."""
    if rows[c]["flags"] & lay.WIDE:
        return bool(
            world[world[lay.COLLECTIVES] + rows[c]["link"] * lay.COLLECTIVE + lay.MISSING] == 0
        )
    return bool(rows[c]["at"] == lay.HELD)


@jit_without_refcounts
def withdraw_place(rows: Rows, times: Array, world: Array, p: Int) -> None:
    """Withdraw one participant of an op from the event queue, the slot queue or its slot."""
    if rows[p]["at"] == lay.COMING:
        remove_cell(rows, times, world, p)
    elif rows[p]["at"] == lay.QUEUED:
        part = world[lay.PARTS] + rows[p]["slot"] * lay.PART
        before = unlink(rows, world, part + lay.HEAD, p)
        if world[part + lay.TAIL] == p:
            world[part + lay.TAIL] = before
        if world[part + lay.QUEUE] != lay.NONE:
            world[world[part + lay.QUEUE] + lay.QUEUING] -= 1
    free_slot(rows, world, p)
