"""Message rate of a NIC by size, ops outstanding and queue pairs.

A closed system: so many messages are under way, each is followed by the next one.  The slowest of
five things sets the pace (asymptotic bounds: Denning and Buzen 1978, doi:10.1145/356733.356735).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .nic import ROCE

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class MessageRate:
    """Time per message of a stream of equal messages.

    Parameters
    ----------
    latency : s
        Of a message of no bytes alone, from posting it to its completion.
    bandwidth : B/s
        Of the wire, headers included.
    service : s
        That the NIC, or who posts, takes for each message, whatever its size.
    pair : s
        That a queue pair takes for each of its messages; pairs work side by side.
    outstanding : B
        That may be under way on one queue pair, whatever its depth: windows and credits.
    mtu, header : B
        Payload of a full packet, and what the wire carries around each.

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

    def seconds(self, size: Floats | float, depth: Floats | float, pairs: Floats | float) -> Floats:
        """(n,) s per message.

        Parameters
        ----------
        size : (n,) B of a message
        depth : (n,) messages outstanding on each queue pair
        pairs : (n,) queue pairs
        """
        size, depth, pairs = (np.asarray(v, float) for v in (size, depth, pairs))
        wire = self.wire_seconds(size)
        window = np.maximum(1.0, self.outstanding / np.maximum(size, 1.0))
        cycle = (self.latency + wire) / (np.minimum(depth, window) * pairs)
        slowest = np.maximum(np.maximum(cycle, wire), np.maximum(self.service, self.pair / pairs))
        return np.asarray(slowest)

    def wire_seconds(self, size: Floats) -> Floats:
        """(n,) s that a message takes of the wire, in packets with headers."""
        packets = np.maximum(1.0, np.ceil(size / self.mtu))
        return np.asarray((size + packets * self.header) / self.bandwidth)
