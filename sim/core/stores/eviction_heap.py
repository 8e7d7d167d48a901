"""Binary heap of cached entries in the order of eviction, corrected late.

An item is an entry's priority (the two numbers of the rule, then its creation) and its row. An
entry that is held keeps its item, and one that was used later keeps its earlier item: the item is
corrected when it comes to the top. So a hold and a release of one entry leave the heap unchanged.
"""

from __future__ import annotations

from ...kernel.jit import Int, jit_without_refcounts
from .store_layout import (
    AT_FIRST,
    AT_THEN,
    CREATION,
    FIRST_BY,
    HEAP_AT,
    HEAP_COUNT,
    ITEM,
    LISTED,
    NONE,
    OWNERS,
    PRESENT,
    THEN_BY,
    Array,
    StoreArrays,
)

KEPT = 2  # value of LISTED while the heap is rebuilt


@jit_without_refcounts
def is_before(index: Array, i: Int, j: Int) -> bool:
    """True if the item at offset ``i`` goes before the one at ``j``."""
    if index[i] != index[j]:
        return bool(index[i] < index[j])
    if index[i + 1] != index[j + 1]:
        return bool(index[i + 1] < index[j + 1])
    return bool(index[i + 2] < index[j + 2])


@jit_without_refcounts
def swap_items(index: Array, i: Int, j: Int) -> None:
    """Swap two items."""
    for k in range(ITEM):
        index[i + k], index[j + k] = index[j + k], index[i + k]


@jit_without_refcounts
def sift_up(index: Array, at: Int, n: Int) -> None:
    """Move item ``n`` up to its position."""
    while n and is_before(index, at + n * ITEM, at + ((n - 1) >> 1) * ITEM):
        above = (n - 1) >> 1
        swap_items(index, at + n * ITEM, at + above * ITEM)
        n = above


@jit_without_refcounts
def sift_down(index: Array, at: Int, count: Int, n: Int) -> None:
    """Move item ``n`` down to its position."""
    while True:
        below = 2 * n + 1
        if below >= count:
            return
        if below + 1 < count and is_before(index, at + (below + 1) * ITEM, at + below * ITEM):
            below += 1
        if not is_before(index, at + below * ITEM, at + n * ITEM):
            return
        swap_items(index, at + n * ITEM, at + below * ITEM)
        n = below


@jit_without_refcounts
def list_entry(s: StoreArrays, e: Int) -> None:
    """Make sure that the heap has an item of a cached entry, no later than its priority."""
    head, entries, _, _ = s
    first, then = entries[e, head[FIRST_BY]], entries[e, head[THEN_BY]]
    if entries[e, LISTED]:
        listed = entries[e, AT_FIRST]
        if listed < first or (listed == first and entries[e, AT_THEN] <= then):
            return
    if head[HEAP_COUNT] >= 2 * head[PRESENT] + 32:
        remove_old_items(s)
    push_entry(s, e)


@jit_without_refcounts
def push_entry(s: StoreArrays, e: Int) -> None:
    """Add an item of an entry with its present priority; an older item becomes invalid."""
    head, entries, _, index = s
    at, n = head[HEAP_AT], head[HEAP_COUNT]
    head[HEAP_COUNT] = n + 1
    entries[e, LISTED] = 1
    entries[e, AT_FIRST], entries[e, AT_THEN] = (
        entries[e, head[FIRST_BY]], entries[e, head[THEN_BY]],
    )  # fmt: skip
    item = at + n * ITEM
    index[item], index[item + 1] = entries[e, AT_FIRST], entries[e, AT_THEN]
    index[item + 2], index[item + 3] = entries[e, CREATION], e
    sift_up(index, at, n)


@jit_without_refcounts
def is_valid(s: StoreArrays, item: Int) -> bool:
    """True if an item is the listed one of its entry."""
    _, entries, _, index = s
    e = index[item + 3]
    return bool(
        entries[e, LISTED]
        and entries[e, CREATION] == index[item + 2]
        and entries[e, AT_FIRST] == index[item]
        and entries[e, AT_THEN] == index[item + 1]
    )


@jit_without_refcounts
def remove_old_items(s: StoreArrays) -> None:
    """Rebuild the heap from the valid items of cached entries, one item each."""
    head, entries, _, index = s
    at, kept = head[HEAP_AT], 0
    for n in range(head[HEAP_COUNT]):
        item = at + n * ITEM
        e = index[item + 3]
        if not is_valid(s, item) or entries[e, LISTED] == KEPT:
            continue
        entries[e, LISTED] = 0 if entries[e, OWNERS] != 0 else KEPT
        if entries[e, LISTED] == KEPT:
            swap_items(index, item, at + kept * ITEM)
            kept += 1
    head[HEAP_COUNT] = kept
    for n in range(kept):
        entries[index[at + n * ITEM + 3], LISTED] = 1
    for n in range(kept // 2 - 1, -1, -1):
        sift_down(index, at, kept, n)


@jit_without_refcounts
def next_cached(s: StoreArrays) -> Int:
    """Remove the cached entry that goes first from the heap; returns its row, NONE if empty."""
    head, entries, _, index = s
    at = head[HEAP_AT]
    while head[HEAP_COUNT]:
        e, valid = index[at + 3], is_valid(s, at)
        head[HEAP_COUNT] -= 1
        swap_items(index, at, at + head[HEAP_COUNT] * ITEM)
        sift_down(index, at, head[HEAP_COUNT], 0)
        if not valid:
            continue
        entries[e, LISTED] = 0
        if entries[e, OWNERS] != 0:
            continue
        if (
            entries[e, AT_FIRST] == entries[e, head[FIRST_BY]]
            and entries[e, AT_THEN] == entries[e, head[THEN_BY]]
        ):
            return e
        push_entry(s, e)
    return NONE
