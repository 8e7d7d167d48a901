"""Ops that last as long as they were recorded to."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...sim.backend import Backend, Spread, Timing, Usage, backend
from ...sim.errors import BackendError
from ...sim.ops import Kind, Ops, require
from ...sim.system import CORE, System
from ...sim.units import Chunk, Ratio
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
        has.
    cache : Chunk
        With ``shared``: ops that move no more than this leave the memory alone.

    Examples
    --------
    >>> Recorded(scale=1.5).timing(Ops.of(duration=[2.0, 4.0])).fixed.tolist()
    [3.0, 6.0]
    """

    uniform = True

    def __init__(self, *, scale: Ratio = 1.0, shared: bool = False, cache: Chunk = 0.0):
        self.scale, self.shared, self.cache = scale, shared, cache
        self.spread: Spread | None = None
        told = "recorded: trace" if scale == 1 else f"recorded: trace x {scale:g}"
        self.source = f"{told}, memory shared" if shared else told
        self._memory: dict[int, int] = {}
        self._core: dict[int, int] = {}

    def open(self, system: System) -> None:
        """Find the memory of each GPU's machine, and which are cores whose time is shared."""
        for gpu in system.numbers:
            self._memory[gpu] = system.part(gpu, "dram")
            self._core[gpu] = system.part(gpu, "core")

    @classmethod
    def varying(cls, ops: Ops, *, scale: Ratio = 1.0) -> Recorded:
        """Draws, in replicas, the variation that ``ops`` of several iterations show.

        >>> Recorded.varying(Ops.of(duration=[1.0, 2.0, 1.0], period=[0, 1, 2])).spread is None
        False
        """
        made = cls(scale=scale)
        made.spread = spread(ops)
        return made

    def timing(self, ops: Ops, now: float = 0.0) -> Timing:
        """Refuses ops whose duration is unknown."""
        require(ops, "duration")
        took = ops.duration * self.scale
        busy = (ops.kind == Kind.COMPUTE) & (took > 0)
        moves = busy & (ops.bytes > self.cache) & self.shared
        core = np.where(busy, _of(ops, self._core), -1)
        memory = self._memories(ops, moves)
        work = np.where(core >= 0, took * CORE, np.where(moves, ops.bytes, 0.0))
        if not work.any():
            return Timing.of(took, spread=self.spread)
        flows = work > 0
        each = np.divide(work, took, out=np.full(len(ops), np.inf), where=flows)
        moved = np.divide(ops.bytes, work, out=np.ones(len(ops)), where=flows)
        used = [
            {c: w for c, w in ((core[i], 1.0), (memory[i], moved[i])) if c >= 0}
            for i in range(len(ops))
        ]
        return Timing(np.where(flows, 0.0, took), work, Usage.of(used), each, self.spread)

    def _memories(self, ops: Ops, moves: NDArray[np.bool_]) -> NDArray[np.int32]:
        """(n,) The memory of the machine of those that move much, -1 for others."""
        found = _of(ops, self._memory)
        if np.any(found[moves] < 0):
            raise BackendError(
                "recorded: 'shared' needs machines with a memory; give the node one "
                "(cluster.node.memory), or set shared: false"
            )
        return np.where(moves, found, -1)


def _of(ops: Ops, parts: dict[int, int]) -> NDArray[np.int32]:
    """(n,) That part of the component that is asked for each op, -1 for none."""
    if ops.at is None:
        return np.full(len(ops), -1, np.int32)
    of = np.full(1 + max(parts, default=0), -1, np.int32)
    of[list(parts)] = list(parts.values())
    asked = ops.at.component
    return np.where(asked < len(of), of[np.minimum(asked, len(of) - 1)], -1).astype(np.int32)
