"""Store of a component, as a process uses it: entries by key, with one owner more or less."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import index
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..argument import shown
from ..engine_api.store_control import StoreControl
from ..engine_api.store_interface import PARTS, StoreCounts
from ..errors import SimulationError

Key = int | str
LOWEST, HIGHEST = -(2**63), 2**63 - 1


class StoreEntry(NamedTuple):
    """Entry of a store; without owners it is cached.

    Parameters
    ----------
    key : Number or name.
    size : Size in the component's unit.
    owners : Number of its owners; an owner that holds it twice counts twice.
    """

    key: Key
    size: int
    owners: int


class StoreHandle:
    """Entries of one store; an entry is held (by n owners), cached (by none) or gone.

    A key is a number of 0 or more, or a text. Actions are judged and applied at once. Observations
    show the end of the last turn, and the changes of this process since then.

    Parameters
    ----------
    stores : stores of the run
    component : number of the store's component
    owner : default owner of what the process holds
    check_touch : function that raises an error if the process may not change the component

    Examples
    --------
    >>> from foretrace.sim.facts.eviction.store import Store
    >>> from foretrace.sim.facts.system import Component, System
    >>> from foretrace.sim.run.simulation import Simulation
    >>> def server(sim):
    ...     prefix = sim.store("node0.prefix")
    ...     assert prefix.hold("system prompt", 2) and prefix.hold(7, 1)
    ...     prefix.release(7)
    ...     assert prefix.hold(8, 2) and 7 not in prefix  # it was cached, and had to go
    ...     sim.emit("present", prefix.longest_prefix(["system prompt", 8, 9]))
    ...     yield sim.settled()
    >>> system = System((Component("node0.prefix", "memory", capacity=Store(4), unit="block"),), ())
    >>> result = Simulation(system, {}, engine="reference").run(None, server)
    >>> result.metrics, result.stores["node0.prefix"].counts.evictions
    ((('present', 0.0, 2.0),), 1)
    """

    def __init__(
        self, stores: StoreControl, component: int, owner: int, check_touch: Callable[[], object]
    ):
        self._stores, self._component, self._owner = stores, component, owner
        self._check_touch = check_touch
        stores.of(component)

    # Actions.

    def hold(self, key: Key, size: int, owner: int | None = None) -> bool:
        """Add an owner to an entry; returns False if it does not fit.

        An entry that is gone is created. If there is too little room, cached entries are evicted by
        the store's rule.

        Parameters
        ----------
        size : in the component's unit; the same for each hold of an entry
        owner : number of the owner; by default the job, which releases its entries when it ends
        """
        self._check_touch()
        return self._stores.hold(
            self._component, self._number(key), self._int64("size", size), self._owner_number(owner)
        )

    def release(self, key: Key, owner: int | None = None) -> None:
        """Remove an owner of an entry; without owners it is cached."""
        self._check_touch()
        self._stores.release(self._component, self._number(key), self._owner_number(owner))

    def release_all(self, owner: int | None = None) -> None:
        """Remove an owner from all its entries in this store."""
        self._check_touch()
        self._stores.release_all(self._owner_number(owner), self._component)

    def drop(self, key: Key) -> bool:
        """Remove a cached entry; returns False if it is not cached, or not yet for this process."""
        self._check_touch()
        return self._stores.drop(self._component, self._number(key))

    def touch(self, key: Key) -> None:
        """Use an entry, for the order of eviction."""
        self._check_touch()
        self._stores.touch(self._component, self._number(key))

    def set_order(self, key: Key, number: int) -> None:
        """Set an entry's number for the eviction rules ``order`` and ``window``; it begins as 0."""
        self._check_touch()
        self._stores.set_order(self._component, self._number(key), self._int64("number", number))

    def split(self, key: Key, sizes: Sequence[int]) -> list[int]:
        """Replace an entry by parts with the same owners; returns the keys of the parts.

        It returns no keys if another process evicted or released the entry in this turn.

        Parameters
        ----------
        sizes : sizes of the parts, which sum to the entry's size
        """
        self._check_touch()
        return self._stores.split(self._component, self._number(key), sizes)

    # Observations.

    def longest_prefix(self, keys: Sequence[Key] | NDArray[np.int64]) -> int:
        """Number of leading keys whose entries are present."""
        if not (isinstance(keys, np.ndarray) and keys.dtype == np.int64):
            if not isinstance(keys, Iterable) or isinstance(keys, str | bytes):
                raise self._error(f"keys is {shown(keys)}; give a list of keys")
            keys = np.array([self._number(key) for key in keys], np.int64)
        return self._stores.longest_prefix(self._component, np.ascontiguousarray(keys))

    def __contains__(self, key: Key) -> bool:
        return self._stores.entry(self._component, self._number(key)) is not None

    def owners(self, key: Key) -> int:
        """Number of owners of an entry; 0 if it is cached."""
        return self._stores.known_entry(self._component, self._number(key)).owners

    def size(self, key: Key) -> int:
        """Size of an entry."""
        return self._stores.known_entry(self._component, self._number(key)).size

    def entries(self) -> list[StoreEntry]:
        """All entries that are present, in the order of the numbers of their keys."""
        every = self._stores.entries(self._component)
        return [StoreEntry(self._stores.name_of(k), size, owners) for k, size, owners in every]

    @property
    def used(self) -> int:
        """Sum of the sizes of all entries."""
        return self._stores.amounts(self._component)[0]

    @property
    def held(self) -> int:
        """Sum of the sizes of the entries that are held."""
        return self._stores.amounts(self._component)[1]

    @property
    def cached(self) -> int:
        """Sum of the sizes of the entries that are cached."""
        return self.used - self.held

    @property
    def counts(self) -> StoreCounts:
        """Numbers of hits, misses, refused holds and evictions so far, of all processes."""
        return self._stores.counts(self._component)

    def _number(self, key: Key) -> int:
        """Key as a number."""
        if isinstance(key, str):
            return self._stores.number_of_name(key)
        number = self._int64("key", key)
        if PARTS <= number < 0:
            raise self._error(f"key is {number}; give a number of 0 or more, or a text")
        return number

    def _owner_number(self, owner: int | None) -> int:
        return self._owner if owner is None else self._int64("owner", owner)

    def _int64(self, what: str, value: int) -> int:
        """Integer of 64 bits."""
        try:
            number = index(value)
        except TypeError:
            raise self._error(f"{what} is {value!r}; give a whole number") from None
        if not LOWEST <= number <= HIGHEST:
            raise self._error(f"{what} is {number}; give a number of 64 bits")
        return number

    def _error(self, what: str) -> SimulationError:
        name = self._stores.engine.parts.names[self._component]
        return SimulationError("action", f"{name}: {what}")
