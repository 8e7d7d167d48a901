"""Commands and observations of processes on stores: the part that both engines share.

Verbs are judged and applied at once. At the start of the next turn the stores that changed settle,
and the amount that is held becomes the held amount of the component.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from weakref import proxy

import numpy as np
import simpy
from numpy.typing import NDArray

from ..argument import as_column, shown
from ..errors import SimulationError
from .capacity_ledger import CapacityLedger
from .interface import ComponentTable
from .store_interface import (
    CREATED,
    DONE,
    NOBODY,
    NOT_OWNED,
    NOT_THERE,
    OTHER_SIZE,
    PARTS,
    SeenEntry,
    StoreCounts,
    StoreInterface,
)

MOST_SAMPLES = 4096  # of one store


class StoreHolder(Protocol):
    """Interface of an engine that has stores."""

    env: simpy.Environment
    parts: ComponentTable
    ledger: CapacityLedger

    def failed(self, component: int) -> bool:
        """True if a component has failed, as of the end of the last turn."""

    def _new_store(self, component: int) -> StoreInterface:
        """Empty store of a component."""

    def _note_action(self, action: Callable[[], None]) -> None:
        """Record an action for the next turn."""

    def _hold_capacity(self, component: int, amount: int) -> None:
        """Add to the amount that processes hold."""

    def _return_capacity(self, component: int, amount: int) -> None:
        """Subtract from the amount that processes hold."""


class AmountSamples:
    """Amounts of a store over time, in constant memory.

    The last state in each window of time is kept. When there are too many windows, they become
    twice as wide.

    Parameters
    ----------
    most : int
        Largest number of samples.

    Examples
    --------
    >>> samples = AmountSamples(most=3)
    >>> for tick in (0, 1, 2, 3, 9):
    ...     samples.add(tick, used=tick, held=0)
    >>> samples.rows.tolist(), samples.window
    ([[1, 1, 0], [3, 3, 0], [9, 9, 0]], 2)
    """

    def __init__(self, most: int = MOST_SAMPLES):
        self.most, self.window, self._rows = most, 1, array("q")

    def add(self, tick: int, used: int, held: int) -> None:
        """Record the amounts from a tick on."""
        rows = self._rows
        if rows and rows[-3] // self.window == tick // self.window:
            del rows[-3:]
        rows.extend((tick, used, held))
        while len(rows) > 3 * self.most:
            self.window *= 2
            found = self.rows
            last = np.append(np.diff(found[:, 0] // self.window) > 0, True)
            rows = self._rows = array("q", found[last].ravel().tolist())

    def extend(self, more: NDArray[np.int64]) -> None:
        """Record rows as they would be added one by one: (n, 3) tick, used, held."""
        every = np.concatenate([self.rows, more])
        while True:
            last = np.append(np.diff(every[:, 0] // self.window) > 0, True)
            if np.count_nonzero(last) <= self.most:
                break
            self.window *= 2
        self._rows = array("q", every[last].ravel().tolist())

    @property
    def rows(self) -> NDArray[np.int64]:
        """(n, 3) tick, amount used and amount held from that tick on."""
        return np.array(self._rows, np.int64).reshape(-1, 3)


@dataclass(frozen=True)
class StoreHistory:
    """What happened in one store in a run.

    Parameters
    ----------
    counts : numbers of hits, misses, refused holds and evictions
    samples : (n, 3) tick, amount used (held or cached) and amount held from that tick on; the last
        state of each window of equal length
    window : length of that window in ticks
    """

    counts: StoreCounts = field(default_factory=StoreCounts)
    samples: NDArray[np.int64] = field(default_factory=lambda: np.empty((0, 3), np.int64))
    window: int = 1


class StoreControl:
    """Stores of a run, by component.

    Parameters
    ----------
    engine : StoreHolder
        Engine that applies the changes.
    """

    def __init__(self, engine: StoreHolder):
        self.engine: StoreHolder = proxy(engine)  # as of `Thresholds`
        self._stores: dict[int, StoreInterface] = {}
        self._samples: dict[int, AmountSamples] = {}
        self._held: dict[int, int] = {}  # as of the last turn
        self._changed: dict[int, None] = {}
        self._actors: dict[simpy.Process | None, int] = {}  # that changed a store in this turn
        self._numbers: dict[str, int] = {}  # of names
        self._names: list[str] = []

    # Keys: a process may use names, which the run numbers.

    def number_of_name(self, name: str) -> int:
        """Key of an entry that a process names by a text."""
        number = self._numbers.setdefault(name, len(self._names))
        if number == len(self._names):
            self._names.append(name)
        return -1 - number

    def name_of(self, key: int) -> int | str:
        """Key of an entry as processes use it: its name, if it has one."""
        return self._names[-1 - key] if PARTS < key < 0 else key

    # Verbs.

    def hold(self, component: int, key: int, size: int, owner: int = 0) -> bool:
        """Add an owner to an entry, which is created if it is gone; False if it does not fit."""
        store = self.of(component)
        most = self.engine.parts.capacity_of(component)
        if not 1 <= size <= most:
            raise self._error(
                component, key, f"has size {size}; give one between 1 and the store's {most}"
            )
        if self.engine.failed(component):
            return False
        answer = store.hold(self._actor(), key, size, owner)
        if answer == OTHER_SIZE:
            raise self._size_error(component, key, size)
        if answer == NOT_THERE:
            raise self._error(component, key, "is a part that is gone; hold and split a new entry")
        return self._note_change(component, answer in (DONE, CREATED))

    def release(self, component: int, key: int, owner: int = 0) -> None:
        """Remove an owner of an entry."""
        answer = self.of(component).release(self._actor(), key, owner)
        if answer == NOT_OWNED:
            raise self._error(
                component, key, f"is not held by owner {owner}, which releases it; release each "
                "hold once"
            )  # fmt: skip
        self._check_known(component, key, answer)
        self._note_change(component, True)

    def release_all(self, owner: int, component: int | None = None) -> None:
        """Remove an owner from all its entries, in one store or in all."""
        for c in tuple(self._stores) if component is None else (component,):
            released = self.of(c).release_all(self._actor(), owner)
            self._note_change(c, released > 0)

    def drop(self, component: int, key: int) -> bool:
        """Remove a cached entry; False if it is held, or if another process released it now."""
        answer = self.of(component).drop(self._actor(), key)
        self._check_known(component, key, answer)
        return self._note_change(component, answer == DONE)

    def touch(self, component: int, key: int) -> None:
        """Use an entry, for the order of eviction."""
        self._check_known(component, key, self.of(component).touch(self._actor(), key))

    def set_order(self, component: int, key: int, number: int) -> None:
        """Set an entry's number for the order of eviction."""
        rule = self.engine.parts.stores[component]
        if not rule.keeps_order():
            raise self._error(
                component, key, f"gets number {number}, but the rule {rule.registered_name!r} "
                "ignores numbers; declare eviction order or window"
            )  # fmt: skip
        answer = self.of(component).set_order(self._actor(), key, number)
        self._check_known(component, key, answer)

    def split(self, component: int, key: int, sizes: Sequence[int]) -> list[int]:
        """Replace an entry by parts with the same owners; returns the keys of the parts.

        Empty if another process took the entry in this turn.
        """

        def refuse(_: str = "") -> SimulationError:
            why = f"is split into {shown(sizes)}; give sizes of 1 or more"
            return self._error(component, key, why)

        parts = np.atleast_1d(as_column("sizes", sizes, np.int64, refuse))
        if parts.ndim > 1 or not np.ndim(sizes) or not len(parts) or parts.min() < 1:
            raise refuse()
        answer = self.of(component).split(self._actor(), key, parts)
        if answer == OTHER_SIZE:
            raise self._size_error(component, key, sum(parts.tolist()))
        self._check_known(component, key, answer)
        self._note_change(component, answer > 0)
        return [PARTS - answer - i for i in range(len(parts))] if answer > 0 else []

    # Observations.

    def entry(self, component: int, key: int) -> SeenEntry | None:
        """Entry of a key; None if it is gone."""
        return self.of(component).entry(self._observer(), key)

    def known_entry(self, component: int, key: int) -> SeenEntry:
        """Entry of a key, which must be present."""
        entry = self.entry(component, key)
        self._check_known(component, key, NOT_THERE if entry is None else DONE)
        return entry  # type: ignore[return-value]

    def entries(self, component: int) -> Sequence[SeenEntry]:
        """All entries that are present, by key."""
        return self.of(component).entries(self._observer())

    def amounts(self, component: int) -> tuple[int, int]:
        """Sum of the sizes of all entries, and of those that are held."""
        return self.of(component).amounts(self._observer())

    def longest_prefix(self, component: int, keys: NDArray[np.int64]) -> int:
        """Number of leading keys whose entries are present."""
        return self.of(component).longest_prefix(self._observer(), keys)

    def counts(self, component: int) -> StoreCounts:
        """Numbers of holds and evictions so far."""
        return self.of(component).counts

    def history(self) -> dict[int, StoreHistory]:
        """History of each store that was used, by component."""
        return {
            c: StoreHistory(self._stores[c].counts, samples.rows, samples.window)
            for c, samples in sorted(self._samples.items())
        }

    # The same without Python: see `core/policies/lent_stores.py`.

    def held_of(self, component: int) -> int:
        """Amount of a store that is held, as of the last turn."""
        return self._held.get(component, 0)

    def add_samples(self, component: int, rows: NDArray[np.int64]) -> None:
        """Record (n, 3) ticks, used and held amounts of turns."""
        if len(rows):
            self._samples[component].extend(rows)

    def take_back(
        self, held: Mapping[int, int], changed: Sequence[int], actors: Sequence[Any]
    ) -> Callable[[], None] | None:
        """Take stores back; returns the action of the next turn if some changed in this one.

        Parameters
        ----------
        held : amount of each that is held, as of the last turn
        changed : those that changed in this turn, in order
        actors : processes in the order of their numbers
        """
        self._held.update(held)
        self._actors = {process: k for k, process in enumerate(actors)} if changed else {}
        self._changed = dict.fromkeys(changed)
        return self._settle if changed else None

    # Turns.

    def of(self, component: int) -> StoreInterface:
        """Entries of a component's store."""
        store = self._stores.get(component)
        if store is None:
            if component not in self.engine.parts.stores:
                raise self._no_store_error(component)
            store = self._stores[component] = self.engine._new_store(component)
            self._samples[component] = AmountSamples()
        return store

    def _observer(self) -> int:
        return self._actors.get(self.engine.env.active_process, NOBODY)

    def _actor(self) -> int:
        """Number of the acting process among those that acted on a store in this turn."""
        return self._actors.setdefault(self.engine.env.active_process, len(self._actors))

    def _note_change(self, component: int, is_changed: bool) -> bool:
        """Let a store settle in the next turn if it changed."""
        if is_changed:
            if not self._changed:
                self.engine._note_action(self._settle)
            self._changed[component] = None
        return is_changed

    def _settle(self) -> None:
        """Begin the next turn of all stores that changed."""
        changed, self._changed = self._changed, {}
        self._actors.clear()
        for component in changed:
            self._settle_store(component)

    def _settle_store(self, component: int) -> None:
        tick = int(self.engine.env.now)
        used, held = self._stores[component].settle()
        self._samples[component].add(tick, used, held)
        more = held - self._held.get(component, 0)
        self._held[component] = held
        if more:
            self.engine.ledger.note_change(tick, component, more)
        if more > 0:
            self.engine._hold_capacity(component, more)
        elif more:
            self.engine._return_capacity(component, -more)

    # Errors.

    def _check_known(self, component: int, key: int, answer: int) -> None:
        if answer == NOT_THERE:
            raise self._error(component, key, "is not in the store; hold it first")

    def _size_error(self, component: int, key: int, size: int) -> SimulationError:
        """Error for a size, or a sum of sizes, that is not the size of the entry."""
        now = self._stores[component].size_now(key)
        return self._error(
            component, key, f"has size {now}, and size {size} was given; give the same size"
        )

    def _error(self, component: int, key: int, what: str) -> SimulationError:
        name = self.engine.parts.names[component]
        return SimulationError("action", f"{name}: entry {self.name_of(key)!r} {what}")

    def _no_store_error(self, component: int) -> SimulationError:
        parts = self.engine.parts
        if not 0 <= component < len(parts):
            message = f"component {component} does not exist; components are 0 to {len(parts) - 1}"
        else:
            message = f"{parts.names[component]}: is no store; give it capacity=Store(size)"
        return SimulationError("action", message)
