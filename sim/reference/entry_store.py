"""Stores in the reference engine: entries in dictionaries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..engine_api.store_interface import (
    CREATED,
    DONE,
    NOT_OWNED,
    NOT_THERE,
    OTHER_SIZE,
    PARTS,
    REFUSED,
    SeenEntry,
    StoreCounts,
    StoreInterface,
)
from ..facts.eviction.rule import EvictionRule


@dataclass(eq=False)
class Entry:
    """Entry that is present; its numbers are those that eviction rules name."""

    key: int
    size: int
    created: int
    used: int = 0
    uses: int = 0
    order: int = 0
    zero: int = 0
    owners: dict[int, int] = field(default_factory=dict)  # number of holds by owner
    cached_by: int | None = None  # actor whose release made it cached in this turn

    @property
    def outside(self) -> int:
        """Position beyond the window; 0 inside."""
        return min(self.order, 0)

    @property
    def holds(self) -> int:
        """Number of its owners; an owner that holds it twice counts twice."""
        return sum(self.owners.values())

    @property
    def seen(self) -> SeenEntry:
        """Entry as processes see it."""
        return SeenEntry(self.key, self.size, self.holds)


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
        self.capacity, self.rule = capacity, rule
        self.present: dict[int, Entry] = {}
        self.owned: dict[int, dict[int, Entry]] = {}  # by owner, in the order of its first holds
        self.clock = self.parts = 0
        self._counts = StoreCounts()
        self.free = capacity  # for all; what an actor freed in this turn is its own
        self.freed: dict[int, int] = {}
        self.before: dict[int, SeenEntry | None] = {}  # entries that changed, as of the last turn
        self.changed_by: dict[int, set[int]] = {}

    def hold(self, actor: int, key: int, size: int, owner: int) -> int:
        """Add an owner to an entry, which is created if it is gone."""
        entry = self.present.get(key)
        if entry is not None and entry.size != size:
            return OTHER_SIZE
        if entry is None and key < PARTS:
            return REFUSED if self._is_known(actor, key) else NOT_THERE
        if entry is None and not self._make_room(actor, size):
            self._count(refused=1)
            return REFUSED
        self._note(actor, key)
        self.clock += 1
        if entry is None:
            made = self.present[key] = Entry(key, size, self.clock)
        self._count(hits=int(entry is not None), misses=int(entry is None))
        self._add_owner(entry or made, owner)
        return CREATED if entry is None else DONE

    def _add_owner(self, entry: Entry, owner: int) -> None:
        entry.used, entry.cached_by = self.clock, None
        entry.uses += 1
        entry.owners[owner] = entry.owners.get(owner, 0) + 1
        self.owned.setdefault(owner, {})[entry.key] = entry

    def _make_room(self, actor: int, size: int) -> bool:
        """Evict entries until a size fits, and take the room; False, and no change, if it cannot.

        An actor first takes the room that it freed itself.
        """
        room = self.free + self.freed.get(actor, 0)
        going = [] if size <= room else [e for e in self._by_rule() if self._is_free_to(actor, e)]
        if size > room + sum(e.size for e in going):
            return False
        for entry in going:
            if size <= self.free + self.freed.get(actor, 0):
                break
            self._remove(actor, entry)
            self._count(evictions=1)
        own = min(size, self.freed.get(actor, 0))
        self.freed[actor] = self.freed.get(actor, 0) - own
        self.free -= size - own
        return True

    def _by_rule(self) -> list[Entry]:
        """Entries in the order of eviction."""
        first, then = self.rule.first_by, self.rule.then_by
        return sorted(
            self.present.values(), key=lambda e: (getattr(e, first), getattr(e, then), e.created)
        )

    def _is_free_to(self, actor: int, entry: Entry) -> bool:
        """True if an entry is cached, and no other actor released it in this turn."""
        return not entry.owners and entry.cached_by in (None, actor)

    def _remove(self, actor: int, entry: Entry) -> None:
        self._note(actor, entry.key)
        del self.present[entry.key]
        self.freed[actor] = self.freed.get(actor, 0) + entry.size

    def release(self, actor: int, key: int, owner: int) -> int:
        """Remove an owner of an entry."""
        entry = self.present.get(key)
        if entry is None or owner not in entry.owners:
            return NOT_OWNED if self._is_known(actor, key) else NOT_THERE
        self._take_owner(actor, entry, owner, 1)
        return DONE

    def release_all(self, actor: int, owner: int) -> int:
        """Remove an owner from all its entries."""
        mine = list(self.owned.get(owner, {}).values())
        for entry in mine:
            self._take_owner(actor, entry, owner, entry.owners[owner])
        return len(mine)

    def _take_owner(self, actor: int, entry: Entry, owner: int, holds: int) -> None:
        self._note(actor, entry.key)
        self.clock += 1
        entry.used = self.clock
        entry.owners[owner] -= holds
        if not entry.owners[owner]:
            self._forget_owner(entry, owner)
        if not entry.owners:
            entry.cached_by = actor

    def _forget_owner(self, entry: Entry, owner: int) -> None:
        del entry.owners[owner], self.owned[owner][entry.key]
        if not self.owned[owner]:
            del self.owned[owner]

    def drop(self, actor: int, key: int) -> int:
        """Remove a cached entry."""
        entry = self.present.get(key)
        if entry is None or not self._is_free_to(actor, entry):
            return REFUSED if self._is_known(actor, key) else NOT_THERE
        self._remove(actor, entry)
        return DONE

    def touch(self, actor: int, key: int) -> int:
        """Use an entry, for the order of eviction."""
        entry = self.present.get(key)
        if entry is None:
            return REFUSED if self._is_known(actor, key) else NOT_THERE
        self.clock += 1
        entry.used = self.clock
        return DONE

    def set_order(self, actor: int, key: int, number: int) -> int:
        """Set an entry's number for the order of eviction."""
        entry = self.present.get(key)
        if entry is None:
            return REFUSED if self._is_known(actor, key) else NOT_THERE
        entry.order = number
        return DONE

    def split(self, actor: int, key: int, sizes: NDArray[np.int64]) -> int:
        """Replace an entry by parts with the same owners."""
        entry = self.present.get(key)
        if entry is None or not (entry.owners or self._is_free_to(actor, entry)):
            return REFUSED if self._is_known(actor, key) else NOT_THERE
        if sum(sizes.tolist()) != entry.size:
            return OTHER_SIZE
        self._note(actor, key)
        del self.present[key]
        for size in sizes.tolist():
            self._add_part(actor, entry, size)
        for owner in list(entry.owners):
            self._forget_owner(entry, owner)
        return self.parts - len(sizes) + 1

    def _add_part(self, actor: int, whole: Entry, size: int) -> None:
        """Create a part with the owners, the uses and the order number of the whole."""
        self.parts += 1
        self.clock += 1
        key = PARTS - self.parts
        self._note(actor, key)
        part = self.present[key] = Entry(key, size, self.clock, whole.used, whole.uses, whole.order)
        part.owners, part.cached_by = dict(whole.owners), whole.cached_by
        for owner in part.owners:
            self.owned[owner][key] = part

    def settle(self) -> tuple[int, int]:
        """Begin the next turn: releases count for all."""
        for key in self.before:
            if key in self.present:
                self.present[key].cached_by = None
        self.before, self.changed_by, self.freed = {}, {}, {}
        used, held = self.amounts(0)
        self.free = self.capacity - used
        return used, held

    def _note(self, actor: int, key: int) -> None:
        """Record that an actor changes an entry in this turn."""
        entry = self.present.get(key)
        self.before.setdefault(key, None if entry is None else entry.seen)
        self.changed_by.setdefault(key, set()).add(actor)

    def _count(self, **more: int) -> None:
        changed = {name: getattr(self._counts, name) + n for name, n in more.items()}
        self._counts = self._counts._replace(**changed)

    def _is_known(self, actor: int, key: int) -> bool:
        """True if an entry is present, or the actor cannot know that it is gone."""
        return key in self.present or self.entry(actor, key) is not None

    def longest_prefix(self, actor: int, keys: NDArray[np.int64]) -> int:
        """Number of leading keys whose entries are present."""
        every = keys.tolist()
        return next((i for i, k in enumerate(every) if self.entry(actor, k) is None), len(every))

    def entry(self, actor: int, key: int) -> SeenEntry | None:
        """Entry of a key; None if it is gone."""
        if key in self.before and actor not in self.changed_by[key]:
            return self.before[key]
        return self.present[key].seen if key in self.present else None

    def entries(self, actor: int) -> Sequence[SeenEntry]:
        """All entries that are present, by key."""
        return sorted(self._seen_entries(actor))

    def _seen_entries(self, actor: int) -> Iterator[SeenEntry]:
        for key in {*self.present, *self.before}:
            entry = self.entry(actor, key)
            if entry is not None:
                yield entry

    def amounts(self, actor: int) -> tuple[int, int]:
        """Sum of the sizes of all entries, and of those that are held."""
        seen = list(self._seen_entries(actor))
        return sum(e.size for e in seen), sum(e.size for e in seen if e.owners)

    @property
    def counts(self) -> StoreCounts:
        """Numbers of holds and evictions so far."""
        return self._counts

    def size_now(self, key: int) -> int:
        """Size of an entry as it is now; 0 if it is gone."""
        return self.present[key].size if key in self.present else 0
