"""Stores that a run lends to the compiled loop, and gets back with what happened in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from ...engine_api.driven_policy import DrivenPolicy
from ...engine_api.store_control import StoreControl
from ...kernel import policy_rows as rows
from ...kernel.store_verbs import address_of, function_of
from ..simpy_loop import SimpyLoop
from ..stores.entry_store import EntryStore
from . import store_desk as sd

SAMPLES_AT_ONCE = 1 << 12


class LentStores:
    """Stores of the policies of one run of the loop.

    Parameters
    ----------
    engine : compiled engine of the run
    driven : policies whose kernels are called
    """

    def __init__(self, engine: SimpyLoop, driven: list[DrivenPolicy]):
        self.control: StoreControl = engine.stores
        known = engine.parts.stores.keys()
        self.users = [p for p in driven if not known.isdisjoint(p.part_numbers)]
        used = {c: None for p in self.users for c in p.part_numbers if c in known}
        self.stores = {c: cast(EntryStore, self.control.of(c)) for c in used}
        parts = sum(len(p.part_numbers) for p in self.users)
        self.desk = sd.empty_stores(len(used), parts, SAMPLES_AT_ONCE + len(used) if used else 0)
        self._stopped_by: BaseException | None = None
        if used:
            self._grow = function_of(self._enlarge)
            self._fill(engine)

    def _fill(self, engine: SimpyLoop) -> None:
        """Fill the rows, and let the kernels call the stores."""
        from .store_function import address_of_use_store  # only where kernels are linked

        desk, at = self.desk, dict[int, int]()
        for k, c in enumerate(self.stores):
            row, rule = desk.rows[k], engine.parts.stores[c]
            row[sd.TOTAL], row[sd.FAILED] = engine.parts.capacity_of(c), engine.failed(c)
            row[sd.KEEPS_ORDER], row[sd.COMPONENT] = rule.keeps_order(), c
            row[sd.HELD], row[sd.NUMBER] = self.control.held_of(c), k
            row[sd.NUMBERS], row[sd.GROW_AT] = desk.numbers.ctypes.data, address_of(self._grow)
            self._set_addresses(k, self.stores[c])
            at[c] = row.ctypes.data
        function, first = address_of_use_store(), 0
        for actor, p in enumerate(self.users):
            uses = desk.uses[first : first + len(p.part_numbers)]
            first += len(uses)
            for part, c in enumerate(p.part_numbers):
                uses[part] = at.get(c, 0), p.may_change(part), actor, p.owner
            p.turn.head[[rows.STORE_FUNCTION, rows.STORE_TABLE]] = function, uses.ctypes.data

    def _set_addresses(self, k: int, store: EntryStore) -> None:
        head, entries, holds, index = store.arrays
        self.desk.rows[k, : sd.TOTAL] = (
            head.ctypes.data, entries.ctypes.data, len(entries), holds.ctypes.data, len(holds),
            index.ctypes.data, len(index),
        )  # fmt: skip

    def _enlarge(self, k: int, actor: int, *_: int) -> int:
        """Enlarge the arrays of a store for one more verb of an actor."""
        try:
            store = self.stores[self.desk.rows.item(k, sd.COMPONENT)]
            store.grow(actor)
            self._set_addresses(k, store)
        except BaseException as stopped:  # none can pass through the kernel that waits
            self._stopped_by = stopped
        return 0

    def give_samples(self) -> None:
        """Move the samples to the run; raise what interrupted Python during a call."""
        stopped, self._stopped_by = self._stopped_by, None
        if stopped is not None:
            raise stopped
        numbers = self.desk.numbers
        given = self.desk.samples[: numbers[sd.SAMPLES]]
        for k, c in enumerate(self.stores) if len(given) else ():
            self.control.add_samples(c, given[given[:, sd.SAMPLE_OF] == k, sd.SAMPLED_AT :])
        numbers[sd.SAMPLES] = 0

    def give_back(self) -> Callable[[], None] | None:
        """Give the stores back; returns what is to be done in the next turn, if they changed."""
        self.give_samples()
        desk, components = self.desk, list(self.stores)
        held = dict(zip(components, desk.rows[:, sd.HELD].tolist(), strict=True))
        end = sd.FIRST_CHANGED + desk.numbers.item(sd.CHANGED)
        changed = [components[k] for k in desk.numbers[sd.FIRST_CHANGED : end].tolist()]
        return self.control.take_back(held, changed, self.users) if components else None
