"""Ledger of the capacity amounts that processes hold and request; common to both engines.

Each engine has its own counters and queues (``reference/capacity.py``, ``core/capacity.py``).
Their meaning is in ``docs/semantics.md``, sections 3 and 5.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import simpy
from numpy.typing import NDArray

from .abandonment import AbandonableCallbacks
from .change_log import ChangeLog


class Grant(simpy.Event):
    """Request of a process for an amount of a capacity: a SimPy event that fires on its grant.

    ``with sim.acquire(...) as grant: yield grant`` releases the amount at the end of the block,
    like a SimPy resource request. A grant that no process waits for any more leaves the queue by
    itself.

    Parameters
    ----------
    env : simpy.Environment
    number : int
        Number of earlier requests in the run.
    component, amount, owner : component number, requested amount, and number of the owner
    who : str
        Name of the process that made the request.
    on_release : function that releases the grant
    on_abandoned : function to call when no process waits for the grant any more
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
        self.callbacks = AbandonableCallbacks(lambda: on_abandoned(self))

    @property
    def is_abandoned(self) -> bool:
        """True if no process waits for the grant any more, and it has not fired."""
        return self.callbacks is not None and not self.callbacks

    @property
    def held(self) -> tuple[int, int, int, str]:
        """Component, amount, owner and process name, as arguments for the ledger."""
        return self.component, self.amount, self.owner, self.who

    def release(self) -> None:
        """Release the amount at the next turn, or leave the queue; a second call does nothing."""
        if not self.over:
            self._leave(self)

    def __enter__(self) -> Grant:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


@dataclass(frozen=True)
class ProcessHoldHistory:
    """History of the capacity amounts that processes held in a run, and of their waits.

    Parameters
    ----------
    log : changes of the amounts held
    waits : (w, 4) component, tick of the request, tick of the grant, index of the process
    names : names of the processes
    """

    log: ChangeLog = field(default_factory=ChangeLog)
    waits: NDArray[np.int64] = field(default_factory=lambda: np.empty((0, 4), np.int64))
    names: tuple[str, ...] = ()

    @property
    def changes(self) -> NDArray[np.int64]:
        """(k, 3) tick, component, and change of the amount held."""
        return self.log.rows


class CapacityLedger:
    """Ledger of the capacity amounts that processes hold, by owner and process, and of requests.

    Examples
    --------
    >>> book = CapacityLedger()
    >>> book.add(0, component=2, amount=5, owner=1, who="server")
    >>> book.give_back(7, component=2, amount=3, owner=1, who="server")
    >>> book.held[2], book.amount_of_owner(2, owner=1), book.acquired.changes.tolist()
    ({(1, 'server'): 2}, 2, [[0, 2, 5], [7, 2, -3]])
    """

    def __init__(self) -> None:
        self.held: dict[int, dict[tuple[int, str], int]] = {}
        self.waiting: dict[int, dict[Grant, None]] = {}
        self.taken: dict[int, int] = {}  # since the last turn
        self.asked = 0  # requests so far
        self.names: dict[str, int] = {}  # numbers of processes that had to wait
        self._changes, self._waits = ChangeLog(), array("q")

    @property
    def acquired(self) -> ProcessHoldHistory:
        """History of holds and waits so far."""
        waits = np.array(self._waits, np.int64).reshape(-1, 4)
        return ProcessHoldHistory(self._changes.copy(), waits, tuple(self.names))

    def amount_of_owner(self, component: int, owner: int) -> int:
        """Amount of a capacity that an owner holds."""
        return sum(n for (o, _), n in self.held.get(component, {}).items() if o == owner)

    def holds_of_owner(self, owner: int) -> Iterator[tuple[int, int]]:
        """Iterator over (component, amount) of all amounts that an owner holds."""
        for component in sorted(self.held):
            amount = self.amount_of_owner(component, owner)
            if amount:
                yield component, amount

    def note_request(self, grant: Grant) -> None:
        """Record a new request."""
        self.asked += 1
        self.waiting.setdefault(grant.component, {})[grant] = None

    def drop_request(self, grant: Grant) -> None:
        """Remove a request from the waiting ones."""
        line = self.waiting[grant.component]
        del line[grant]
        if not line:
            del self.waiting[grant.component]

    def is_waiting(self, grant: Grant) -> bool:
        """True if a request has not been granted yet."""
        return grant in self.waiting.get(grant.component, {})

    def note_grants(self, tick: int, grants: Iterable[Grant]) -> list[Grant]:
        """Record the grants of one turn; returns them in the order in which they must fire."""
        found = sorted(grants, key=lambda grant: grant.number)
        for grant in found:
            self.drop_request(grant)
            self.add(tick, *grant.held)
            if tick > grant.asked:
                name = self.names.setdefault(grant.who, len(self.names))
                self._waits.extend((grant.component, grant.asked, tick, name))
        return found

    def add(self, tick: int, component: int, amount: int, owner: int, who: str) -> None:
        """Record that a process holds a further amount."""
        line = self.held.setdefault(component, {})
        line[owner, who] = line.get((owner, who), 0) + amount
        self.note_change(tick, component, amount)

    def give_back(self, tick: int, component: int, amount: int, owner: int, who: str) -> None:
        """Subtract an amount from an owner's holds: first of the same process, then the oldest."""
        line = self.held[component]
        self.note_change(tick, component, -amount)
        mine = [key for key in line if key[0] == owner]
        for key in sorted(mine, key=lambda key: key[1] != who):
            less = min(amount, line[key])
            amount -= less
            line[key] -= less
            if not line[key]:
                del line[key]

    def note_change(self, tick: int, component: int, change: int) -> None:
        """Record a change of the amount that processes hold of a component."""
        self._changes.add(tick, component, change)

    def note_changes(self, changes: NDArray[np.int64]) -> None:
        """Record (k, 3) ticks, components and changes; equal neighbours are merged already."""
        self._changes.extend(changes)
