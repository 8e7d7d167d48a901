"""Interface of the stores of both engines: named, sized entries whose sum is at most a capacity.

``docs/semantics.md`` (section 5, Stores) defines the meaning. The two implementations,
``reference/entry_store.py`` and ``core/stores/entry_store.py``, must agree in every answer. Keys,
owners and order numbers are int64. An *actor* is the number of the process that acts; it is
different for each process that acts on a store in one turn, and has no meaning beyond that turn.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

NOBODY = -1  # actor that has not acted in this turn
GONE = -1  # number of owners of an entry that is gone

# Answers of verbs. A negative one is an error, and has changed nothing.
REFUSED, DONE, CREATED = 0, 1, 2
OTHER_SIZE, NOT_THERE, NOT_OWNED, GROW = -1, -2, -3, -4

PARTS = -(2**62)  # the k-th part of split entries in a store has the key PARTS - k; k counts from 1


class StoreCounts(NamedTuple):
    """Numbers of holds and evictions of a store so far.

    Parameters
    ----------
    hits, misses : holds of an entry that was present, and holds that created it
    refused : holds of an entry that was gone and did not fit
    evictions : entries that were evicted to make room
    """

    hits: int = 0
    misses: int = 0
    refused: int = 0
    evictions: int = 0


class SeenEntry(NamedTuple):
    """Entry of a store as a process sees it; without owners it is cached."""

    key: int
    size: int
    owners: int


class StoreInterface(ABC):
    """Entries of one store; an entry is held (by n owners), cached (by none) or gone."""

    # Verbs: judged and applied at once.

    @abstractmethod
    def hold(self, actor: int, key: int, size: int, owner: int) -> int:
        """Add an owner to an entry, which is created if it is gone.

        Returns DONE, CREATED, REFUSED (it does not fit), OTHER_SIZE, or NOT_THERE (a part of a
        split entry is never created again).
        """

    @abstractmethod
    def release(self, actor: int, key: int, owner: int) -> int:
        """Remove an owner of an entry; returns DONE, NOT_THERE or NOT_OWNED."""

    @abstractmethod
    def release_all(self, actor: int, owner: int) -> int:
        """Remove an owner from all its entries, in the order of its holds; returns their number."""

    @abstractmethod
    def drop(self, actor: int, key: int) -> int:
        """Remove a cached entry; returns DONE, REFUSED (it is not cached for all) or NOT_THERE."""

    @abstractmethod
    def touch(self, actor: int, key: int) -> int:
        """Use an entry, for the order of eviction; returns DONE, REFUSED (gone) or NOT_THERE."""

    @abstractmethod
    def set_order(self, actor: int, key: int, number: int) -> int:
        """Set an entry's number for the order of eviction; returns as :meth:`touch`."""

    @abstractmethod
    def split(self, actor: int, key: int, sizes: NDArray[np.int64]) -> int:
        """Replace an entry by parts with the same owners.

        Returns the number k of the first part (see :data:`PARTS`), REFUSED (it is gone, or another
        process released it in this turn), OTHER_SIZE (the sum of the sizes) or NOT_THERE.
        """

    @abstractmethod
    def settle(self) -> tuple[int, int]:
        """Begin the next turn: releases count for all; returns the amounts used and held."""

    # Observations: what the actor changed in this turn as it is now, the rest as of the last turn.

    @abstractmethod
    def longest_prefix(self, actor: int, keys: NDArray[np.int64]) -> int:
        """Number of leading keys whose entries are present."""

    @abstractmethod
    def entry(self, actor: int, key: int) -> SeenEntry | None:
        """Entry of a key; None if it is gone."""

    @abstractmethod
    def entries(self, actor: int) -> Sequence[SeenEntry]:
        """All entries that are present, by key."""

    @abstractmethod
    def amounts(self, actor: int) -> tuple[int, int]:
        """Sum of the sizes of all entries, and of those that are held."""

    @property
    @abstractmethod
    def counts(self) -> StoreCounts:
        """Numbers of holds and evictions so far, in all turns."""

    @abstractmethod
    def size_now(self, key: int) -> int:
        """Size of an entry as it is now, for messages; 0 if it is gone."""
