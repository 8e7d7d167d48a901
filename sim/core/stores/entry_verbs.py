"""Verbs of a store as kernels: hold, release, drop, touch, set_order and split.

Calling convention: every kernel takes the arrays ``s`` of the store (``store_layout.py``), then the
number of the actor, then int64 keys, owners and amounts. None allocates memory or calls Python, so
a compiled policy may call them directly. Actors are numbered from 0, densely: a policy uses one
number throughout, which no other process may use in that turn.

A kernel returns an answer of ``engine_api/store_interface.py``. A negative answer means that
nothing was changed. ``GROW`` asks the caller to leave its kernel, let Python enlarge the arrays
(``EntryStore.grow``), and call again with the new arrays. A size must be between 1 and the
capacity, and the caller checks that the component has not failed. At the start of each turn that
follows a change, ``turn_view.settle`` is called once.
"""

from __future__ import annotations

from ...engine_api.store_interface import (
    CREATED,
    DONE,
    GONE,
    GROW,
    NOT_OWNED,
    NOT_THERE,
    OTHER_SIZE,
    PARTS,
    REFUSED,
)
from ...kernel.jit import Int, jit_without_refcounts
from .eviction_heap import list_entry
from .hash_index import insert_row
from .owner_lists import add_owner, count_owners, find_hold, remove_hold
from .room import actor_row, is_free_to, make_room, remove_entry, take_from_cached
from .store_layout import (
    CACHED_BY,
    CACHED_IN,
    CLOCK,
    COUNT,
    CREATION,
    ENTRY_COUNT,
    ENTRY_FREE,
    ENTRY_TOP,
    FREED,
    HELD,
    HITS,
    HOLD_COUNT,
    HOLDING,
    KEY,
    KEYS_AT,
    KEYS_MASK,
    LAST_USE,
    LISTED,
    MARK_COUNT,
    MARK_OF,
    MISSES,
    MOST_ACTORS,
    MOST_MARKS,
    NEXT_OF_ENTRY,
    NEXT_OF_OWNER,
    NONE,
    OF,
    ORDER,
    OUTSIDE,
    OWNER,
    OWNERS,
    PART_COUNT,
    PRESENT,
    REFUSALS,
    RELEASED,
    SIZE,
    TURN,
    USED,
    USES,
    ZERO,
    Array,
    StoreArrays,
)
from .turn_view import find_entry, is_known, mark_changed


@jit_without_refcounts
def lacks_memory(s: StoreArrays, actor: Int, more_entries: Int, more_holds: Int) -> bool:
    """True if the arrays are too small for a verb that adds so many rows."""
    head, entries, holds, _ = s
    rows = head[ENTRY_COUNT] + more_entries
    return bool(
        rows > entries.shape[0]
        or head[HOLD_COUNT] + more_holds > holds.shape[0]
        or head[MARK_COUNT] + rows + 1 > head[MOST_MARKS]
        or actor >= head[MOST_ACTORS]
    )


@jit_without_refcounts
def hold(s: StoreArrays, actor: Int, key: Int, size: Int, owner: Int) -> Int:
    """Add an owner to an entry, which is created if it is gone."""
    head, entries, _, _ = s
    if lacks_memory(s, actor, 1, 2):
        return GROW
    e = find_entry(s, key)
    there = e != NONE and entries[e, OWNERS] != GONE
    if there and entries[e, SIZE] != size:
        return OTHER_SIZE
    if not there and key < PARTS:
        return REFUSED if is_known(s, actor, e) else NOT_THERE
    if not there and not make_room(s, actor, size):
        head[REFUSALS] += 1
        return REFUSED
    head[CLOCK] += 1
    if there:
        mark_changed(s, actor, e)
        head[HITS] += 1
        if entries[e, OWNERS] == 0:
            take_from_cached(s, e)
            head[HELD] += size
    else:
        e = create_entry(s, actor, e, key, size)
        head[MISSES] += 1
        head[USED] += size
        head[HELD] += size
    entries[e, LAST_USE] = head[CLOCK]
    entries[e, USES] += 1
    entries[e, OWNERS] += 1
    add_owner(s, e, owner, 1)
    return DONE if there else CREATED


@jit_without_refcounts
def create_entry(s: StoreArrays, actor: Int, e: Int, key: Int, size: Int) -> Int:
    """Create an entry without owners, in the row of an entry of this key that went, if any."""
    head, entries, _, index = s
    if e == NONE:
        e = new_entry_row(s)
        entries[e, KEY], entries[e, ZERO] = key, 0
        insert_row(entries, index, head[KEYS_AT], head[KEYS_MASK], e)
    mark_changed(s, actor, e)
    entries[e, SIZE], entries[e, OWNERS], entries[e, HOLDING] = size, 0, NONE
    entries[e, ORDER] = entries[e, OUTSIDE] = entries[e, USES] = entries[e, LISTED] = 0
    entries[e, CREATION] = head[CLOCK]
    entries[e, CACHED_IN] = NONE
    head[PRESENT] += 1
    return e


@jit_without_refcounts
def new_entry_row(s: StoreArrays) -> Int:
    """Take an unused row, in the state of an entry that is gone."""
    head, entries, _, _ = s
    e = head[ENTRY_FREE]
    if e == NONE:
        e = head[ENTRY_TOP]
        head[ENTRY_TOP] += 1
    else:
        head[ENTRY_FREE] = entries[e, MARK_OF]
    head[ENTRY_COUNT] += 1
    entries[e, OWNERS], entries[e, SIZE], entries[e, MARK_OF] = GONE, 0, NONE
    return e


@jit_without_refcounts
def release(s: StoreArrays, actor: Int, key: Int, owner: Int) -> Int:
    """Remove an owner of an entry; without owners it is cached."""
    if lacks_memory(s, actor, 0, 0):
        return GROW
    e = find_entry(s, key)
    if not is_known(s, actor, e):
        return NOT_THERE
    h = find_hold(s, owner, e + 1)
    if h == NONE:
        return NOT_OWNED
    take_holds(s, actor, e, h, 1)
    return DONE


@jit_without_refcounts
def take_holds(s: StoreArrays, actor: Int, e: Int, h: Int, count: Int) -> None:
    """Remove holds of an owner of an entry."""
    head, entries, holds, index = s
    mark_changed(s, actor, e)
    head[CLOCK] += 1
    entries[e, LAST_USE] = head[CLOCK]
    entries[e, OWNERS] -= count
    holds[h, COUNT] -= count
    if holds[h, COUNT] == 0:
        remove_hold(s, e, h)
    if entries[e, OWNERS] == 0:
        entries[e, CACHED_BY], entries[e, CACHED_IN] = actor, head[TURN]
        index[actor_row(s, actor) + RELEASED] += entries[e, SIZE]
        head[HELD] -= entries[e, SIZE]
        list_entry(s, e)


@jit_without_refcounts
def release_all(s: StoreArrays, actor: Int, owner: Int) -> Int:
    """Remove an owner from all its entries, in the order of its holds; returns their number."""
    _, _, holds, _ = s
    if lacks_memory(s, actor, 0, 0):
        return GROW
    count, h = 0, find_hold(s, owner, 0)
    while h != NONE:
        mine = holds[h, NEXT_OF_OWNER]
        take_holds(s, actor, holds[mine, OF] - 1, mine, holds[mine, COUNT])
        count += 1
        h = find_hold(s, owner, 0)  # it goes with the last entry
    return count


@jit_without_refcounts
def drop(s: StoreArrays, actor: Int, key: Int) -> Int:
    """Remove a cached entry."""
    _, entries, _, index = s
    if lacks_memory(s, actor, 0, 0):
        return GROW
    e = find_entry(s, key)
    if not is_known(s, actor, e):
        return NOT_THERE
    if not is_free_to(s, actor, e):
        return REFUSED
    take_from_cached(s, e)
    remove_entry(s, actor, e)
    index[actor_row(s, actor) + FREED] += entries[e, SIZE]
    return DONE


@jit_without_refcounts
def touch(s: StoreArrays, actor: Int, key: Int) -> Int:
    """Use an entry, for the order of eviction."""
    head, entries, _, _ = s
    e = find_entry(s, key)
    if not is_known(s, actor, e):
        return NOT_THERE
    if entries[e, OWNERS] == GONE:
        return REFUSED
    head[CLOCK] += 1
    entries[e, LAST_USE] = head[CLOCK]
    return DONE


@jit_without_refcounts
def set_order(s: StoreArrays, actor: Int, key: Int, number: Int) -> Int:
    """Set an entry's number for the order of eviction."""
    _, entries, _, _ = s
    e = find_entry(s, key)
    if not is_known(s, actor, e):
        return NOT_THERE
    if entries[e, OWNERS] == GONE:
        return REFUSED
    entries[e, ORDER], entries[e, OUTSIDE] = number, min(number, 0)
    if entries[e, OWNERS] == 0:
        list_entry(s, e)
    return DONE


@jit_without_refcounts
def split(s: StoreArrays, actor: Int, key: Int, sizes: Array) -> Int:
    """Replace an entry by parts with the same owners; returns the number of the first part."""
    head, entries, _, _ = s
    e = find_entry(s, key)
    if not is_known(s, actor, e):
        return NOT_THERE
    if entries[e, OWNERS] <= 0 and not is_free_to(s, actor, e):
        return REFUSED
    if sizes.sum() != entries[e, SIZE]:
        return OTHER_SIZE
    if lacks_memory(s, actor, len(sizes), len(sizes) * count_owners(s, e)):
        return GROW
    remove_entry(s, actor, e)
    head[USED] += entries[e, SIZE]
    first = head[PART_COUNT] + 1
    for i in range(len(sizes)):
        add_part(s, actor, e, sizes[i])
    while entries[e, HOLDING] != NONE:
        remove_hold(s, e, entries[e, HOLDING])
    return first


@jit_without_refcounts
def add_part(s: StoreArrays, actor: Int, whole: Int, size: Int) -> None:
    """Create a part with the owners, the uses and the order number of the whole."""
    head, entries, holds, _ = s
    head[PART_COUNT] += 1
    head[CLOCK] += 1
    e = create_entry(s, actor, NONE, PARTS - head[PART_COUNT], size)
    for column in (ORDER, OUTSIDE, LAST_USE, USES, CACHED_BY, CACHED_IN):
        entries[e, column] = entries[whole, column]
    h = entries[whole, HOLDING]
    while h != NONE:
        add_owner(s, e, holds[h, OWNER], holds[h, COUNT])
        entries[e, OWNERS] += holds[h, COUNT]
        h = holds[h, NEXT_OF_ENTRY]
    if entries[e, OWNERS] == 0:
        list_entry(s, e)
