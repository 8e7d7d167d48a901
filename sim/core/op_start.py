"""Start of an op, once all its slots are granted: first its fixed time, then its work phase."""

from __future__ import annotations

from ..engine_api.interface import MAX_TICK
from ..kernel.jit import Int, jit_without_refcounts
from ..kernel.prefetch import prefetch
from ..media.max_min.medium import join
from ..media.max_min.table_layout import State
from ..media.max_min.work_clock import work_left
from .memory import state_layout as lay
from .memory.linked_lists import append, prepend, sort_list
from .memory.plugged_memory import is_plugged
from .memory.radix_heap import schedule_cell
from .memory.state_layout import NONE, Array, Rows


@jit_without_refcounts
def mark_place_held(rows: Rows, times: Array, world: Array, s: State, c: Int) -> None:
    """Mark one participant of an op as holding its slot; with the last one the op starts.

    If online backends exist, the ops that start in a round are collected and sorted first.
    """
    rows[c]["at"] = lay.HELD
    op = rows[c]["link"] if rows[c]["flags"] & lay.FURTHER else c
    if rows[op]["flags"] & lay.WIDE:
        row = world[lay.COLLECTIVES] + rows[op]["link"] * lay.COLLECTIVE
        world[row + lay.MISSING] -= 1
        if world[row + lay.MISSING] > 0:
            return
    if world[lay.ONLINE]:
        append(rows, world, lay.GRANTED, op)
    else:
        start_op(rows, times, world, s, op)


@jit_without_refcounts
def start_op(rows: Rows, times: Array, world: Array, s: State, c: Int) -> None:
    """Start an op that has all its slots, unless it uses a failed component."""
    flags = rows[c]["flags"]
    if flags & lay.BARRED:
        prepend(rows, world, lay.BARRIER, c)
        return
    rows[c]["state"] = lay.RUNNING
    rows[c]["flags"] = flags | lay.STARTED
    times[c, lay.START] = world[lay.NOW]
    if world[lay.ONLINE]:
        append(rows, world, lay.ASKED, c)
        if flags & lay.ASK:
            world[lay.ASKING] += 1
    else:
        begin_fixed_time(rows, times, world, s, c)


@jit_without_refcounts
def start_granted_in_row_order(rows: Rows, times: Array, world: Array, s: State) -> None:
    """Start the ops that got all their slots in this round, in row order.

    An op with an online backend starts once that backend has timed it.
    """
    c = sort_list(rows, world, world[lay.GRANTED])
    world[lay.GRANTED] = NONE
    while c != NONE:
        following = rows[c]["next"]
        start_op(rows, times, world, s, c)
        c = following
    if world[lay.ASKED] != NONE and not world[lay.ASKING]:
        continue_answered_ops(rows, times, world, s)


@jit_without_refcounts
def continue_answered_ops(rows: Rows, times: Array, world: Array, s: State) -> None:
    """Continue the ops of this round once online backends have returned their timings."""
    c = world[lay.ASKED]
    world[lay.ASKED] = NONE
    while c != NONE:
        following = rows[c]["next"]
        begin_fixed_time(rows, times, world, s, c)
        c = following


@jit_without_refcounts
def begin_fixed_time(rows: Rows, times: Array, world: Array, s: State, c: Int) -> None:
    """Begin the fixed time of a started op; if it is 0, begin the work phase."""
    fixed = rows[c]["left"]
    if fixed == 0:
        begin_work_phase(rows, world, s, c)
        return
    rows[c]["flags"] |= lay.TIMED
    if fixed > MAX_TICK - world[lay.NOW]:
        rows[c]["flags"] |= lay.BEYOND
        return
    rows[c]["left"] = world[lay.NOW] + fixed
    schedule_cell(rows, world, c, world[lay.NOW] + fixed)
    prefetch(rows, c + 1)  # what mostly comes after it
    prefetch(times, c + 1)


@jit_without_refcounts
def begin_work_phase(rows: Rows, world: Array, s: State, c: Int) -> None:
    """Begin the work phase of an op as a flow of its medium; an op without work ends."""
    flow = flow_of(rows, world, c)
    if flow != NONE:
        hi, lo = work_left(s, flow)
        if hi != 0 or lo != 0:
            if is_plugged(world, s, flow):
                rows[c]["next"] = world[lay.BEGAN]
                world[lay.BEGAN] = c
            else:
                join(s, flow, world[lay.NOW])
            rows[c]["flags"] |= lay.FLOWING
            world[lay.FLOWS] += 1
            world[lay.STALE] = 1
            return
    end_in_next_round(rows, world, c)


@jit_without_refcounts
def flow_of(rows: Rows, world: Array, c: Int) -> Int:
    """Number of the flow of an op, from the op's cell; NONE if it has no flow."""
    if rows[c]["flags"] & lay.WIDE:
        return world[world[lay.COLLECTIVES] + rows[c]["link"] * lay.COLLECTIVE + lay.WIDE_FLOW]
    return rows[c]["link"]


@jit_without_refcounts
def end_in_next_round(rows: Rows, world: Array, c: Int) -> None:
    """Schedule an op to end in the next round."""
    rows[c]["next"] = world[lay.ENDING]
    world[lay.ENDING] = c
