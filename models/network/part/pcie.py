"""PCIe switches: devices below one switch reach each other directly, others through the host."""

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
    """PCIe switch; the GPUs and NICs of a machine are divided evenly among its switches, in order.

    Traffic between devices below one switch stays in it. All other traffic crosses the switch's
    link to the host: copies, and traffic to devices below other switches.

    Parameters
    ----------
    bandwidth : ByteRate
        Rate of one direction of its link to the host.
    latency : Seconds
        Time to cross the switch and that link.
    efficiency : Ratio
        Fraction of the line rate that is left for payload.

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
