"""Ops that last as long as they were recorded to."""

from __future__ import annotations

from ...sim.backend import Backend, Spread, Timing, backend
from ...sim.ops import Ops, require
from ...sim.units import Ratio
from .jitter import spread


@backend("recorded")
class Recorded(Backend):
    """The durations in the graph, as the trace has them.

    Parameters
    ----------
    scale : Ratio
        Multiplies every duration: 1.3 for a straggler that takes 30 % longer.

    Examples
    --------
    >>> Recorded(scale=1.5).timing(Ops.of(duration=[2.0, 4.0])).fixed.tolist()
    [3.0, 6.0]
    """

    uniform = True

    def __init__(self, *, scale: Ratio = 1.0):
        self.scale = scale
        self.spread: Spread | None = None
        self.source = "recorded: trace" if scale == 1 else f"recorded: trace x {scale:g}"

    @classmethod
    def varying(cls, ops: Ops, *, scale: Ratio = 1.0) -> Recorded:
        """Draws, in replicas, the variation that ``ops`` of several iterations show.

        >>> Recorded.varying(Ops.of(duration=[1.0, 2.0, 1.0], iteration=[0, 1, 2])).spread is None
        False
        """
        made = cls(scale=scale)
        made.spread = spread(ops)
        return made

    def timing(self, ops: Ops, now: float = 0.0) -> Timing:
        """Refuses ops whose duration is unknown."""
        require(ops, "duration")
        return Timing.of(ops.duration * self.scale, spread=self.spread)
