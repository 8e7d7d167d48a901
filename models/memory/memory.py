"""Memory: a latency and a shared bandwidth."""

from __future__ import annotations

import numpy as np

from ...sim.facts.backend import Backend, Timing, backend
from ...sim.facts.ops import Ops, require
from ...sim.facts.system import Component, Location
from ...sim.units import Chunk, MemoryRate, Ratio, Seconds


@backend("memory")
class Memory(Backend):
    """Model of HBM, DRAM or a CXL expander: a latency and a shared bandwidth.

    Parameters
    ----------
    bandwidth : MemoryRate
        Total bandwidth of all channels.
    latency : Seconds
        Idle latency of one access.
    efficiency : Ratio
        Fraction of the bandwidth that streaming accesses reach.
    in_flight : Chunk or None
        Data that one requester can have outstanding. By Little's law this limits its bandwidth to
        ``in_flight / latency``, which is why one core cannot saturate a CXL expander. None: no
        limit.

    Examples
    --------
    >>> cxl = Memory(bandwidth=64e9, latency=4e-7, in_flight=12 * 64)
    >>> timing = cxl.timing(Ops.of(bytes=[1e9]))
    >>> timing.work.tolist(), round(float(timing.limit[0]) / 1e9, 3)
    ([1000000000.0], 1.92)

    References
    ----------
    Little 1961, doi:10.1287/opre.9.3.383.
    """

    def __init__(
        self,
        *,
        bandwidth: MemoryRate,
        latency: Seconds,
        efficiency: Ratio = 1.0,
        in_flight: Chunk | None = None,
    ):
        self.rate, self.latency = bandwidth * efficiency, latency
        self.in_flight = in_flight
        self.source = f"model:memory bandwidth={bandwidth:.4g} B/s latency={latency:.4g} s"

    def component(self, name: str, part: str = "") -> Component:
        """System component with the rate and latency of this memory.

        >>> Memory(bandwidth=2e12, latency=5e-7).component("node0.gpu0.hbm").rate
        2000000000000.0
        """
        at = Location(part=part)
        return Component(name, "memory", rate=self.rate, latency=self.latency, location=at)

    def timing(self, ops: Ops, now: float = 0.0) -> Timing:
        """Latency as fixed time, then the bytes as shared work, limited by ``in_flight``."""
        require(ops, "bytes")
        n = len(ops)
        if self.in_flight is None or self.latency == 0:
            return Timing.of(np.full(n, self.latency), ops.bytes)
        return Timing.of(
            np.full(n, self.latency), ops.bytes, limit=np.full(n, self.in_flight / self.latency)
        )
