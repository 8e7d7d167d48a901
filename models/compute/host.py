"""Hosts: CPU time of dispatching, launching and data loading."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...sim.backend import Backend, Timing, backend
from ...sim.ops import Ops, require
from ...sim.units import Ratio, Seconds


@backend("host")
class Host(Backend):
    """CPU cores of one machine: recorded durations scaled by relative speed.

    Parameters
    ----------
    speed : Ratio
        Of one thread, relative to the host of the recording; 2 halves every duration.
    dispatch : Seconds or None
        Duration of an op that was not recorded (a launch that a model inserted); None refuses it.

    Examples
    --------
    >>> ops = Ops.of(kind=1, duration=[1e-5, float("nan")])
    >>> Host(speed=2.0, dispatch=4e-6).timing(ops).fixed.tolist()
    [5e-06, 4e-06]
    """

    uniform = True

    def __init__(self, *, speed: Ratio = 1.0, dispatch: Seconds | None = None):
        self.speed, self.dispatch = speed, dispatch
        cost = "recorded only" if dispatch is None else f"dispatch={dispatch:.4g} s"
        self.source = f"model:host speed={speed:g} {cost}"

    def knows(self, ops: Ops) -> NDArray[np.bool_]:
        """(n,) whether it was recorded, or takes ``dispatch``."""
        return ~np.isnan(ops.duration) | (self.dispatch is not None)

    def timing(self, ops: Ops, now: float = 0.0) -> Timing:
        """Recorded durations divided by speed; ``dispatch`` where none was recorded."""
        if self.dispatch is None:
            require(ops, "duration")
            return Timing.of(ops.duration / self.speed)
        known = ~np.isnan(ops.duration)
        return Timing.of(np.where(known, ops.duration / self.speed, self.dispatch))
