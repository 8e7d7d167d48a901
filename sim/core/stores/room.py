"""Room of a store: what an actor may use in this turn, and the eviction of cached entries."""

from __future__ import annotations

from ...engine_api.store_interface import GONE
from ...kernel.jit import Int, jit_without_refcounts
from .eviction_heap import list_entry, next_cached
from .store_layout import (
    ACTOR,
    ACTOR_TURN,
    ACTORS_AT,
    ASIDE,
    CACHED,
    CACHED_BY,
    CACHED_IN,
    EVICTIONS,
    FREED,
    LISTED,
    NONE,
    OWNERS,
    PRESENT,
    RELEASED,
    ROOM,
    SIZE,
    TURN,
    USED,
    StoreArrays,
)
from .turn_view import mark_changed


@jit_without_refcounts
def actor_row(s: StoreArrays, actor: Int) -> Int:
    """Offset of an actor in ``index``; its numbers are 0 when it first acts in a turn."""
    head, _, _, index = s
    at = head[ACTORS_AT] + actor * ACTOR
    if index[at + ACTOR_TURN] != head[TURN]:
        index[at + ACTOR_TURN], index[at + FREED], index[at + RELEASED] = head[TURN], 0, 0
    return at


@jit_without_refcounts
def is_free_to(s: StoreArrays, actor: Int, e: Int) -> bool:
    """True if an entry is cached, and no other actor released it in this turn."""
    head, entries, _, _ = s
    return bool(
        entries[e, OWNERS] == 0
        and (entries[e, CACHED_IN] != head[TURN] or entries[e, CACHED_BY] == actor)
    )


@jit_without_refcounts
def take_from_cached(s: StoreArrays, e: Int) -> None:
    """Subtract an entry from the amount that may be evicted."""
    head, entries, _, index = s
    if entries[e, CACHED_IN] == head[TURN]:
        index[actor_row(s, entries[e, CACHED_BY]) + RELEASED] -= entries[e, SIZE]
    else:
        head[CACHED] -= entries[e, SIZE]


@jit_without_refcounts
def make_room(s: StoreArrays, actor: Int, size: Int) -> bool:
    """Evict entries until a size fits, and take the room; False, and no change, if it cannot.

    An actor first takes the room that it freed itself.
    """
    head, _, _, index = s
    at = actor_row(s, actor)
    if size > head[ROOM] + index[at + FREED]:
        if size > head[ROOM] + index[at + FREED] + head[CACHED] + index[at + RELEASED]:
            return False
        evict(s, actor, size)
    own = min(size, index[at + FREED])
    index[at + FREED] -= own
    head[ROOM] -= size - own
    return True


@jit_without_refcounts
def evict(s: StoreArrays, actor: Int, size: Int) -> None:
    """Evict cached entries until a size fits; those that others released in this turn stay."""
    head, entries, _, index = s
    at, aside = actor_row(s, actor), NONE
    while size > head[ROOM] + index[at + FREED]:
        e = next_cached(s)
        if is_free_to(s, actor, e):
            take_from_cached(s, e)
            remove_entry(s, actor, e)
            index[at + FREED] += entries[e, SIZE]
            head[EVICTIONS] += 1
        else:
            entries[e, ASIDE] = aside
            aside = e
    while aside != NONE:
        following = entries[aside, ASIDE]
        list_entry(s, aside)
        aside = following


@jit_without_refcounts
def remove_entry(s: StoreArrays, actor: Int, e: Int) -> None:
    """Make an entry without owners gone; its row is freed when the turn ends."""
    head, entries, _, _ = s
    mark_changed(s, actor, e)
    entries[e, OWNERS], entries[e, LISTED] = GONE, 0
    head[USED] -= entries[e, SIZE]
    head[PRESENT] -= 1
