"""Ops that last as long as they were recorded to."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...sim.backend import Backend, Spread, Timing, Usage, backend
from ...sim.errors import BackendError
from ...sim.ops import Kind, Ops, require
from ...sim.system import System
from ...sim.units import Bytes, Ratio
from .jitter import spread


@backend("recorded")
class Recorded(Backend):
    """The durations in the graph, as the trace has them.

    Parameters
    ----------
    scale : Ratio
        Multiplies every duration: 1.3 for a straggler that takes 30 % longer.
    shared : bool
        Ops use their machine's memory (its ``dram``) at the rate at which they moved their bytes
        when recorded, so that ranks on one machine slow each other once they want more than it
        has.  Such ops do not vary in replicas.
    cache : Bytes
        With ``shared``: ops that move no more than this leave the memory alone.

    Examples
    --------
    >>> Recorded(scale=1.5).timing(Ops.of(duration=[2.0, 4.0])).fixed.tolist()
    [3.0, 6.0]
    """

    uniform = True

    def __init__(self, *, scale: Ratio = 1.0, shared: bool = False, cache: Bytes = 0.0):
        self.scale, self.shared, self.cache = scale, shared, cache
        self.spread: Spread | None = None
        told = "recorded: trace" if scale == 1 else f"recorded: trace x {scale:g}"
        self.source = f"{told}, memory shared" if shared else told
        self._memory: dict[int, int] = {}

    def open(self, system: System) -> None:
        """Find the memory of each GPU's machine."""
        gpus = [system.number(g) for g in system.gpus]
        self._memory = {g: system.part(g, "dram") for g in gpus}

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
        took = ops.duration * self.scale
        if not self.shared:
            return Timing.of(took, spread=self.spread)
        flows = (ops.kind == Kind.COMPUTE) & (ops.bytes > self.cache) & (took > 0)
        rate = np.divide(ops.bytes, took, out=np.full(len(ops), np.inf), where=flows)
        return Timing(
            np.where(flows, 0.0, took),
            np.where(flows, ops.bytes, 0.0),
            self._usage(ops, np.flatnonzero(flows)),
            rate,
            self.spread,
        )

    def _usage(self, ops: Ops, flows: NDArray[np.int64]) -> Usage:
        """The memory of their machine for those, nothing for others."""
        asked = [] if ops.at is None else ops.at.component[flows].tolist()
        memory = np.array([self._memory.get(g, -1) for g in asked], np.int32)
        if len(memory) < len(flows) or np.any(memory < 0):
            raise BackendError(
                "recorded: 'shared' needs machines with a memory; give the node one "
                "(cluster.node.memory), or set shared: false"
            )
        counts = np.zeros(len(ops) + 1, np.int64)
        counts[flows + 1] = 1
        return Usage(np.cumsum(counts), memory, np.ones(len(flows)))
