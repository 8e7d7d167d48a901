"""Backend of slots whose ops take a constant time each, and a time for each byte."""

from __future__ import annotations

import numpy as np

from ...sim.facts.backend import Backend, Timing, backend
from ...sim.facts.ops import Ops, require
from ...sim.units import ByteRate, Seconds


@backend("service")
class Service(Backend):
    """Constant time of an op, plus its bytes at the rate of one slot.

    It describes cores of a SmartNIC, accelerators and stages of a switch of which no more is known.

    Parameters
    ----------
    time : Seconds
        Time of each op, whatever its size.
    rate : ByteRate or None
        Rate at which one slot handles bytes; None if the size does not matter.

    Examples
    --------
    >>> Service(time=1e-6, rate=1e9).timing(Ops.of(kind=0, bytes=[1e3, 2e3])).fixed.tolist()
    [2e-06, 3e-06]
    """

    uniform = True

    def __init__(self, *, time: Seconds = 0.0, rate: ByteRate | None = None):
        if time < 0 or (rate is not None and rate <= 0):
            raise ValueError(
                f"service: time is {time:g} s and rate {rate}; give a time of 0 or more, and a "
                "rate above 0"
            )
        self.time, self.rate = time, rate
        self.source = f"model:service time={time:.4g} s" + (f" rate={rate:.4g} B/s" if rate else "")

    def timing(self, ops: Ops, now: float = 0.0) -> Timing:
        """Constant time and time of the bytes, without use of shared rates."""
        if self.rate is None:
            return Timing.of(np.full(len(ops), self.time))
        require(ops, "bytes")
        return Timing.of(self.time + ops.bytes / self.rate)
