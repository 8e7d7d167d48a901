"""PCIe switches: GPUs and NICs below one reach each other, and the rest by its link to the host."""

from __future__ import annotations

from collections.abc import Iterator

from ....sim.facts.system import Component
from ....sim.units import ByteRate, Ratio, Seconds
from ...parts import NodePart, part
from .link import Link

UP, DOWN = "pcie_up", "pcie_down"
"""Roles of the two directions of its link, for the GPUs below: to the host, and from it."""


@part("pcie_switch")
class PcieSwitch(NodePart):
    """PCIe switches of the machine; its GPUs and NICs share them evenly, neighbours the same one.

    Data between what is below one switch stay in it.  All else crosses its link to the host:
    copies, and data to GPUs and NICs below other switches.

    Parameters
    ----------
    bandwidth : ByteRate
        Of its link to the host, one direction.
    latency : Seconds
        To cross the switch and that link.
    efficiency : Ratio
        Share of the line rate left for payload.

    Examples
    --------
    >>> switch = PcieSwitch(bandwidth=32e9, latency=1.3e-7)
    >>> [(c.name, c.role) for c in switch.components("node0.pcie_switch1")]
    [('node0.pcie_switch1.up', 'pcie_up'), ('node0.pcie_switch1.down', 'pcie_down')]
    """

    def __init__(self, *, bandwidth: ByteRate, latency: Seconds, efficiency: Ratio = 1.0):
        self.link = Link(bandwidth=bandwidth, latency=latency, efficiency=efficiency)

    def components(self, name: str) -> Iterator[Component]:
        """The two directions of its link to the host."""
        for way, role in (("up", UP), ("down", DOWN)):
            yield self.link.component(f"{name}.{way}").renamed(f"{name}.{way}", role=role)
