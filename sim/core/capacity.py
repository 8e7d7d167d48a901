"""Amounts of capacities: who holds them, and the queues of who waits for one.

A *claim* is an amount that an op (or a process) asks for and then holds: a row of the table of
claims, whose lines link claims as the lines for slots link cells.  An op with claims is kept like
a collective, with a row of the table of *holders* behind it.
"""

from __future__ import annotations

from ..kernel.jit import Int, jit_without_refcounts
from .memory.linked_lists import append, sort_list
from .memory.state_layout import (
    ALSO,
    AMOUNT,
    ARRIVED,
    ARRIVING,
    ASKED_AT,
    BEHIND,
    CANCELLED,
    CLAIM,
    CLAIM_COUNT,
    CLAIMING,
    CLAIMS,
    COLLECTIVE,
    COLLECTIVES,
    ENDED,
    FAILED,
    FIRST_CLAIM,
    FURTHER,
    FURTHER_CELL,
    GRANTED_AT,
    GRANTS,
    HEAD,
    HELD_BY,
    HOLDER,
    HOLDERS,
    HOLDING,
    HOLDS,
    IN_LINE,
    IS_HELD,
    JOINING,
    LETTING,
    LINES,
    MISSING,
    MOVES,
    NONE,
    NOW,
    OF,
    OUT,
    PART,
    PARTS,
    READY,
    RETURNED_AT,
    SLOTS,
    STANDS,
    TAIL,
    TAKEN,
    UNGRANTED,
    UNMOVED,
    UNREADY,
    UNTIL,
    Array,
    Rows,
)

SEVERAL = 2  # places that join queues, so that they are put in order first


@jit_without_refcounts
def holder_offset(rows: Rows, world: Array, c: Int) -> Int:
    """Offset of the holder record of an op: one that holds, or at whose end others give back."""
    row = world[COLLECTIVES] + rows[c]["link"] * COLLECTIVE
    return world[HOLDERS] + world[row + HOLDING] * HOLDER


@jit_without_refcounts
def request_and_grant_amounts(rows: Rows, times: Array, world: Array) -> None:
    """Enqueue the capacity requests of ops that became ready, then grant what there is room for.

    What is left to arrive in this round are places of ops that hold nothing, and of ops that have
    got the last of what they hold.
    """
    c = sort_list(rows, world, world[ARRIVING])
    world[ARRIVING] = NONE
    world[CLAIMING] = 0
    while c != NONE:
        following = rows[c]["next"]
        if rows[c]["flags"] & HOLDS:
            if times[c, ARRIVED] < 0:
                times[c, ARRIVED] = world[NOW]
            world[JOINING] -= rows[c]["slot"] >= 0
            count_ready_place(rows, world, c)
        else:
            append(rows, world, ARRIVING, c)
        c = following
    grant_from_queues(rows, world)


@jit_without_refcounts
def count_ready_place(rows: Rows, world: Array, c: Int) -> None:
    """Count one more ready place of an op; with the last one the op asks for its amounts."""
    rows[c]["at"] = READY
    op = rows[c]["link"] if rows[c]["flags"] & FURTHER else c
    of = holder_offset(rows, world, op)
    world[of + UNREADY] -= 1
    if world[of + UNREADY] > 0:
        return
    world[of + UNGRANTED] = world[of + CLAIM_COUNT]
    for i in range(world[of + CLAIM_COUNT]):
        enqueue_claim(world, world[of + FIRST_CLAIM] + i)


@jit_without_refcounts
def enqueue_claim(world: Array, number: Int) -> None:
    """Append a claim to the queue of its component."""
    claim = world[CLAIMS] + number * CLAIM
    world[claim + STANDS] = IN_LINE
    world[claim + ASKED_AT] = world[NOW]
    world[claim + GRANTED_AT] = NONE
    world[claim + RETURNED_AT] = NONE
    world[claim + BEHIND] = NONE
    part = world[PARTS] + world[claim + OF] * PART
    if world[part + HEAD] == NONE:
        world[part + HEAD] = number
    else:
        world[world[CLAIMS] + world[part + TAIL] * CLAIM + BEHIND] = number
    world[part + TAIL] = number
    mark_claim_queue(world, part)


@jit_without_refcounts
def mark_claim_queue(world: Array, part: Int) -> None:
    """Mark the queue of a capacity for a grant attempt in this round."""
    if world[part + MOVES] == UNMOVED:
        world[part + MOVES] = world[LINES]
        world[LINES] = part


@jit_without_refcounts
def grant_from_queues(rows: Rows, world: Array) -> None:
    """Grant the amounts queued at each marked capacity, in order, up to the first without room."""
    part = world[LINES]
    world[LINES] = NONE
    while part != NONE:
        while world[part + HEAD] != NONE and not world[part + FAILED]:
            number = world[part + HEAD]
            claim = world[CLAIMS] + number * CLAIM
            if world[claim + AMOUNT] > world[part + SLOTS] - world[part + TAKEN]:
                break
            world[part + HEAD] = world[claim + BEHIND]
            world[part + TAKEN] += world[claim + AMOUNT]
            world[claim + STANDS] = IS_HELD
            world[claim + GRANTED_AT] = world[NOW]
            grant_claim(rows, world, number)
        following = world[part + MOVES]
        world[part + MOVES] = UNMOVED
        part = following


@jit_without_refcounts
def grant_claim(rows: Rows, world: Array, number: Int) -> None:
    """Grant a claim: wake its process, or let its op go on to its slots after the last one."""
    claim = world[CLAIMS] + number * CLAIM
    c = world[claim + HELD_BY]
    if c == NONE:
        world[claim + BEHIND] = world[GRANTS]
        world[GRANTS] = number
        return
    of = holder_offset(rows, world, c)
    world[of + UNGRANTED] -= 1
    if world[of + UNGRANTED] > 0:
        return
    p = world[world[COLLECTIVES] + rows[c]["link"] * COLLECTIVE + FURTHER_CELL]
    append(rows, world, ARRIVING, c)
    while rows[p]["flags"] & FURTHER and rows[p]["link"] == c:
        append(rows, world, ARRIVING, p)
        p += 1
    world[JOINING] = SEVERAL


@jit_without_refcounts
def drop_claim(world: Array, number: Int) -> None:
    """Take a claim out of its queue, or give back the amount that it holds."""
    claim = world[CLAIMS] + number * CLAIM
    if world[claim + STANDS] == OUT:
        return
    part = world[PARTS] + world[claim + OF] * PART
    if world[claim + STANDS] == IS_HELD:
        world[part + TAKEN] -= world[claim + AMOUNT]
        world[claim + RETURNED_AT] = world[NOW]
    else:
        before, at = NONE, world[part + HEAD]
        while at != number:
            before = at
            at = world[world[CLAIMS] + at * CLAIM + BEHIND]
        if before == NONE:
            world[part + HEAD] = world[claim + BEHIND]
        else:
            world[world[CLAIMS] + before * CLAIM + BEHIND] = world[claim + BEHIND]
        if world[part + TAIL] == number:
            world[part + TAIL] = before
    world[claim + STANDS] = OUT
    mark_claim_queue(world, part)


@jit_without_refcounts
def drop_claims_of_op(rows: Rows, world: Array, c: Int) -> None:
    """Give back or withdraw all claims of an op that stops; its places have to arrive again."""
    of = holder_offset(rows, world, c)
    world[of + UNREADY] = world[world[COLLECTIVES] + rows[c]["link"] * COLLECTIVE + MISSING]
    for i in range(world[of + CLAIM_COUNT]):
        drop_claim(world, world[of + FIRST_CLAIM] + i)


@jit_without_refcounts
def release_claims_of_ended_op(rows: Rows, world: Array, c: Int) -> None:
    """Release the amounts of an ended op, and amounts that others held until its end."""
    of = holder_offset(rows, world, c)
    for i in range(world[of + CLAIM_COUNT]):
        release_claim_if_ended(rows, world, world[of + FIRST_CLAIM] + i)
    number = world[of + LETTING]
    while number != NONE:
        release_claim_if_ended(rows, world, number)
        number = world[world[CLAIMS] + number * CLAIM + ALSO]


@jit_without_refcounts
def release_claim_if_ended(rows: Rows, world: Array, number: Int) -> None:
    """Release a claim once its op, and the op until whose end it lasts, are both over."""
    claim = world[CLAIMS] + number * CLAIM
    until = world[claim + UNTIL]
    if has_op_ended(rows, world[claim + HELD_BY]) and (until == NONE or has_op_ended(rows, until)):
        drop_claim(world, number)


@jit_without_refcounts
def has_op_ended(rows: Rows, c: Int) -> bool:
    """Whether an op has ended or was cancelled."""
    return bool(rows[c]["state"] == ENDED or rows[c]["state"] == CANCELLED)
