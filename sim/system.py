"""The machine: facts about its parts and how they are joined, no behaviour."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from .errors import GraphError
from .units import Seconds

HEADROOM = 16  # `max_rate` = 16 x `rate` unless said


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

    def __post_init__(self) -> None:
        given = [f for f in ("slots", "rate", "capacity") if getattr(self, f) is not None]
        if len(given) > 1:
            raise ValueError(
                f"{self.name}: give slots, a rate or a capacity, not {' and '.join(given)}"
            )
        if self.slots is not None and self.slots < 1:
            raise ValueError(f"{self.name}: slots is {self.slots}; give at least 1")
        if self.rate is not None and not 0 <= self.rate < math.inf:
            raise ValueError(f"{self.name}: rate is {self.rate}; give 0 or more, and not infinite")
        if self.max_rate is not None and not (self.rate or 0.0) <= self.max_rate < math.inf:
            raise ValueError(
                f"{self.name}: max_rate is {self.max_rate:g}, and its rate {self.rate or 0.0:g}; "
                "give a max_rate of at least the rate, and not infinite"
            )
        if self.capacity is not None and not self._is_whole(self.capacity):
            raise ValueError(
                f"{self.name}: capacity is {self.capacity!r}; give a whole number from 1 on"
            )

    @staticmethod
    def _is_whole(amount: object) -> bool:
        """Whether it is an amount that 63 bits hold, above 0."""
        return isinstance(amount, (int, np.integer)) and 1 <= int(amount) < 2**63

    @property
    def top(self) -> float:
        """The highest rate that it may be set to."""
        return self.max_rate if self.max_rate is not None else HEADROOM * (self.rate or 0.0)


CORE = 1e9
"""Rate of a core that ops share: their nanoseconds, in the unit of links, which all-reduces use
beside it."""

Router = Callable[[int, int], Sequence[int]]  # from GPU to GPU: the components that data cross


def no_route(a: int, b: int) -> Sequence[int]:
    """A machine without a network: data cross nothing."""
    return ()


@dataclass(frozen=True)
class System:
    """Components, who belongs to which GPU, and the routes between GPUs.

    Parameters
    ----------
    components : tuple of Component
    gpus : names in rank order
        Ranks are placed on them in this order.
    parts : mapping
        Of a GPU, by role: ``{"node0.gpu0": {"host": "node0.host", "dma": "node0.gpu0.dma",
        "hbm": "node0.gpu0.hbm"}}``.
    router : Router
        Rate components that data from GPU a to GPU b use, in order.
    fabric : str
        The component whose backend answers for sends and collectives; "" for none.

    Examples
    --------
    >>> link = Component("wire", "link", rate=1e9, latency=1e-6)
    >>> gpus = [Component(f"node{i}.gpu0", "gpu", slots=1) for i in range(2)]
    >>> system = System((*gpus, link), ("node0.gpu0", "node1.gpu0"), router=lambda a, b: (2,))
    >>> system.route(0, 1), system.match("node*.gpu*")
    ((2,), (0, 1))
    """

    components: tuple[Component, ...]
    gpus: tuple[str, ...] = ()
    parts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    router: Router = field(default=no_route, repr=False)
    fabric: str = ""

    @cached_property
    def index(self) -> dict[str, int]:
        """Number of each component by name."""
        found = {c.name: i for i, c in enumerate(self.components)}
        if len(found) < len(self.components):
            names = [c.name for c in self.components]
            raise ValueError(f"two components are named {max(names, key=names.count)!r}")
        return found

    def __getitem__(self, name: str) -> Component:
        return self.components[self.number(name)]

    def number(self, name: str) -> int:
        """The number of a component.

        Raises
        ------
        GraphError
            No such name; the nearest one is named.
        """
        if name not in self.index:
            near = difflib.get_close_matches(name, self.index, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {list(self.index)[:12]}"
            raise GraphError("unknown component", f"no component is named {name!r}; {hint}")
        return self.index[name]

    def match(self, pattern: str) -> tuple[int, ...]:
        """Numbers of all components whose name fits a glob; a name of one is no glob.

        >>> System((Component("gpu[0]", "gpu"), Component("gpu0", "gpu"))).match("gpu[0]")
        (0,)
        """
        if pattern in self.index:
            return (self.index[pattern],)
        return tuple(i for i, c in enumerate(self.components) if fnmatchcase(c.name, pattern))

    def select(
        self, kind: str | None = None, node: str | None = None, pool: str | None = None
    ) -> tuple[str, ...]:
        """Names of all components of a kind, of a node, and that fit a glob, as far as said.

        >>> gpus = [Component(f"node{i}.gpu0", "gpu", slots=1) for i in range(2)]
        >>> system = System((*gpus, Component("node1.nic0", "nic", rate=1e9)))
        >>> system.select(node="node1"), system.select("gpu", pool="*0.*")
        (('node1.gpu0', 'node1.nic0'), ('node0.gpu0',))
        """
        return tuple(
            c.name
            for c in self.components
            if (kind is None or c.kind == kind)
            and (node is None or c.name.partition(".")[0] == node)
            and (pool is None or fnmatchcase(c.name, pool))
        )

    def part(self, gpu: int, role: str) -> int:
        """The component that plays a role for a GPU; -1 where there is none."""
        name = self.parts.get(self.components[gpu].name, {}).get(role)
        return -1 if name is None else self.number(name)

    @cached_property
    def numbers(self) -> tuple[int, ...]:
        """Numbers of the GPUs, in rank order."""
        return tuple(self.number(name) for name in self.gpus)

    def played(self, role: str) -> NDArray[np.int32]:
        """(components,) What :meth:`part` says of each component."""
        if role not in self._played:
            found = np.full(len(self.components), -1, np.int32)
            for name, parts in self.parts.items():
                if role in parts:
                    found[self.number(name)] = self.number(parts[role])
            self._played[role] = found
        return self._played[role]

    @cached_property
    def _played(self) -> dict[str, NDArray[np.int32]]:
        return {}

    @cached_property
    def _routes(self) -> dict[tuple[int, int], tuple[int, ...]]:
        return {}

    def route(self, a: int, b: int) -> tuple[int, ...]:
        """Rate components that data from GPU ``a`` to GPU ``b`` use, in order."""
        if (a, b) not in self._routes:
            self._routes[a, b] = tuple(self.router(a, b)) if a != b else ()
        return self._routes[a, b]

    def latency(self, a: int, b: int) -> Seconds:
        """Latencies along the route, added up."""
        return sum(self.components[c].latency for c in self.route(a, b))

    def bandwidth(self, a: int, b: int) -> float:
        """The smallest rate along the route; infinite where nothing is crossed."""
        return min((self.components[c].rate or 0.0 for c in self.route(a, b)), default=float("inf"))
