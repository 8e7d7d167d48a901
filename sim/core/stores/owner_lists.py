"""Owners of entries: one row per entry and owner, in a list of the entry and one of the owner."""

from __future__ import annotations

from ...kernel.jit import Int, jit_without_refcounts
from .hash_index import find_row, insert_row, remove_row
from .store_layout import (
    BEFORE_OF_ENTRY,
    BEFORE_OF_OWNER,
    COUNT,
    HOLD_COUNT,
    HOLD_FREE,
    HOLD_TOP,
    HOLDING,
    NEXT_OF_ENTRY,
    NEXT_OF_OWNER,
    NONE,
    OF,
    OWNER,
    PAIRS_AT,
    PAIRS_MASK,
    UNUSED,
    StoreArrays,
)


@jit_without_refcounts
def find_hold(s: StoreArrays, owner: Int, of: Int) -> Int:
    """Row of an owner and an entry (its row plus 1), or NONE; with ``of`` 0, of the owner alone."""
    head, _, holds, index = s
    return find_row(holds, index, head[PAIRS_AT], head[PAIRS_MASK], owner, of)


@jit_without_refcounts
def new_hold(s: StoreArrays, owner: Int, of: Int) -> Int:
    """Take an unused row for an owner and an entry."""
    head, _, holds, index = s
    h = head[HOLD_FREE]
    if h == NONE:
        h = head[HOLD_TOP]
        head[HOLD_TOP] += 1
    else:
        head[HOLD_FREE] = holds[h, NEXT_OF_ENTRY]
    head[HOLD_COUNT] += 1
    holds[h, OWNER], holds[h, OF], holds[h, COUNT] = owner, of, 0
    holds[h, NEXT_OF_OWNER] = holds[h, BEFORE_OF_OWNER] = h
    insert_row(holds, index, head[PAIRS_AT], head[PAIRS_MASK], h)
    return h


@jit_without_refcounts
def free_hold(s: StoreArrays, h: Int) -> None:
    """Return a row to the unused ones."""
    head, _, holds, index = s
    remove_row(holds, index, head[PAIRS_AT], head[PAIRS_MASK], h)
    holds[h, OF], holds[h, NEXT_OF_ENTRY] = UNUSED, head[HOLD_FREE]
    head[HOLD_FREE] = h
    head[HOLD_COUNT] -= 1


@jit_without_refcounts
def add_owner(s: StoreArrays, e: Int, owner: Int, count: Int) -> None:
    """Add holds of an owner to an entry."""
    _, _, holds, _ = s
    h = find_hold(s, owner, e + 1)
    if h == NONE:
        h = new_hold(s, owner, e + 1)
        link_hold(s, e, h)
    holds[h, COUNT] += count


@jit_without_refcounts
def link_hold(s: StoreArrays, e: Int, h: Int) -> None:
    """Put a row in front of the list of its entry, and at the end of the list of its owner."""
    _, entries, holds, _ = s
    after = entries[e, HOLDING]
    holds[h, NEXT_OF_ENTRY], holds[h, BEFORE_OF_ENTRY] = after, NONE
    if after != NONE:
        holds[after, BEFORE_OF_ENTRY] = h
    entries[e, HOLDING] = h
    first = find_hold(s, holds[h, OWNER], 0)
    if first == NONE:
        first = new_hold(s, holds[h, OWNER], 0)
    last = holds[first, BEFORE_OF_OWNER]
    holds[h, NEXT_OF_OWNER], holds[h, BEFORE_OF_OWNER] = first, last
    holds[last, NEXT_OF_OWNER] = holds[first, BEFORE_OF_OWNER] = h


@jit_without_refcounts
def count_owners(s: StoreArrays, e: Int) -> Int:
    """Number of different owners of an entry."""
    _, entries, holds, _ = s
    count, h = 0, entries[e, HOLDING]
    while h != NONE:
        count += 1
        h = holds[h, NEXT_OF_ENTRY]
    return count


@jit_without_refcounts
def remove_hold(s: StoreArrays, e: Int, h: Int) -> None:
    """Remove an owner from an entry, and an owner without entries from the table."""
    _, entries, holds, _ = s
    before, after = holds[h, BEFORE_OF_ENTRY], holds[h, NEXT_OF_ENTRY]
    if before == NONE:
        entries[e, HOLDING] = after
    else:
        holds[before, NEXT_OF_ENTRY] = after
    if after != NONE:
        holds[after, BEFORE_OF_ENTRY] = before
    before, after = holds[h, BEFORE_OF_OWNER], holds[h, NEXT_OF_OWNER]
    holds[before, NEXT_OF_OWNER], holds[after, BEFORE_OF_OWNER] = after, before
    free_hold(s, h)
    if before == after and holds[before, OF] == 0:
        free_hold(s, before)
