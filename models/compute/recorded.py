"""Backend that uses recorded durations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ...sim.errors import BackendError
from ...sim.facts.backend import Backend, Spread, Timing, Usage, backend
from ...sim.facts.doubt import Doubt
from ...sim.facts.ops import Kind, Ops, require
from ...sim.facts.system import CORE, System
from ...sim.units import Ratio
from .gpu_groups import CacheRoof
from .jitter import jitter_spread

# families of the error intervals of times copied to another GPU, and to another host
ELSEWHERE = "recorded on another GPU"
OTHER_HOST = "host ops of another machine"


@backend("recorded")
class Recorded(Backend):
    """Backend that returns the durations recorded in the trace.

    Parameters
    ----------
    scale : Ratio
        Factor on every duration: 1.3 for a straggler that takes 30 % longer.
    shared : bool
        Ops use the memory of their machine (its ``dram``) at the rate at which they moved bytes
        when recorded. Ranks on one machine slow each other down if they need more bandwidth than it
        has.
    cache : CacheRoof
        Cache of the processor, used with ``shared``: ops that move no more bytes than its size do
        not use memory bandwidth.

    Examples
    --------
    >>> Recorded(scale=1.5).timing(Ops.of(duration=[2.0, 4.0])).fixed.tolist()
    [3.0, 6.0]
    """

    uniform = True
    renamed_settings: ClassVar[Mapping[str, str]] = {"cache": "cache.size"}

    def __init__(self, *, scale: Ratio = 1.0, shared: bool = False, cache: CacheRoof = CacheRoof()):
        self.scale, self.shared, self.cache = scale, shared, cache.size or 0.0
        self.spread: Spread | None = None
        self.doubt: Doubt | None = None
        label = "recorded: trace" if scale == 1 else f"recorded: trace x {scale:g}"
        self.source = f"{label}, memory shared" if shared else label
        self._memory: dict[int, int] = {}
        self._core: dict[int, int] = {}

    def open(self, system: System) -> None:
        """Look up each GPU's host memory (``dram``) and shared core (``core``)."""
        self._memory, self._core = system.parts_by_gpu("dram"), system.parts_by_gpu("core")

    @classmethod
    def with_jitter(cls, ops: Ops, *, scale: Ratio = 1.0) -> Recorded:
        """Backend whose replicas draw the jitter estimated from the iterations in ``ops``.

        >>> Recorded.with_jitter(Ops.of(duration=[1.0, 2.0, 1.0], period=[0, 1, 2])).spread is None
        False
        """
        made = cls(scale=scale)
        made.spread = jitter_spread(ops)
        return made

    @classmethod
    def of_another_gpu(cls, *, scale: Ratio = 1.0) -> Recorded:
        """Backend for a GPU other than that of the recording; its error interval is unbounded.

        >>> Recorded.of_another_gpu().timing(Ops.of(duration=[1.0])).doubt[0].interval()
        (0.0, inf)
        """
        made = cls(scale=scale)
        made.doubt = Doubt(ELSEWHERE)
        return made

    @classmethod
    def of_another_host(cls) -> Recorded:
        """Backend for a host other than that of the recording; its error interval is unbounded.

        >>> Recorded.of_another_host().timing(Ops.of(kind=1, duration=[1.0])).doubt[0].interval()
        (0.0, inf)
        """
        made = cls()
        made.doubt = Doubt(OTHER_HOST)
        return made

    def knows(self, ops: Ops) -> NDArray[np.bool_]:
        """Mask of ops with a recorded duration, shape (n,)."""
        return ~np.isnan(ops.duration)

    def timing(self, ops: Ops, now: float = 0.0) -> Timing:
        """Recorded durations, as work on the shared memory or core if the op uses one."""
        require(ops, "duration")
        seconds = ops.duration * self.scale
        busy = (ops.kind == Kind.COMPUTE) & (seconds > 0)
        moves = busy & (ops.bytes > self.cache) & self.shared
        core = np.where(busy, _part_of_each(ops, self._core), -1)
        memory = self._memory_of_each(ops, moves)
        work = np.where(core >= 0, seconds * CORE, np.where(moves, ops.bytes, 0.0))
        if not work.any():
            return Timing.of(seconds, spread=self.spread, doubt=self.doubt)
        flows = work > 0
        each = np.divide(work, seconds, out=np.full(len(ops), np.inf), where=flows)
        moved = np.divide(ops.bytes, work, out=np.ones(len(ops)), where=flows)
        used = [
            {c: w for c, w in ((core[i], 1.0), (memory[i], moved[i])) if c >= 0}
            for i in range(len(ops))
        ]
        fixed = np.where(flows, 0.0, seconds)
        return Timing.of(fixed, work, Usage.of(used), each, self.spread, doubt=self.doubt)

    def _memory_of_each(self, ops: Ops, moves: NDArray[np.bool_]) -> NDArray[np.int32]:
        """Memory component of each op that uses one, shape (n,); -1 for others."""
        memory = _part_of_each(ops, self._memory)
        if np.any(memory[moves] < 0):
            raise BackendError(
                "recorded: 'shared' needs machines with a memory; give the node one "
                "(cluster.node.memory), or set shared: false"
            )
        return np.where(moves, memory, -1)


def _part_of_each(ops: Ops, parts: dict[int, int]) -> NDArray[np.int32]:
    """Number of the part (such as host memory) of each op's component, shape (n,); -1 for none."""
    if ops.at is None:
        return np.full(len(ops), -1, np.int32)
    of = np.full(1 + max(parts, default=0), -1, np.int32)
    of[list(parts)] = list(parts.values())
    asked = ops.at.component
    return np.where(asked < len(of), of[np.minimum(asked, len(of) - 1)], -1).astype(np.int32)
