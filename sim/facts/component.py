"""One part of a machine: facts, no behaviour."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..units import Seconds

HEADROOM = 16  # default of `max_rate`: 16 x `rate`
UNCOUNTED = 2**31 - 1  # slots of a component whose number of slots is unknown


class Location(NamedTuple):
    """Where a component is, and what it is there.

    Parameters
    ----------
    node, pool : str
        Machine that it is in, ``node3``, and the kind of that machine, ``trainer``; "" for between
        machines, and for a kind without a name.
    rail : int
        Of a NIC its number in its machine, of a GPU that of the NIC it sends by; -1 for neither.
    role : str
        What it is to its GPU or NIC: ``tx``, ``rx``, ``host``, ``hbm`` …; "" for none.
    """

    node: str = ""
    pool: str = ""
    rail: int = -1
    role: str = ""


LOCATED = frozenset(Location._fields)
NOWHERE = Location()


@dataclass(frozen=True)
class Component:
    """One part: ``slots`` served in turn, a ``rate`` that all share, or a ``capacity`` to hold of.

    Slots are served first come, first served, a rate is shared by all ops in flight, and of a
    capacity amounts are held from ``acquire`` to ``release``.

    Parameters
    ----------
    name : str
        ``node0.gpu3``, ``node0.nic0.tx``.
    kind : str
        ``gpu``, ``host``, ``dma``, ``nic``, ``link``, ``switch``, ``memory``, ``fabric``.
    slots : int or None
    rate : float or None
        In ``unit`` a second.
    capacity : int or None
        The whole, in ``unit``.
    unit : str
        ``B``, ``flop``, or ``1`` for a share; of a capacity any word: ``B``, ``block``, ``token``.
    max_rate : float or None
        What a process may raise the rate to; 16 x ``rate`` unless said.
    latency : Seconds
        To cross it once.
    overhead : Seconds
        Of each message that enters it.
    part : str
        Name of its catalog entry.
    limit : float
        What one sender gets of it at most, in ``unit`` a second: a window, a loss.  Whoever sends
        reads it, as it reads the latency.
    location : Location
        Machine that it is in, and its role there; ``node``, ``pool``, ``rail`` and ``role`` read
        it.

    Examples
    --------
    >>> Component("node0.nic0.tx", "nic", rate=25e9).top
    400000000000.0
    >>> Component("node0.kv", "memory", capacity=4096, unit="block").capacity
    4096
    """

    name: str
    kind: str
    slots: int | None = None
    rate: float | None = None
    unit: str = "B"
    max_rate: float | None = None
    latency: Seconds = 0.0
    overhead: Seconds = 0.0
    part: str = ""
    limit: float = math.inf
    capacity: int | None = None
    location: Location = NOWHERE

    def __post_init__(self) -> None:
        given = [f for f in ("slots", "rate", "capacity") if getattr(self, f) is not None]
        if len(given) > 1:
            raise ValueError(
                f"{self.name}: give slots, a rate or a capacity, not {' and '.join(given)}"
            )
        if self.slots is not None and self.slots < 1:
            raise ValueError(f"{self.name}: slots is {self.slots}; give at least 1")
        if self.rate is not None and not 0 <= self.rate < math.inf:
            raise ValueError(f"{self.name}: rate is {self.rate}; give a finite rate of 0 or more")
        if self.max_rate is not None and not (self.rate or 0.0) <= self.max_rate < math.inf:
            raise ValueError(
                f"{self.name}: max_rate is {self.max_rate:g}, and its rate {self.rate or 0.0:g}; "
                "give a finite max_rate of at least the rate"
            )
        if self.capacity is not None and not self._is_valid_amount(self.capacity):
            raise ValueError(
                f"{self.name}: capacity is {self.capacity!r}; give a whole number of 1 or more"
            )

    @staticmethod
    def _is_valid_amount(amount: object) -> bool:
        """Whether it is an amount that 63 bits hold, above 0."""
        return isinstance(amount, (int, np.integer)) and 1 <= int(amount) < 2**63

    def renamed(self, name: str, **facts: Any) -> Component:
        """The same part under another name and with other facts (node, pool, rail, role, part).

        What was checked once is not checked again: a machine has many parts that are alike.

        >>> first = Component("node0.gpu0", "gpu", location=Location("node0"))
        >>> other = first.renamed("node1.gpu0", node="node1")
        >>> other.name, other.kind, other.node
        ('node1.gpu0', 'gpu', 'node1')
        """
        made = object.__new__(type(self))
        if not LOCATED.isdisjoint(facts):
            was, take = self.location, facts.pop
            facts["location"] = Location(
                take("node", was.node),
                take("pool", was.pool),
                take("rail", was.rail),
                take("role", was.role),
            )
        made.__dict__.update(self.__dict__, name=name, **facts)
        return made

    @property
    def node(self) -> str:
        """Machine that it is in."""
        return self.location.node

    @property
    def pool(self) -> str:
        """Kind of that machine."""
        return self.location.pool

    @property
    def rail(self) -> int:
        """Number of its NIC."""
        return self.location.rail

    @property
    def role(self) -> str:
        """What it is to its GPU or NIC."""
        return self.location.role

    @property
    def top(self) -> float:
        """The highest rate that it may be set to."""
        return self.max_rate if self.max_rate is not None else HEADROOM * (self.rate or 0.0)


CORE = 1e9
"""Rate of a core that ops share: their nanoseconds, in the unit of links, which all-reduces use
beside it."""
