"""What a process sees of a store: its own changes of this turn, and else the last turn's state.

An entry that changed in this turn has a list of marks: the actors that changed it.
"""

from __future__ import annotations

from ...engine_api.store_interface import GONE
from ...kernel.jit import Int, jit_without_refcounts
from .hash_index import find_row, remove_row
from .store_layout import (
    ACTING,
    CACHED,
    CAPACITY,
    ENTRY_COUNT,
    ENTRY_FREE,
    HELD,
    HELD_BEFORE,
    KEYS_AT,
    KEYS_MASK,
    MARK,
    MARK_ACTOR,
    MARK_COUNT,
    MARK_OF,
    MARKED,
    MARKS_AT,
    NEXT_MARK,
    NONE,
    OWNERS,
    ROOM,
    SEVERAL,
    SIZE,
    TURN,
    UNUSED,
    USED,
    USED_BEFORE,
    WAS_OWNERS,
    WAS_SIZE,
    Array,
    StoreArrays,
)


@jit_without_refcounts
def find_entry(s: StoreArrays, key: Int) -> Int:
    """Row of an entry that is present or went in this turn, or NONE."""
    head, entries, _, index = s
    return find_row(entries, index, head[KEYS_AT], head[KEYS_MASK], key, 0)


@jit_without_refcounts
def last_mark(s: StoreArrays, e: Int) -> Int:
    """Offset of the last mark of an entry in this turn, or NONE."""
    head, entries, _, index = s
    mark = entries[e, MARK_OF]
    if mark < 0 or mark >= head[MARK_COUNT]:
        return NONE
    at = head[MARKS_AT] + mark * MARK
    return at if index[at + MARKED] == e else NONE


@jit_without_refcounts
def mark_changed(s: StoreArrays, actor: Int, e: Int) -> None:
    """Record that an actor changes an entry; call it before the change."""
    head, entries, _, index = s
    before = last_mark(s, e)
    if before != NONE and mark_of_actor(s, actor, before) != NONE:
        return
    at = head[MARKS_AT] + head[MARK_COUNT] * MARK
    index[at + MARK_ACTOR], index[at + NEXT_MARK], index[at + MARKED] = actor, before, e
    if before == NONE:
        index[at + WAS_SIZE], index[at + WAS_OWNERS] = entries[e, SIZE], entries[e, OWNERS]
    else:
        index[at + WAS_SIZE], index[at + WAS_OWNERS] = (
            index[before + WAS_SIZE], index[before + WAS_OWNERS],
        )  # fmt: skip
    entries[e, MARK_OF] = head[MARK_COUNT]
    head[MARK_COUNT] += 1
    if head[ACTING] == NONE:
        head[ACTING] = actor
    elif head[ACTING] != actor:
        head[ACTING] = SEVERAL


@jit_without_refcounts
def mark_of_actor(s: StoreArrays, actor: Int, mark: Int) -> Int:
    """Offset of an actor's mark in the list of an entry's marks, or NONE."""
    _, _, _, index = s
    while mark != NONE and index[mark + MARK_ACTOR] != actor:
        mark = index[mark + NEXT_MARK]
    return mark


@jit_without_refcounts
def unseen_change(s: StoreArrays, actor: Int, e: Int) -> Int:
    """Offset of a mark of an entry that only other actors changed in this turn, or NONE."""
    mark = last_mark(s, e)
    return NONE if mark == NONE or mark_of_actor(s, actor, mark) != NONE else mark


@jit_without_refcounts
def seen_owners(s: StoreArrays, actor: Int, e: Int) -> Int:
    """Number of owners of a row's entry as an actor sees it, or GONE."""
    _, entries, _, index = s
    mark = unseen_change(s, actor, e)
    return entries[e, OWNERS] if mark == NONE else index[mark + WAS_OWNERS]


@jit_without_refcounts
def seen_size(s: StoreArrays, actor: Int, e: Int) -> Int:
    """Size of a row's entry as an actor sees it."""
    _, entries, _, index = s
    mark = unseen_change(s, actor, e)
    return entries[e, SIZE] if mark == NONE else index[mark + WAS_SIZE]


@jit_without_refcounts
def is_known(s: StoreArrays, actor: Int, e: Int) -> bool:
    """True if a row's entry is present, or the actor cannot know that it is gone."""
    _, entries, _, _ = s
    return bool(e != NONE and (entries[e, OWNERS] != GONE or seen_owners(s, actor, e) != GONE))


@jit_without_refcounts
def owners_of(s: StoreArrays, actor: Int, key: Int) -> Int:
    """Number of owners of an entry as an actor sees it: 0 if it is cached, GONE if it is gone."""
    e = find_entry(s, key)
    return seen_owners(s, actor, e) if e != NONE else GONE


@jit_without_refcounts
def size_of(s: StoreArrays, actor: Int, key: Int) -> Int:
    """Size of an entry as an actor sees it; 0 if it is gone."""
    e = find_entry(s, key)
    if e == NONE or seen_owners(s, actor, e) == GONE:
        return 0
    return seen_size(s, actor, e)


@jit_without_refcounts
def longest_prefix(s: StoreArrays, actor: Int, keys: Array) -> Int:
    """Number of leading keys whose entries an actor sees."""
    for i in range(len(keys)):
        if owners_of(s, actor, keys[i]) == GONE:
            return i
    return len(keys)


@jit_without_refcounts
def amount_used(s: StoreArrays, actor: Int) -> Int:
    """Sum of the sizes of all entries, as an actor sees them."""
    head, _, _, _ = s
    if head[ACTING] >= 0:
        return head[USED] if head[ACTING] == actor else head[USED_BEFORE]
    return head[USED] - unseen_amount(s, actor, GONE)


@jit_without_refcounts
def amount_held(s: StoreArrays, actor: Int) -> Int:
    """Sum of the sizes of the entries that are held, as an actor sees them."""
    head, _, _, _ = s
    if head[ACTING] >= 0:
        return head[HELD] if head[ACTING] == actor else head[HELD_BEFORE]
    return head[HELD] - unseen_amount(s, actor, 0)


@jit_without_refcounts
def unseen_amount(s: StoreArrays, actor: Int, owners: Int) -> Int:
    """Amount that others added in this turn, of entries with more than so many owners."""
    head, entries, _, index = s
    amount = 0
    for n in range(head[MARK_COUNT]):
        mark = head[MARKS_AT] + n * MARK
        e = index[mark + MARKED]
        if index[mark + NEXT_MARK] == NONE and unseen_change(s, actor, e) != NONE:
            amount += entries[e, SIZE] * (entries[e, OWNERS] > owners)
            amount -= index[mark + WAS_SIZE] * (index[mark + WAS_OWNERS] > owners)
    return amount


@jit_without_refcounts
def settle(s: StoreArrays) -> None:
    """Begin the next turn: what actors released counts for all, and entries that went are freed."""
    head, entries, _, index = s
    for n in range(head[MARK_COUNT]):
        e = index[head[MARKS_AT] + n * MARK + MARKED]
        if entries[e, OWNERS] == GONE:
            remove_row(entries, index, head[KEYS_AT], head[KEYS_MASK], e)
            entries[e, OWNERS], entries[e, MARK_OF] = UNUSED, head[ENTRY_FREE]
            head[ENTRY_FREE] = e
            head[ENTRY_COUNT] -= 1
    head[ACTING] = NONE
    head[MARK_COUNT] = 0
    head[TURN] += 1
    head[USED_BEFORE], head[HELD_BEFORE] = head[USED], head[HELD]
    head[ROOM] = head[CAPACITY] - head[USED]
    head[CACHED] = head[USED] - head[HELD]
