"""Entries of one store in the compiled engine: arrays that grow, and kernels over them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from ...engine_api.store_interface import (
    GONE,
    GROW,
    NOBODY,
    SeenEntry,
    StoreCounts,
    StoreInterface,
)
from ...facts.eviction.rule import NUMBERS, EvictionRule
from ...kernel.jit import Int, compiled_for_argument_types, jit_without_refcounts
from . import store_layout as lay
from .entry_verbs import drop, hold, release, release_all, set_order, split, touch
from .hash_index import insert_row
from .owner_lists import count_owners
from .store_layout import NONE, Array, StoreArrays
from .turn_view import (
    amount_held,
    amount_used,
    find_entry,
    longest_prefix,
    owners_of,
    settle,
    size_of,
)

(
    HOLD, RELEASE, RELEASE_ALL, DROP, TOUCH, SET_ORDER, SPLIT, SETTLE, PREFIX, SIZE, OWNERS, USED,
    HELD, SIZE_NOW, OWNER_ROWS, FILL,
) = range(16)  # fmt: skip
NO_KEYS = np.empty(0, np.int64)
FEW = 64  # rows of a new store


@jit_without_refcounts
def fill_index(s: StoreArrays) -> None:
    """Insert the rows that are in use into the hash tables: entries by key, holds by owner."""
    head, entries, holds, index = s
    for e in range(head[lay.ENTRY_TOP]):
        if entries[e, lay.OWNERS] != lay.UNUSED:
            insert_row(entries, index, head[lay.KEYS_AT], head[lay.KEYS_MASK], e)
    for h in range(head[lay.HOLD_TOP]):
        if holds[h, lay.OF] != lay.UNUSED:
            insert_row(holds, index, head[lay.PAIRS_AT], head[lay.PAIRS_MASK], h)


@jit_without_refcounts
def look(s: StoreArrays, verb: Int, actor: Int, key: Int, keys: Array) -> Int:
    """Observe something of a store."""
    if verb == PREFIX:
        return longest_prefix(s, actor, keys)
    if verb == SIZE:
        return size_of(s, actor, key)
    if verb == OWNERS:
        return owners_of(s, actor, key)
    if verb in (SIZE_NOW, OWNER_ROWS):
        e = find_entry(s, key)
        if e == NONE or s[1][e, lay.OWNERS] == GONE:
            return 0
        return s[1][e, lay.SIZE] if verb == SIZE_NOW else count_owners(s, e)
    return amount_used(s, actor) if verb == USED else amount_held(s, actor)


@jit_without_refcounts
def run_verb(s: StoreArrays, verb: Int, actor: Int, key: Int, a: Int, b: Int, keys: Array) -> Int:
    """Run one verb or observation: one kernel for Python to call, compiled once."""
    if verb == HOLD:
        return hold(s, actor, key, a, b)
    if verb == RELEASE:
        return release(s, actor, key, a)
    if verb == RELEASE_ALL:
        return release_all(s, actor, a)
    if verb == DROP:
        return drop(s, actor, key)
    if verb == TOUCH:
        return touch(s, actor, key)
    if verb == SET_ORDER:
        return set_order(s, actor, key, a)
    if verb == SPLIT:
        return split(s, actor, key, keys)
    if verb == SETTLE:
        settle(s)
        return 0
    if verb == FILL:
        fill_index(s)
        return 0
    return look(s, verb, actor, key, keys)


@cache
def _compiled_verb() -> Callable[..., int]:
    """Kernel :func:`run_verb`, compiled for the arrays of a store."""
    s = EntryStore.new_arrays()
    return compiled_for_argument_types(run_verb, s, 0, 0, 0, 0, 0, NO_KEYS)


class EntryStore(StoreInterface):
    """Entries of one store.

    Parameters
    ----------
    capacity : int
        Largest sum of the sizes of all entries.
    rule : eviction rule

    Examples
    --------
    >>> from foretrace.sim.facts.eviction.oldest_entry import OldestEntry
    >>> store = EntryStore(4, OldestEntry)
    >>> [store.hold(0, key, 2, owner=7) for key in (1, 2, 3)]
    [2, 2, 0]
    >>> store.release(0, 1, owner=7), store.hold(0, 3, 2, owner=7), store.amounts(0)
    (1, 2, (4, 4))
    """

    def __init__(self, capacity: int, rule: type[EvictionRule]):
        self.arrays = self.new_arrays(capacity, rule)
        self._run = _compiled_verb()

    @staticmethod
    def new_arrays(capacity: int = 1, rule: type[EvictionRule] = EvictionRule) -> StoreArrays:
        """Arrays of an empty store."""
        head = np.zeros(lay.HEADER, np.int64)
        head[[lay.CAPACITY, lay.ROOM]] = capacity
        head[lay.FIRST_BY] = lay.ZERO + NUMBERS.index(rule.first_by)
        head[lay.THEN_BY] = lay.ZERO + NUMBERS.index(rule.then_by)
        head[[lay.ACTING, lay.ENTRY_FREE, lay.HOLD_FREE]] = NONE
        return _laid_out(head, FEW, 2 * FEW, 4 * FEW, 8)

    def grow(self, actor: int, entries: int = 1, holds: int = 2) -> None:
        """Enlarge the arrays, so that a verb of an actor that needs so many rows can run."""
        head, rows, held, _ = self.arrays
        few = 2 * int(head[lay.ENTRY_COUNT] + entries), 2 * int(head[lay.HOLD_COUNT] + holds)
        most = max(few[0], len(rows)), max(few[1], len(held))
        marks = max(2 * int(head[lay.MARK_COUNT] + most[0] + 1), int(head[lay.MOST_MARKS]))
        actors = max(2 * (actor + 1), int(head[lay.MOST_ACTORS]))
        self.arrays = _laid_out(head, most[0], most[1], marks, actors, self.arrays)
        self._run(self.arrays, FILL, NOBODY, 0, 0, 0, NO_KEYS)

    def _act(
        self, verb: int, actor: int, key: int = 0, a: int = 0, b: int = 0, keys: Array = NO_KEYS
    ) -> int:
        """Run a verb, with larger arrays if it needs them."""
        answer = self._run(self.arrays, verb, actor, key, a, b, keys)
        if answer == GROW:
            more = max(1, len(keys))
            owners = self._run(self.arrays, OWNER_ROWS, actor, key, 0, 0, NO_KEYS)
            self.grow(actor, more, more * owners + 2)
            answer = self._run(self.arrays, verb, actor, key, a, b, keys)
        return answer

    def hold(self, actor: int, key: int, size: int, owner: int) -> int:
        """Add an owner to an entry, which is created if it is gone."""
        return self._act(HOLD, actor, key, size, owner)

    def release(self, actor: int, key: int, owner: int) -> int:
        """Remove an owner of an entry."""
        return self._act(RELEASE, actor, key, owner)

    def release_all(self, actor: int, owner: int) -> int:
        """Remove an owner from all its entries."""
        return self._act(RELEASE_ALL, actor, 0, owner)

    def drop(self, actor: int, key: int) -> int:
        """Remove a cached entry."""
        return self._act(DROP, actor, key)

    def touch(self, actor: int, key: int) -> int:
        """Use an entry, for the order of eviction."""
        return self._act(TOUCH, actor, key)

    def set_order(self, actor: int, key: int, number: int) -> int:
        """Set an entry's number for the order of eviction."""
        return self._act(SET_ORDER, actor, key, number)

    def split(self, actor: int, key: int, sizes: NDArray[np.int64]) -> int:
        """Replace an entry by parts with the same owners."""
        return self._act(SPLIT, actor, key, keys=sizes)

    def settle(self) -> tuple[int, int]:
        """Begin the next turn: releases count for all."""
        self._act(SETTLE, NOBODY)
        return self._head(lay.USED), self._head(lay.HELD)

    def longest_prefix(self, actor: int, keys: NDArray[np.int64]) -> int:
        """Number of leading keys whose entries are present."""
        return self._act(PREFIX, actor, keys=keys)

    def entry(self, actor: int, key: int) -> SeenEntry | None:
        """Entry of a key; None if it is gone."""
        owners = self._act(OWNERS, actor, key)
        return None if owners == GONE else SeenEntry(key, self._act(SIZE, actor, key), owners)

    def entries(self, actor: int) -> Sequence[SeenEntry]:
        """All entries that are present, by key."""
        head, rows, _, _ = self.arrays
        there = rows[: head[lay.ENTRY_TOP]]
        keys = there[there[:, lay.OWNERS] != lay.UNUSED, lay.KEY]
        seen = (self.entry(actor, key) for key in np.sort(keys).tolist())
        return [entry for entry in seen if entry is not None]

    def amounts(self, actor: int) -> tuple[int, int]:
        """Sum of the sizes of all entries, and of those that are held."""
        return self._act(USED, actor), self._act(HELD, actor)

    @property
    def counts(self) -> StoreCounts:
        """Numbers of holds and evictions so far."""
        names = lay.HITS, lay.MISSES, lay.REFUSALS, lay.EVICTIONS
        return StoreCounts(*map(self._head, names))

    def size_now(self, key: int) -> int:
        """Size of an entry as it is now; 0 if it is gone."""
        return self._act(SIZE_NOW, NOBODY, key)

    def _head(self, number: int) -> int:
        return int(self.arrays[0][number])


def _laid_out(
    head: Array, entries: int, holds: int, marks: int, actors: int, old: StoreArrays = None
) -> StoreArrays:
    """Arrays with room for so many rows; they take the contents of the old ones."""
    keys_mask, pairs_mask, at = lay.segments(entries, holds, marks, actors)
    s = head, _resized(entries, lay.ENTRY, old, 1), _resized(holds, lay.HOLD, old, 2), (
        np.full(at[-1], NONE, np.int64)
    )  # fmt: skip
    names = [lay.KEYS_AT, lay.PAIRS_AT, lay.HEAP_AT, lay.MARKS_AT, lay.ACTORS_AT]
    if old is not None:
        for name, first in zip(names[2:], at[2:], strict=False):
            before = old[3][head[name] : _end_of(head, name, len(old[3]))]
            s[3][first : first + len(before)] = before
    head[names] = at[:-1]
    head[[lay.KEYS_MASK, lay.PAIRS_MASK]] = keys_mask, pairs_mask
    head[[lay.MOST_MARKS, lay.MOST_ACTORS]] = marks, actors
    return s


def _resized(rows: int, columns: int, old: StoreArrays, which: int) -> Array:
    """Table with more rows, which begins with the rows of the old one."""
    made = _aligned_zeros(rows * columns).reshape(rows, columns)
    if old is not None:
        made[: len(old[which])] = old[which]
    return made


def _end_of(head: Array, segment: int, length: int) -> int:
    """Offset at which a segment of ``index`` ends."""
    following = {lay.HEAP_AT: lay.MARKS_AT, lay.MARKS_AT: lay.ACTORS_AT}.get(segment)
    return length if following is None else int(head[following])


def _aligned_zeros(count: int) -> Array:
    """Zeros that begin at a cache line."""
    wide = np.zeros(count + 7, np.int64)
    first = -(wide.ctypes.data >> 3) & 7
    return wide[first : first + count]
