"""Link model: a latency, then bytes at a rate that all transfers in flight share."""

from __future__ import annotations

import math

import numpy as np

from ....sim.facts.backend import Backend, Timing, backend
from ....sim.facts.ops import Ops, require
from ....sim.facts.system import Component, Location
from ....sim.units import ByteRate, Ratio, Seconds


@backend("link")
class Link(Backend):
    """One direction of a link: Hockney's ``t = latency + bytes / rate``.

    Parameters
    ----------
    bandwidth : ByteRate
        Line rate of one direction.
    latency : Seconds
        Time to cross the link once.
    efficiency : Ratio
        Fraction of the line rate that is left for payload (after headers, encoding, flow control).
    overhead : Seconds
        Time of each message that enters the link, before its bytes move.

    Examples
    --------
    >>> link = Link(bandwidth=1e9, latency=1e-6)
    >>> timing = link.timing(Ops.of(bytes=[0, 1000]))
    >>> timing.fixed.tolist(), timing.work.tolist()
    ([1e-06, 1e-06], [0.0, 1000.0])

    References
    ----------
    Hockney 1994, doi:10.1016/S0167-8191(06)80021-9.
    """

    kind = "link"
    limit = math.inf  # largest rate of one sender, B/s

    def __init__(
        self,
        *,
        bandwidth: ByteRate,
        latency: Seconds,
        efficiency: Ratio = 1.0,
        overhead: Seconds = 0.0,
    ):
        self.bandwidth, self.latency = bandwidth, latency
        self.efficiency, self.overhead = efficiency, overhead
        self.source = (
            f"model:{self.registered_name} bandwidth={bandwidth:.4g} B/s latency={latency:.4g} s"
        )

    @property
    def rate(self) -> ByteRate:
        """Payload bytes per second.

        >>> Link(bandwidth=1e9, latency=0, efficiency=0.9).rate
        900000000.0
        """
        return self.bandwidth * self.efficiency

    def component(self, name: str, part: str = "") -> Component:
        """System component with the rate and latency of this link.

        >>> Link(bandwidth=1e9, latency=1e-6).component("wire").rate
        1000000000.0
        """
        return Component(
            name,
            self.kind,
            rate=self.rate,
            latency=self.latency,
            overhead=self.overhead,
            limit=self.limit,
            location=Location(part=part),
        )

    def timing(self, ops: Ops, now: float = 0.0) -> Timing:
        """Latency and overhead as fixed time, then the bytes as work at the link's shared rate."""
        require(ops, "bytes")
        bound = None if self.limit == math.inf else np.full(len(ops), self.limit)
        return Timing.of(np.full(len(ops), self.latency + self.overhead), ops.bytes, limit=bound)
