"""Topologies: the network between the NICs of machines, one class each, registered by name."""

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
    node, rail : number of the machine, and of the NIC in it
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
    """NICs of many machines, each made where somebody asks for it.

    Parameters
    ----------
    node, rail : (NICs,) number of the machine, and of the NIC in it

    Examples
    --------
    >>> AdapterList.of_machines(np.array([1, 2]))[-1]
    Adapter(node=1, rail=1)
    """

    def __init__(self, node: NDArray[np.int64], rail: NDArray[np.int64]):
        self.node, self.rail = node, rail

    @classmethod
    def of_machines(cls, nics: NDArray[np.int64]) -> AdapterList:
        """NICs of machines of which each has so many."""
        first = np.cumsum(nics) - nics
        return cls(
            np.repeat(np.arange(len(nics)), nics), np.arange(nics.sum()) - np.repeat(first, nics)
        )

    @classmethod
    def of(cls, adapters: Sequence[Adapter]) -> AdapterList:
        """From NICs given one by one."""
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
        """A NIC, or several."""
        if isinstance(at, slice):
            return AdapterList(self.node[at], self.rail[at])
        return Adapter(int(self.node[at]), int(self.rail[at]))

    def take(self, numbers: NDArray[np.int64]) -> AdapterList:
        """Chosen NICs, in that order."""
        return AdapterList(self.node[numbers], self.rail[numbers])


class Path(NamedTuple):
    """One route from a NIC to another.

    Parameters
    ----------
    names : of the components between the two NICs, in order
    weight : share of the data that goes this way, beside those of the other paths
    """

    names: tuple[str, ...] = ()
    weight: float = 1.0


class Cables(NamedTuple):
    """Cables between two kinds of ends: NIC, leaf, spine and so on.

    Parameters
    ----------
    low, high : kinds of the ends
    number : int
    """

    low: str
    high: str
    number: int


class FabricParts(NamedTuple):
    """What a fabric is made of.

    Parameters
    ----------
    switches : number by kind, from the machines up: leaf, spine, core
    cables : by the kinds of their ends
    joins : of each two switches that are joined, their names and the number of cables
    """

    switches: dict[str, int]
    cables: list[Cables]
    joins: list[tuple[str, str, int]]


class Topology:
    """Base class of the network between NICs.  Subclasses write ``components`` and ``routes``.

    The constructor is the schema: its keyword names are the keys that ``cluster.fabric.topology``
    takes beside ``use``, their annotations say which unit each value must carry.  ``components``
    is called once, before the rest; one machine alone is joined to nothing, and not asked.
    """

    registered_name: ClassVar[str] = ""

    def components(self, adapters: Sequence[Adapter], switch: Switch | None) -> Iterable[Component]:
        """Ports and links between the NICs.

        Parameters
        ----------
        adapters : of all machines, in order
        switch : of ``cluster.fabric.switch``; None for none

        Raises
        ------
        GraphError
            It cannot join these.
        """
        raise TypeError(f"{type(self).__name__} joins nothing: write components()")

    def routes(self, a: Adapter, b: Adapter) -> Sequence[Path]:
        """Routes from one NIC to another; data are spread over them by weight."""
        raise TypeError(f"{type(self).__name__} has no ways: write routes()")

    def parts(self) -> FabricParts:
        """Switches and cables, for prices and drawings; unless it is written, switches alone.

        Raises
        ------
        GraphError
            Nobody knows.
        """
        return FabricParts({"switch": self.switches()}, [], [])

    def switches(self) -> int:
        """Number of switches, for prices.

        Raises
        ------
        GraphError
            Nobody knows.
        """
        return 0


TOPOLOGIES: dict[str, type[Topology]] = {}
T = TypeVar("T", bound=type[Topology])


def topology(name: str) -> Callable[[T], T]:
    """Register a topology class under the name that scenarios use.

    Raises
    ------
    ValueError
        The name is taken.
    """
    return register(TOPOLOGIES, "topologies", name, "registered_name")
