"""Capacities in the reference engine: who holds how much, and queues of requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..engine_api.capacity_ledger import Grant
from ..engine_api.interface import NEVER

OUT, ASKED, HELD = "out", "asked", "held"  # state of a claim


class Holder(Protocol):
    """Interface of an op that holds amounts."""

    id: int

    @property
    def live(self) -> bool:
        """Whether the op may still end."""


class Claim:
    """Amount of a capacity that an op or a process asks for, and then holds.

    Parameters
    ----------
    component, amount : int
    row : Holder or None
        The op.
    until : Holder or None
        Another op that has to end before it is given back.
    grant : Grant or None
        Of a process; what it holds is on the ledger.
    """

    def __init__(
        self,
        component: int,
        amount: int,
        row: Holder | None = None,
        until: Holder | None = None,
        grant: Grant | None = None,
    ):
        self.component, self.amount = component, amount
        self.row, self.until, self.grant = row, until, grant
        self.state = OUT
        self.asked = self.granted = self.returned = NEVER

    @property
    def over(self) -> bool:
        """Whether the op or process is over for which it is held."""
        return not any(row is not None and row.live for row in (self.row, self.until))


class CapacityState(Protocol):
    """Component with a capacity, and its queue."""

    whole: int
    held: int
    failed: bool
    line: list[Claim]


class CapacityQueues:
    """Queues of all capacities, first come, first served: the head blocks the rest.

    Parameters
    ----------
    at : of CapacityState
        Every component.
    """

    def __init__(self, at: Sequence[CapacityState]):
        self.at = at
        self.moving: set[int] = set()  # components whose queue may advance

    def request(self, claim: Claim, tick: int) -> None:
        """Append a claim to its queue."""
        claim.state, claim.asked, claim.granted, claim.returned = ASKED, tick, NEVER, NEVER
        self.at[claim.component].line.append(claim)
        self.moving.add(claim.component)

    def withdraw(self, claim: Claim, tick: int) -> None:
        """Take a claim out of its queue, or give back what it holds."""
        if claim.state == ASKED:
            self.at[claim.component].line.remove(claim)
            self.moving.add(claim.component)
        elif claim.state == HELD:
            self.hold(claim.component, -claim.amount)
            claim.returned = tick
        claim.state = OUT

    def hold(self, component: int, amount: int) -> None:
        """Change the amount held of a capacity."""
        self.at[component].held += amount
        self.moving.add(component)

    def grant(self, tick: int) -> list[Claim]:
        """Claims that are granted now, since there is room for them."""
        granted = []
        for part in [self.at[c] for c in sorted(self.moving)]:
            while part.line and not part.failed and part.held + part.line[0].amount <= part.whole:
                claim = part.line.pop(0)
                part.held += claim.amount
                claim.state, claim.granted = HELD, tick
                granted.append(claim)
        self.moving.clear()
        return granted
