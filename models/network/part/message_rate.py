"""Message rate of a NIC as a function of message size, queue depth and queue pairs.

Model of a closed system: a fixed number of messages is in flight, and each completed one is
replaced. The slowest of six resources limits the rate (asymptotic bounds: Denning and Buzen 1978,
doi:10.1145/356733.356735). Data sheets and packet formats give all bounds; one constant remains to
be measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .nic import ROCE, Nic
from .switch import Switch

Floats = NDArray[np.float64]
TLP, AROUND = 256, 24
"""Payload of a PCIe packet (the usual maximum of servers), and its overhead, B: framing and
sequence 4, header 16, check 4 (PCI Express Base Specification 5.0, 2.2 and 3.6)."""
REQUEST, COMPLETION = 64, 64
"""Work request that a NIC fetches, and completion that it writes, B, of ConnectX (Kalia, Kaminsky,
Andersen 2016, USENIX ATC, "Design guidelines for high performance RDMA systems")."""


@dataclass(frozen=True)
class MessageRate:
    """Time per message in a stream of equal messages.

    Parameters
    ----------
    latency : s
        Time of an empty message alone, from posting to completion.
    bandwidth : B/s
        Rate of the wire, including headers.
    service : s
        Time of the NIC, or of the posting thread, per message of any size.
    pair : s
        Time of a queue pair per message; queue pairs work in parallel.
    outstanding : B
        Largest amount in flight on one queue pair at any depth (windows and credits).
    mtu, header : B
        Payload of a full packet, and overhead of each packet on the wire.
    slot : B/s
        Rate of one direction of the NIC's PCIe link after encoding. Requests, data and completions
        cross it in PCIe packets, at both ends.
    hops : number
        Number of store-and-forward switches, which receive a complete packet before sending it.

    Examples
    --------
    A message of 1 MB at 1 GB/s and 1 us alone; with sixteen outstanding only the wire counts:

    >>> nic = MessageRate(latency=1e-6, bandwidth=1e9, mtu=4096, header=0)
    >>> float(nic.seconds(1e6, 1, 1)), float(nic.seconds(1e6, 16, 1))
    (0.001001, 0.001)

    Small messages wait for each other until enough are outstanding, and then for the NIC:

    >>> nic = MessageRate(latency=2e-6, bandwidth=1e12, service=1e-7, pair=4e-7, header=0)
    >>> nic.seconds(8, [1, 4, 64, 64], [1, 1, 1, 8]).round(9).tolist()
    [2e-06, 5e-07, 4e-07, 1e-07]
    """

    latency: float
    bandwidth: float
    service: float = 0.0
    pair: float = 0.0
    outstanding: float = np.inf
    mtu: float = 4096.0
    header: float = float(ROCE)
    slot: float = np.inf
    hops: float = 0.0

    @classmethod
    def of_parts(
        cls, nic: Nic, switches: Sequence[Switch] = (), *, slot: float = np.inf,
        messages: float = np.inf, constant: float = 0.0,
    ) -> MessageRate:  # fmt: skip
        """Message-rate bounds of a path between two equal NICs, from data sheets.

        Parameters
        ----------
        nic : NIC at both ends
        switches : switches on the path; the message and its acknowledgement cross each of them
        slot : rate of each NIC's PCIe link, in B/s
        messages : largest message rate of the NIC at any size, in 1/s
        constant : additional time of a message alone, in s: the only measured value

        Examples
        --------
        >>> nic = Nic(bandwidth=25e9, latency=6e-7, overhead=1e-7)
        >>> switch = Switch(bandwidth=25e9, latency=3e-7, ports=32)
        >>> path = MessageRate.of_parts(nic, [switch], slot=31.5e9, messages=2e8)
        >>> path.seconds([64, 65536], 1, 1).round(9).tolist()
        [1.928e-06, 5.037e-06]
        >>> round(float(65536 / path.seconds(65536, 128, 4) / 1e9), 2)
        24.51
        """
        crossed = 2 * sum(switch.latency for switch in switches)
        return cls(
            latency=2 * nic.latency + nic.overhead + crossed + constant,
            bandwidth=min([nic.bandwidth, *(switch.bandwidth for switch in switches)]),
            service=1 / messages, pair=nic.overhead, mtu=nic.mtu, header=nic.header, slot=slot,
            hops=float(len(switches)),
        )  # fmt: skip

    def seconds(self, size: Floats | float, depth: Floats | float, pairs: Floats | float) -> Floats:
        """Time per message in s, shape (n,).

        Parameters
        ----------
        size : (n,) message size in B
        depth : (n,) messages outstanding on each queue pair
        pairs : (n,) number of queue pairs
        """
        size, depth, pairs = (np.asarray(v, float) for v in (size, depth, pairs))
        wire, bus = self.wire_seconds(size), self.bus_seconds(size)
        window = np.maximum(1.0, self.outstanding / np.maximum(size, 1.0))
        cycle = self.seconds_alone(size) / (np.minimum(depth, window) * pairs)
        posted = np.maximum(self.service, self.pair / pairs)
        return np.asarray(np.max(np.broadcast_arrays(cycle, wire, bus, posted), axis=0))

    def seconds_alone(self, size: Floats) -> Floats:
        """Time of a single message in s, shape (n,).

        Its first packet crosses every part in turn; the remaining packets take the time of the
        slowest.
        """
        first = np.minimum(size, self.mtu)
        parts = np.array([self.wire_seconds(first), self.bus_seconds(first)])
        crossings = (self.hops + 1) * parts[0] + 2 * parts[1]
        slowest = np.maximum(self.wire_seconds(size), self.bus_seconds(size))
        return np.asarray(self.latency + crossings + slowest - np.max(parts, axis=0))

    def bus_seconds(self, size: Floats) -> Floats:
        """Time of a message on the PCIe link in s, shape (n,), including request and completion."""
        packets = np.ceil(size / TLP) + 2
        return np.asarray((size + REQUEST + COMPLETION + packets * AROUND) / self.slot)

    def wire_seconds(self, size: Floats) -> Floats:
        """Time of a message on the wire in s, shape (n,): packets with headers."""
        packets = np.maximum(1.0, np.ceil(size / self.mtu))
        return np.asarray((size + packets * self.header) / self.bandwidth)
