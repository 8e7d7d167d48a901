"""Base classes of topologies: the network between NICs, one registered class per topology."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, NamedTuple, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from ....sim.facts.system import Component
from ....sim.registry import register
from ..part.switch import Switch


class Adapter(NamedTuple):
    """One NIC of one machine.

    Parameters
    ----------
    node, rail : index of the machine, and of the NIC in it
    """

    node: int
    rail: int

    @property
    def name(self) -> str:
        """Name of the adapter's component.

        >>> Adapter(3, 0).name
        'node3.nic0'
        """
        return f"node{self.node}.nic{self.rail}"


class AdapterList(Sequence[Adapter]):
    """Sequence of the NICs of many machines; items are created on access.

    Parameters
    ----------
    node, rail : (NICs,) index of the machine, and of the NIC in it

    Examples
    --------
    >>> AdapterList.of_machines(np.array([1, 2]))[-1]
    Adapter(node=1, rail=1)
    """

    def __init__(self, node: NDArray[np.int64], rail: NDArray[np.int64]):
        self.node, self.rail = node, rail

    @classmethod
    def of_machines(cls, nics: NDArray[np.int64]) -> AdapterList:
        """All NICs, from the number of NICs of each machine."""
        first = np.cumsum(nics) - nics
        return cls(
            np.repeat(np.arange(len(nics)), nics), np.arange(nics.sum()) - np.repeat(first, nics)
        )

    @classmethod
    def of(cls, adapters: Sequence[Adapter]) -> AdapterList:
        """Convert a sequence of NICs."""
        if isinstance(adapters, cls):
            return adapters
        table = np.array(adapters, np.int64).reshape(-1, 2)
        return cls(table[:, 0], table[:, 1])

    def __len__(self) -> int:
        return len(self.node)

    @overload
    def __getitem__(self, at: int) -> Adapter: ...
    @overload
    def __getitem__(self, at: slice) -> AdapterList: ...
    def __getitem__(self, at: int | slice) -> Adapter | AdapterList:
        """NIC at an index, or the NICs of a slice."""
        if isinstance(at, slice):
            return AdapterList(self.node[at], self.rail[at])
        return Adapter(int(self.node[at]), int(self.rail[at]))

    def take(self, numbers: NDArray[np.int64]) -> AdapterList:
        """NICs at these indices, in that order."""
        return AdapterList(self.node[numbers], self.rail[numbers])


class Path(NamedTuple):
    """One path from a NIC to another.

    Parameters
    ----------
    names : names of the components between the two NICs, in order
    weight : share of the data on this path, relative to the other paths
    """

    names: tuple[str, ...] = ()
    weight: float = 1.0


class Cables(NamedTuple):
    """Cables between two kinds of ends, such as NIC and leaf.

    Parameters
    ----------
    low, high : kinds of the ends
    number : int
        Number of cables.
    """

    low: str
    high: str
    number: int


class FabricParts(NamedTuple):
    """Switches and cables of a fabric.

    Parameters
    ----------
    switches : number of switches by kind, from the machines upwards: leaf, spine, core
    cables : cables by the kinds of their ends
    joins : names of every two connected switches, and their number of cables
    """

    switches: dict[str, int]
    cables: list[Cables]
    joins: list[tuple[str, str, int]]


class Topology:
    """Base class of the network between NICs. Subclasses implement ``components`` and ``routes``.

    The constructor defines the schema: its keyword names are the keys of
    ``cluster.fabric.topology`` next to ``use``, and their annotations define the units.
    ``components`` is called once, before the other methods. A single machine needs no network, and
    no method is called.
    """

    registered_name: ClassVar[str] = ""

    def components(self, adapters: Sequence[Adapter], switch: Switch | None) -> Iterable[Component]:
        """Create the ports and links between the NICs.

        Parameters
        ----------
        adapters : NICs of all machines, in order
        switch : model from ``cluster.fabric.switch``; None if there is none

        Raises
        ------
        GraphError
            The topology cannot connect these NICs.
        """
        raise TypeError(
            f"{type(self).__name__} has no components(); write it to return ports and links"
        )

    def routes(self, a: Adapter, b: Adapter) -> Sequence[Path]:
        """Paths from one NIC to another; data is spread over them by weight."""
        raise TypeError(
            f"{type(self).__name__} has no routes(); write it to return the paths between two NICs"
        )

    def parts(self) -> FabricParts:
        """Switches and cables, for prices and drawings; by default the switches only.

        Raises
        ------
        GraphError
            The parts are unknown.
        """
        return FabricParts({"switch": self.switches()}, [], [])

    def switches(self) -> int:
        """Number of switches, for prices.

        Raises
        ------
        GraphError
            The number is unknown.
        """
        return 0


TOPOLOGIES: dict[str, type[Topology]] = {}
T = TypeVar("T", bound=type[Topology])


def topology(name: str) -> Callable[[T], T]:
    """Register a topology class under the name used in scenarios.

    Raises
    ------
    ValueError
        The name is already registered.
    """
    return register(TOPOLOGIES, "topologies", name, "registered_name")
