"""Capacities in the compiled engine: amounts held by ops and processes, and queues of requests.

A *claim* is an amount of a capacity that an op or a process requests and then holds. It is one row
in the table of claims; queues are linked lists through these rows. An op with claims also has one
row in the table of *holders*.
"""

from __future__ import annotations

from ..kernel.jit import Int, jit_without_refcounts
from .memory import state_layout as lay
from .memory.linked_lists import append, sort_list
from .memory.state_layout import NONE, Array, Rows

SEVERAL = 2  # places that join queues, so that they are put in order first


@jit_without_refcounts
def holder_offset(rows: Rows, world: Array, c: Int) -> Int:
    """Offset in ``world`` of an op's holder record, which lists its claims.

    An op has one if it holds amounts itself, or if other ops hold amounts until it ends.
    """
    row = world[lay.COLLECTIVES] + rows[c]["link"] * lay.COLLECTIVE
    return world[lay.HOLDERS] + world[row + lay.HOLDING] * lay.HOLDER


@jit_without_refcounts
def request_and_grant_amounts(rows: Rows, times: Array, world: Array) -> None:
    """Enqueue the capacity requests of ops that became ready, then grant as many as fit.

    Afterwards the list of arrivals contains only ops that hold all the amounts they need.
    """
    c = sort_list(rows, world, world[lay.ARRIVING])
    world[lay.ARRIVING] = NONE
    world[lay.CLAIMING] = 0
    while c != NONE:
        following = rows[c]["next"]
        if rows[c]["flags"] & lay.HOLDS:
            if times[c, lay.ARRIVED] < 0:
                times[c, lay.ARRIVED] = world[lay.NOW]
            world[lay.JOINING] -= rows[c]["slot"] >= 0
            count_ready_place(rows, world, c)
        else:
            append(rows, world, lay.ARRIVING, c)
        c = following
    grant_from_queues(rows, world)


@jit_without_refcounts
def count_ready_place(rows: Rows, world: Array, c: Int) -> None:
    """Count a ready participant of an op; the last one enqueues the capacity requests."""
    rows[c]["at"] = lay.READY
    op = rows[c]["link"] if rows[c]["flags"] & lay.FURTHER else c
    of = holder_offset(rows, world, op)
    world[of + lay.UNREADY] -= 1
    if world[of + lay.UNREADY] > 0:
        return
    world[of + lay.UNGRANTED] = world[of + lay.CLAIM_COUNT]
    for i in range(world[of + lay.CLAIM_COUNT]):
        enqueue_claim(world, world[of + lay.FIRST_CLAIM] + i)


@jit_without_refcounts
def enqueue_claim(world: Array, number: Int) -> None:
    """Append a claim to the queue of its component."""
    claim = world[lay.CLAIMS] + number * lay.CLAIM
    world[claim + lay.STANDS] = lay.IN_LINE
    world[claim + lay.ASKED_AT] = world[lay.NOW]
    world[claim + lay.GRANTED_AT] = NONE
    world[claim + lay.RETURNED_AT] = NONE
    world[claim + lay.BEHIND] = NONE
    part = world[lay.PARTS] + world[claim + lay.OF] * lay.PART
    if world[part + lay.HEAD] == NONE:
        world[part + lay.HEAD] = number
    else:
        world[world[lay.CLAIMS] + world[part + lay.TAIL] * lay.CLAIM + lay.BEHIND] = number
    world[part + lay.TAIL] = number
    mark_claim_queue(world, part)


@jit_without_refcounts
def mark_claim_queue(world: Array, part: Int) -> None:
    """Mark the queue of a capacity: it may be able to grant a request in this round."""
    if world[part + lay.MOVES] == lay.UNMOVED:
        world[part + lay.MOVES] = world[lay.LINES]
        world[lay.LINES] = part


@jit_without_refcounts
def grant_from_queues(rows: Rows, world: Array) -> None:
    """Grant queued requests at marked capacities, in order, up to the first without room."""
    part = world[lay.LINES]
    world[lay.LINES] = NONE
    while part != NONE:
        while world[part + lay.HEAD] != NONE and not world[part + lay.FAILED]:
            number = world[part + lay.HEAD]
            claim = world[lay.CLAIMS] + number * lay.CLAIM
            if world[claim + lay.AMOUNT] > world[part + lay.SLOTS] - world[part + lay.TAKEN]:
                break
            world[part + lay.HEAD] = world[claim + lay.BEHIND]
            world[part + lay.TAKEN] += world[claim + lay.AMOUNT]
            world[claim + lay.STANDS] = lay.IS_HELD
            world[claim + lay.GRANTED_AT] = world[lay.NOW]
            grant_claim(rows, world, number)
        following = world[part + lay.MOVES]
        world[part + lay.MOVES] = lay.UNMOVED
        part = following


@jit_without_refcounts
def grant_claim(rows: Rows, world: Array, number: Int) -> None:
    """Grant a claim: wake the process that waits for it, or let the op queue for its slots.

    An op goes on when its last claim is granted.
    """
    claim = world[lay.CLAIMS] + number * lay.CLAIM
    c = world[claim + lay.HELD_BY]
    if c == NONE:
        world[claim + lay.BEHIND] = world[lay.GRANTS]
        world[lay.GRANTS] = number
        return
    of = holder_offset(rows, world, c)
    world[of + lay.UNGRANTED] -= 1
    if world[of + lay.UNGRANTED] > 0:
        return
    p = world[world[lay.COLLECTIVES] + rows[c]["link"] * lay.COLLECTIVE + lay.FURTHER_CELL]
    append(rows, world, lay.ARRIVING, c)
    while rows[p]["flags"] & lay.FURTHER and rows[p]["link"] == c:
        append(rows, world, lay.ARRIVING, p)
        p += 1
    world[lay.JOINING] = SEVERAL


@jit_without_refcounts
def drop_claim(world: Array, number: Int) -> None:
    """Remove a claim from its queue, or release the amount that it holds."""
    claim = world[lay.CLAIMS] + number * lay.CLAIM
    if world[claim + lay.STANDS] == lay.OUT:
        return
    part = world[lay.PARTS] + world[claim + lay.OF] * lay.PART
    if world[claim + lay.STANDS] == lay.IS_HELD:
        world[part + lay.TAKEN] -= world[claim + lay.AMOUNT]
        world[claim + lay.RETURNED_AT] = world[lay.NOW]
    else:
        before, at = NONE, world[part + lay.HEAD]
        while at != number:
            before = at
            at = world[world[lay.CLAIMS] + at * lay.CLAIM + lay.BEHIND]
        if before == NONE:
            world[part + lay.HEAD] = world[claim + lay.BEHIND]
        else:
            world[world[lay.CLAIMS] + before * lay.CLAIM + lay.BEHIND] = world[claim + lay.BEHIND]
        if world[part + lay.TAIL] == number:
            world[part + lay.TAIL] = before
    world[claim + lay.STANDS] = lay.OUT
    mark_claim_queue(world, part)


@jit_without_refcounts
def drop_claims_of_op(rows: Rows, world: Array, c: Int) -> None:
    """Release or withdraw all claims of an op that is stopped; it must request them again."""
    of = holder_offset(rows, world, c)
    world[of + lay.UNREADY] = world[
        world[lay.COLLECTIVES] + rows[c]["link"] * lay.COLLECTIVE + lay.MISSING
    ]
    for i in range(world[of + lay.CLAIM_COUNT]):
        drop_claim(world, world[of + lay.FIRST_CLAIM] + i)


@jit_without_refcounts
def release_claims_of_ended_op(rows: Rows, world: Array, c: Int) -> None:
    """Release the amounts of an ended op, and the amounts that others held until its end."""
    of = holder_offset(rows, world, c)
    for i in range(world[of + lay.CLAIM_COUNT]):
        release_claim_if_ended(rows, world, world[of + lay.FIRST_CLAIM] + i)
    number = world[of + lay.LETTING]
    while number != NONE:
        release_claim_if_ended(rows, world, number)
        number = world[world[lay.CLAIMS] + number * lay.CLAIM + lay.ALSO]


@jit_without_refcounts
def release_claim_if_ended(rows: Rows, world: Array, number: Int) -> None:
    """Release a claim if its op, and the op until whose end it lasts, have both ended."""
    claim = world[lay.CLAIMS] + number * lay.CLAIM
    until = world[claim + lay.UNTIL]
    if has_op_ended(rows, world[claim + lay.HELD_BY]) and (
        until == NONE or has_op_ended(rows, until)
    ):
        drop_claim(world, number)


@jit_without_refcounts
def has_op_ended(rows: Rows, c: Int) -> bool:
    """True if an op has ended, or was cancelled or dropped."""
    state = rows[c]["state"]
    return bool(state == lay.ENDED or state == lay.CANCELLED or state == lay.DROPPED)
