"""Component: the description of one part of a machine, without behaviour."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ..argument import MOST_INT32, as_finite, as_float, as_integer, shown
from ..units import Seconds
from .eviction.store import Store, is_valid_amount
from .waiting_room import Queue

HEADROOM = 16  # default of `max_rate`: 16 x `rate`
UNCOUNTED = 2**31 - 1  # slots of a component whose number of slots is unknown


class Location(NamedTuple):
    """Machine and pool of a component, its rail, its role there, and its catalog entry.

    Parameters
    ----------
    node, pool : str
        Name of its machine, such as ``node3``, and kind of that machine, such as ``trainer``. ""
        for a component between machines; ``pool`` is also "" for a kind without a name.
    rail : int
        For a NIC, its number in its machine; for a GPU, the number of the NIC that it sends
        through; -1 for others.
    role : str
        Role for its GPU or NIC: ``tx``, ``rx``, ``host``, ``hbm`` …; "" for none.
    part : str
        Name of its catalog entry; "" for none.
    """

    node: str = ""
    pool: str = ""
    rail: int = -1
    role: str = ""
    part: str = ""


LOCATED = frozenset(Location._fields)
NOWHERE = Location()


@dataclass(frozen=True)
class Component:
    """One part of a machine: a set of ``slots``, a shared ``rate``, or a ``capacity``.

    Slots are served first come, first served. A rate is shared by all ops in flight. Amounts of a
    capacity are held from ``acquire`` to ``release``; a capacity that is a :class:`Store` consists
    of named, sized entries.

    Parameters
    ----------
    name : str
        Unique name, such as ``node0.gpu3`` or ``node0.nic0.tx``.
    kind : str
        ``gpu``, ``host``, ``dma``, ``nic``, ``link``, ``switch``, ``memory``, ``fabric``.
    slots : Number of ops that it runs at once; None if it has no slots.
    rate : float or None
        Shared rate, in ``unit`` per second; None if it has no rate.
    capacity : int, Store or None
        Total amount that can be held, in ``unit``, or a store; None if it has no capacity.
    unit : str
        Unit of the rate: ``B``, ``flop``, or ``1`` for a fraction. For a capacity any word, such as
        ``B``, ``block`` or ``token``.
    max_rate : float or None
        Highest rate that a process may set; None for 16 x ``rate``.
    latency : Seconds
        Time for a message to cross it once.
    overhead : Seconds
        Additional time for each message that enters it.
    limit : float
        Highest rate that one sender can get, in ``unit`` per second, e.g. due to a window or packet
        loss. Backends apply it, as they apply the latency.
    location : Location
        Machine, pool, rail, role and catalog entry of the component; also available as ``node``,
        ``pool``, ``rail``, ``role`` and ``part``.
    queue : Queue or None
        Bounded queue in front of its slots; None if any number of ops may wait.

    Examples
    --------
    >>> Component("node0.nic0.tx", "nic", rate=25e9).top
    400000000000.0
    >>> Component("node0.kv", "memory", capacity=4096, unit="block").total
    4096
    >>> Component("node0.prefix", "memory", capacity=Store(64, eviction="oldest")).total
    64
    """

    name: str
    kind: str
    slots: int | None = None
    rate: float | None = None
    unit: str = "B"
    max_rate: float | None = None
    latency: Seconds = 0.0
    overhead: Seconds = 0.0
    limit: float = math.inf
    capacity: int | Store | None = None
    location: Location = NOWHERE
    queue: Queue | None = None

    def __post_init__(self) -> None:
        given = [f for f in ("slots", "rate", "capacity") if getattr(self, f) is not None]
        if len(given) > 1:
            raise ValueError(
                f"{self.name}: give slots, a rate or a capacity, not {' and '.join(given)}"
            )
        if self.slots is not None:
            as_integer("slots", self.slots, self._refuse, 1, MOST_INT32)
        if self.queue is not None and self.slots is None:
            raise ValueError(
                f"{self.name}: has a queue, but no slots; give it slots, or leave the queue out"
            )
        if self.rate is not None:
            as_finite("rate", self.rate, self._refuse, 0.0)
        as_finite("latency", self.latency, self._refuse, 0.0)
        as_finite("overhead", self.overhead, self._refuse, 0.0)
        if not (as_float(self.limit) or 0.0) > 0:
            raise self._refuse(f"limit is {shown(self.limit)}; give a rate above 0")
        if self.max_rate is not None:
            top = as_float(self.max_rate)
            if top is None or not (self.rate or 0.0) <= top < math.inf:
                given_top = shown(self.max_rate) if top is None else f"{top:g}"
                raise self._refuse(
                    f"max_rate is {given_top}, and its rate {self.rate or 0.0:g}; "
                    "give a finite max_rate of at least the rate"
                )
        if self.capacity is not None and not is_valid_amount(self.total):
            raise ValueError(
                f"{self.name}: capacity is {self.total!r}; give a whole number of 1 or more"
            )

    def _refuse(self, why: str) -> ValueError:
        return ValueError(f"{self.name}: {why}")

    def renamed(self, name: str, **facts: Any) -> Component:
        """Copy of the component with another name and other fields (node, pool, rail, role …).

        The copy is validated again if other fields than those of the location change.

        Raises
        ------
        ValueError
            A number is out of range.
        TypeError
            A component has no such field.

        Examples
        --------
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
                take("part", was.part),
            )
        made.__dict__.update(self.__dict__, name=name, **facts)
        if facts.keys() - {"location"}:
            if len(made.__dict__) > len(self.__dict__):
                new = ", ".join(made.__dict__.keys() - self.__dict__.keys())
                raise TypeError(f"{name}: a component has no field {new}; see its parameters")
            made.__post_init__()
        return made

    @property
    def total(self) -> int | None:
        """Total amount of its capacity or store, in ``unit``; None if it has none."""
        return self.store.size if self.store else self.capacity  # type: ignore[return-value]

    @property
    def store(self) -> Store | None:
        """Description of its store; None if it has none."""
        return self.capacity if isinstance(self.capacity, Store) else None

    def with_total(self, total: int) -> Component:
        """Copy with another total amount of its capacity or store."""
        return replace(self, capacity=replace(self.store, size=total) if self.store else total)

    @property
    def node(self) -> str:
        """Name of its machine; "" between machines."""
        return self.location.node

    @property
    def pool(self) -> str:
        """Kind of its machine; "" if the kind has no name."""
        return self.location.pool

    @property
    def rail(self) -> int:
        """Number of the NIC in its machine that it is or uses; -1 for none."""
        return self.location.rail

    @property
    def role(self) -> str:
        """Role for its GPU or NIC, such as ``tx`` or ``hbm``; "" for none."""
        return self.location.role

    @property
    def part(self) -> str:
        """Name of its catalog entry; "" for none."""
        return self.location.part

    @property
    def top(self) -> float:
        """Highest rate that a process may set."""
        return self.max_rate if self.max_rate is not None else HEADROOM * (self.rate or 0.0)


CORE = 1e9
"""Rate of a core that ops share: their nanoseconds, in the unit of links, which all-reduces use
beside it."""
