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
    CHANGED,
    ENTRY_COUNT,
    ENTRY_FREE,
    HELD,
    HELD_BEFORE,
    KEYS_AT,
    KEYS_MASK,
    MARK,
    MARK_COUNT,
    MARKS,
    MARKS_AT,
    NEXT,
    NONE,
    OWNERS,
    ROOM,
    SEVERAL,
    SIZE,
    STAMP,
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
def mark_changed(s: StoreArrays, actor: Int, e: Int) -> None:
    """Record that an actor changes an entry; call it before the change."""
    head, entries, _, index = s
    if entries[e, STAMP] != head[TURN]:
        entries[e, STAMP] = head[TURN]
        entries[e, WAS_SIZE], entries[e, WAS_OWNERS] = entries[e, SIZE], entries[e, OWNERS]
        entries[e, MARKS], entries[e, NEXT] = NONE, head[CHANGED]
        head[CHANGED] = e
    elif is_marked(s, actor, e):
        return
    at = head[MARKS_AT] + head[MARK_COUNT] * MARK
    index[at], index[at + 1] = actor, entries[e, MARKS]
    entries[e, MARKS] = head[MARK_COUNT]
    head[MARK_COUNT] += 1
    if head[ACTING] == NONE:
        head[ACTING] = actor
    elif head[ACTING] != actor:
        head[ACTING] = SEVERAL


@jit_without_refcounts
def is_marked(s: StoreArrays, actor: Int, e: Int) -> bool:
    """True if an actor changed an entry that changed in this turn."""
    head, entries, _, index = s
    mark = entries[e, MARKS]
    while mark != NONE and index[head[MARKS_AT] + mark * MARK] != actor:
        mark = index[head[MARKS_AT] + mark * MARK + 1]
    return bool(mark != NONE)


@jit_without_refcounts
def sees_change(s: StoreArrays, actor: Int, e: Int) -> bool:
    """True if an actor sees an entry as it is now."""
    head, entries, _, _ = s
    return bool(entries[e, STAMP] != head[TURN] or is_marked(s, actor, e))


@jit_without_refcounts
def seen_owners(s: StoreArrays, actor: Int, e: Int) -> Int:
    """Number of owners of a row's entry as an actor sees it, or GONE."""
    _, entries, _, _ = s
    return entries[e, OWNERS] if sees_change(s, actor, e) else entries[e, WAS_OWNERS]


@jit_without_refcounts
def seen_size(s: StoreArrays, actor: Int, e: Int) -> Int:
    """Size of a row's entry as an actor sees it."""
    _, entries, _, _ = s
    return entries[e, SIZE] if sees_change(s, actor, e) else entries[e, WAS_SIZE]


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
    head, entries, _, _ = s
    amount, e = head[USED], head[CHANGED]
    if head[ACTING] >= 0:
        return amount if head[ACTING] == actor else head[USED_BEFORE]
    while e != NONE:
        if not is_marked(s, actor, e):
            amount += entries[e, WAS_SIZE] * (entries[e, WAS_OWNERS] != GONE)
            amount -= entries[e, SIZE] * (entries[e, OWNERS] != GONE)
        e = entries[e, NEXT]
    return amount


@jit_without_refcounts
def amount_held(s: StoreArrays, actor: Int) -> Int:
    """Sum of the sizes of the entries that are held, as an actor sees them."""
    head, entries, _, _ = s
    amount, e = head[HELD], head[CHANGED]
    if head[ACTING] >= 0:
        return amount if head[ACTING] == actor else head[HELD_BEFORE]
    while e != NONE:
        if not is_marked(s, actor, e):
            amount += entries[e, WAS_SIZE] * (entries[e, WAS_OWNERS] > 0)
            amount -= entries[e, SIZE] * (entries[e, OWNERS] > 0)
        e = entries[e, NEXT]
    return amount


@jit_without_refcounts
def settle(s: StoreArrays) -> None:
    """Begin the next turn: what actors released counts for all, and entries that went are freed."""
    head, entries, _, index = s
    e = head[CHANGED]
    while e != NONE:
        following = entries[e, NEXT]
        if entries[e, OWNERS] == GONE:
            remove_row(entries, index, head[KEYS_AT], head[KEYS_MASK], e)
            entries[e, STAMP], entries[e, NEXT] = UNUSED, head[ENTRY_FREE]
            head[ENTRY_FREE] = e
            head[ENTRY_COUNT] -= 1
        e = following
    head[CHANGED] = head[ACTING] = NONE
    head[MARK_COUNT] = 0
    head[TURN] += 1
    head[USED_BEFORE], head[HELD_BEFORE] = head[USED], head[HELD]
    head[ROOM] = head[CAPACITY] - head[USED]
    head[CACHED] = head[USED] - head[HELD]
