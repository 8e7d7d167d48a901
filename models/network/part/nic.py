"""NIC model: a cost per message, a line rate, and headers on every packet."""

from __future__ import annotations

from ....sim.facts.backend import backend
from ....sim.facts.system import Component, Location
from ....sim.units import ByteRate, Packet, Seconds
from .link import Link

ROCE = 82
"""Bytes around the payload of a RoCEv2 packet on the wire: Ethernet preamble, header, check and
gap 8 + 14 + 4 + 12 (IEEE 802.3), IPv4 20, UDP 8, base transport header 12 and invariant CRC 4
(InfiniBand Architecture 1.4, annex A17)."""


@backend("nic")
class Nic(Link):
    """One port of a NIC; each direction has the line rate minus packet headers.

    Parameters
    ----------
    bandwidth : ByteRate
        Line rate of one direction.
    latency : Seconds
        Time to cross the NIC once: from doorbell to wire, or from wire to memory.
    overhead : Seconds
        Time per message: posting, fetching the work request, completion.
    mtu : Packet
        Payload of a full packet.
    header : Packet
        Overhead of each packet on the wire; 82 B for RoCEv2.

    Examples
    --------
    >>> nic = Nic(bandwidth=50e9, latency=6e-7, overhead=1e-7, mtu=4096, header=82)
    >>> round(nic.rate / 1e9, 2), [c.name for c in nic.ports("node0.nic0")]
    (49.02, ['node0.nic0.tx', 'node0.nic0.rx'])
    """

    kind = "nic"

    def __init__(
        self,
        *,
        bandwidth: ByteRate,
        latency: Seconds,
        overhead: Seconds = 0.0,
        mtu: Packet = 4096,
        header: Packet = ROCE,
    ):
        self.mtu, self.header = mtu, header
        payload = mtu / (mtu + header)
        super().__init__(
            bandwidth=bandwidth, latency=latency, efficiency=payload, overhead=overhead
        )

    def ports(self, name: str, part: str = "") -> tuple[Component, Component]:
        """Transmit and receive component of the NIC; transmitting has the cost per message."""
        at = Location(part=part)
        into = Component(f"{name}.rx", self.kind, rate=self.rate, latency=self.latency, location=at)
        return self.component(f"{name}.tx", part), into
