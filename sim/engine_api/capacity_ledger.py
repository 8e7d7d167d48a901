"""Holds of capacities by processes, and their requests for more: common to both engines.

The count itself and the lines are each engine's own (``reference/capacity.py``,
``core/capacity.py``); ``docs/semantics.md``, sections 3 and 5, says what they mean.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import simpy
from numpy.typing import NDArray


class _Callbacks(list[Callable[[simpy.Event], None]]):
    """Callbacks of a grant's event; reports when the last one is removed."""

    def __init__(self, on_abandoned: Callable[[], None]):
        super().__init__()
        self.on_abandoned = on_abandoned

    def remove(self, value: Any, /) -> None:
        """Remove one callback: its process was interrupted, or went on for another reason."""
        super().remove(value)
        if not self:
            self.on_abandoned()


class Grant(simpy.Event):
    """Amount of a capacity that a process asked for: an event that fires when it is granted.

    ``with sim.acquire(...) as grant: yield grant`` gives it back at the end of the block, as a
    request of SimPy does.  Once nobody waits for it any more it leaves the line by itself.

    Parameters
    ----------
    env : simpy.Environment
    number : int
        How many were asked for before.
    component, amount, owner : int
    who : str
        The process that asked.
    on_release : gives the grant back
    on_abandoned : is called when the last one who waited for it does not any more
    """

    def __init__(
        self,
        env: simpy.Environment,
        number: int,
        component: int,
        amount: int,
        owner: int,
        who: str,
        on_release: Callable[[Grant], None],
        on_abandoned: Callable[[Grant], None],
    ):
        super().__init__(env)
        self.number, self.component, self.amount = number, component, amount
        self.owner, self.who, self.asked = owner, who, int(env.now)
        self.place = -1  # index in the engine's queue while it waits
        self.over = False  # released, or no longer in the queue
        self._leave = on_release
        self.callbacks = _Callbacks(lambda: on_abandoned(self))

    @property
    def is_abandoned(self) -> bool:
        """Whether no process waits for the grant any more, and none was told of it."""
        return self.callbacks is not None and not self.callbacks

    @property
    def held(self) -> tuple[int, int, int, str]:
        """Component, amount, owner and process, as a ledger takes them."""
        return self.component, self.amount, self.owner, self.who

    def release(self) -> None:
        """Give the amount back at the next turn, or leave the queue; a second call does nothing."""
        if not self.over:
            self._leave(self)

    def __enter__(self) -> Grant:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


@dataclass(frozen=True)
class ProcessHoldHistory:
    """Changes of the amounts that processes held in a run, and their waits.

    Parameters
    ----------
    changes : (k, 3) tick, component, and by how much what is held of it changed
    waits : (w, 4) component, tick asked, tick granted, number of the process
    names : of processes
    """

    changes: NDArray[np.int64] = field(default_factory=lambda: np.empty((0, 3), np.int64))
    waits: NDArray[np.int64] = field(default_factory=lambda: np.empty((0, 4), np.int64))
    names: tuple[str, ...] = ()


class CapacityLedger:
    """Amounts that processes hold of each capacity, by owner and process, and their waits.

    Examples
    --------
    >>> book = CapacityLedger()
    >>> book.add(0, component=2, amount=5, owner=1, who="server")
    >>> book.give_back(7, component=2, amount=3, owner=1, who="server")
    >>> book.held[2], book.of(2, owner=1), book.acquired.changes.tolist()
    ({(1, 'server'): 2}, 2, [[0, 2, 5], [7, 2, -3]])
    """

    def __init__(self) -> None:
        self.held: dict[int, dict[tuple[int, str], int]] = {}
        self.waiting: dict[int, dict[Grant, None]] = {}
        self.taken: dict[int, int] = {}  # since the last turn
        self.asked = 0  # requests so far
        self.names: dict[str, int] = {}  # numbers of processes that had to wait
        self._changes, self._waits = array("q"), array("q")

    @property
    def acquired(self) -> ProcessHoldHistory:
        """Changes and waits so far."""
        changes = np.array(self._changes, np.int64).reshape(-1, 3)
        waits = np.array(self._waits, np.int64).reshape(-1, 4)
        return ProcessHoldHistory(changes, waits, tuple(self.names))

    def of(self, component: int, owner: int) -> int:
        """Amount that an owner holds."""
        return sum(n for (o, _), n in self.held.get(component, {}).items() if o == owner)

    def holds_of_owner(self, owner: int) -> Iterator[tuple[int, int]]:
        """(component, amount) of each hold of an owner."""
        for component in sorted(self.held):
            amount = self.of(component, owner)
            if amount:
                yield component, amount

    def note_request(self, grant: Grant) -> None:
        """Note a request."""
        self.asked += 1
        self.waiting.setdefault(grant.component, {})[grant] = None

    def drop_request(self, grant: Grant) -> None:
        """Drop a request."""
        line = self.waiting[grant.component]
        del line[grant]
        if not line:
            del self.waiting[grant.component]

    def is_waiting(self, grant: Grant) -> bool:
        """Whether a request has not been granted yet."""
        return grant in self.waiting.get(grant.component, {})

    def note_grants(self, tick: int, grants: Iterable[Grant]) -> list[Grant]:
        """Note grants of one turn; they fire after it in the order of their requests."""
        found = sorted(grants, key=lambda grant: grant.number)
        for grant in found:
            self.drop_request(grant)
            self.add(tick, *grant.held)
            if tick > grant.asked:
                name = self.names.setdefault(grant.who, len(self.names))
                self._waits.extend((grant.component, grant.asked, tick, name))
        return found

    def add(self, tick: int, component: int, amount: int, owner: int, who: str) -> None:
        """Add a hold."""
        line = self.held.setdefault(component, {})
        line[owner, who] = line.get((owner, who), 0) + amount
        self._note_change(tick, component, amount)

    def give_back(self, tick: int, component: int, amount: int, owner: int, who: str) -> None:
        """Take an amount from an owner's holds: the process's own first, then the oldest."""
        line = self.held[component]
        self._note_change(tick, component, -amount)
        mine = [key for key in line if key[0] == owner]
        for key in sorted(mine, key=lambda key: key[1] != who):
            less = min(amount, line[key])
            amount -= less
            line[key] -= less
            if not line[key]:
                del line[key]

    def _note_change(self, tick: int, component: int, change: int) -> None:
        last = self._changes
        if len(last) and last[-3] == tick and last[-2] == component:
            last[-1] += change
        else:
            last.extend((tick, component, change))
