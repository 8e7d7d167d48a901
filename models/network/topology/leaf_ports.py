"""Names of leaf-switch ports, generated on demand."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ....sim.facts.part_names import Names
from .wiring import Adapter

Ints = NDArray[np.int64]
UPLINKS = ("up", "down")  # pool ports after the NIC ports of each leaf
NAME = re.compile(r"leaf\d+\.(up|down|node\d+\.nic\d+)")


class LeafPorts(Names):
    """Names of the ports of leaves: ports to NICs, then the uplink and downlink pool, leaf by leaf.

    Parameters
    ----------
    leaves : (leaves,) number of each leaf
    counts : (leaves,) number of NICs on each leaf
    adapters : NICs, leaf by leaf
    pooled : True if each leaf has an uplink pool and a downlink pool

    Examples
    --------
    >>> there = [Adapter(0, 0), Adapter(1, 0), Adapter(2, 0)]
    >>> ports = LeafPorts(np.array([0, 1]), np.array([2, 1]), there, pooled=True)
    >>> list(ports)[1:5], ports.find("leaf1.down")
    (['leaf0.node1.nic0', 'leaf0.up', 'leaf0.down', 'leaf1.node2.nic0'], 6)
    """

    def __init__(self, leaves: Ints, counts: Ints, adapters: Sequence[Adapter], pooled: bool):
        self._leaves, self._counts, self._adapters = leaves, counts, adapters
        self._more = len(UPLINKS) * pooled
        self.first = np.cumsum(counts + self._more) - counts - self._more
        """(leaves,) number of the first port of each."""
        self._first_adapter = np.cumsum(counts) - counts

    def __len__(self) -> int:
        return len(self._adapters) + self._more * len(self._counts)

    def name(self, number: int) -> str:
        """Name of the port with this index."""
        leaf = int(np.searchsorted(self.first, number, "right")) - 1
        place = number - int(self.first[leaf])
        if place >= self._counts[leaf]:
            end = UPLINKS[place - int(self._counts[leaf])]
        else:
            end = self._adapters[int(self._first_adapter[leaf]) + place].name
        return f"leaf{self._leaves[leaf]}.{end}"

    def node(self, number: int) -> str:
        """Machine of a port: "", since ports are between machines."""
        return ""

    def machines(self) -> Ints:
        """Machine of every port: none, since ports are between machines."""
        return np.full(len(self), -1)

    def find(self, name: str) -> int:
        """Index of the port with this name; -1 if there is none."""
        return self._numbers.get(name, -1) if NAME.fullmatch(name) else -1

    def names_up_to_digits(self) -> tuple[Ints, Ints]:
        """Representative port names (equal up to digits), and each port's index among them.

        There is one representative for ports to NICs, one for uplinks and one for downlinks.
        """
        which = np.zeros(len(self), np.int64)
        behind = self.first + self._counts
        for k in range(self._more):
            which[behind + k] = 1 + k
        return np.append([0], behind[:1] + np.arange(self._more)), which

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self)}
