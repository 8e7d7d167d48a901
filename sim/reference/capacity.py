"""Capacities in the reference engine: amounts held, and queues of requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..engine_api.capacity_ledger import Grant
from ..engine_api.interface import NEVER

OUT, ASKED, HELD = "out", "asked", "held"  # state of a claim


class Holder(Protocol):
    """Protocol of an op that can hold an amount of a capacity."""

    id: int

    @property
    def live(self) -> bool:
        """True if the op can still end."""


class Claim:
    """Amount of a capacity that an op or a process requests and then holds.

    Parameters
    ----------
    component, amount : index of the capacity's component, and the requested amount in its integer
        units
    row : Holder or None
        The op that holds it; None for a process.
    until : Holder or None
        Another op that must end before the amount is released.
    grant : Grant or None
        Request of a process; the ledger records what the process holds.
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
        """True if the op, and the op named by ``until``, have ended."""
        return not any(row is not None and row.live for row in (self.row, self.until))


class CapacityState(Protocol):
    """Protocol of a component with a capacity and a queue of requests."""

    whole: int
    held: int
    failed: bool
    line: list[Claim]


class CapacityQueues:
    """Request queues of all capacities: first come, first served, with head-of-line blocking.

    Parameters
    ----------
    at : state of each component, indexed by component number
    """

    def __init__(self, at: Sequence[CapacityState]):
        self.at = at
        self.moving: set[int] = set()  # components whose queue may advance

    def request(self, claim: Claim, tick: int) -> None:
        """Append a claim to the queue of its capacity."""
        claim.state, claim.asked, claim.granted, claim.returned = ASKED, tick, NEVER, NEVER
        self.at[claim.component].line.append(claim)
        self.moving.add(claim.component)

    def withdraw(self, claim: Claim, tick: int) -> None:
        """Remove a claim from its queue, or release the amount that it holds."""
        if claim.state == ASKED:
            self.at[claim.component].line.remove(claim)
            self.moving.add(claim.component)
        elif claim.state == HELD:
            self.hold(claim.component, -claim.amount)
            claim.returned = tick
        claim.state = OUT

    def hold(self, component: int, amount: int) -> None:
        """Change the held amount of a capacity by ``amount``."""
        self.at[component].held += amount
        self.moving.add(component)

    def grant(self, tick: int) -> list[Claim]:
        """Grant queued claims as far as they fit; returns the granted claims."""
        granted = []
        for part in [self.at[c] for c in sorted(self.moving)]:
            while part.line and not part.failed and part.held + part.line[0].amount <= part.whole:
                claim = part.line.pop(0)
                part.held += claim.amount
                claim.state, claim.granted = HELD, tick
                granted.append(claim)
        self.moving.clear()
        return granted
