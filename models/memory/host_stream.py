"""Host ops limited by memory bandwidth: Adam on the CPU, casts, sums."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...sim.errors import BackendError
from ...sim.facts.backend import Backend, Timing, Usage, backend
from ...sim.facts.ops import Ops, require
from ...sim.facts.system import System


@backend("host-stream")
class HostStream(Backend):
    """Host backend for ops that are limited by the shared bandwidth of the host's memory.

    Arithmetic is assumed to overlap with memory accesses, as in a vectorised Adam on many threads
    (Ren et al. 2021, arXiv:2101.06840, section 5.1).

    Examples
    --------
    >>> from ...sim.facts.system import Component
    >>> parts = [Component("g", "gpu", slots=1), Component("h", "host", slots=1),
    ...     Component("m", "memory", rate=1e9)]
    >>> system = System(tuple(parts), ("g",), {"g": {"host": "h", "dram": "m"}})
    >>> host = HostStream()
    >>> host.open(system)
    >>> timing = host.timing(Ops.of(kind=1, bytes=[2e6]).with_placement(system, 1))
    >>> timing.work.tolist(), timing.usage.component.tolist()
    ([2000000.0], [2])
    """

    uniform = True
    source = "model:host-stream"

    def open(self, system: System) -> None:
        """Look up the memory of each host."""
        first, memory = system.first_in_machine("dram").tolist(), system.parts_by_gpu("dram")
        hosts = np.flatnonzero(system.components.column(lambda part: part.kind == "host", bool))
        self._memory = {host: first[host] for host in hosts.tolist()}
        self._memory |= {
            host: memory.get(gpu, -1) for gpu, host in system.parts_by_gpu("host").items()
        }

    def knows(self, ops: Ops) -> NDArray[np.bool_]:
        """Mask of ops with known bytes, shape (n,)."""
        return ~np.isnan(ops.bytes)

    def timing(self, ops: Ops, now: float = 0.0) -> Timing:
        """Bytes as shared work on the host's memory.

        Raises
        ------
        BackendError
            A host without memory.
        """
        require(ops, "bytes")
        if ops.at is None:
            raise BackendError(
                "host-stream: the op is not placed on a machine; place the graph first"
            )
        asked = ops.at.component.tolist()
        memory = [self._memory.get(host, -1) for host in asked]
        if -1 in memory:
            name = ops.at.system.components[asked[memory.index(-1)]].name
            raise BackendError(
                f"{name}: the bandwidth of its memory is unknown; write "
                "cluster.node.memory, for example {model: xeon-8480c-dual}"
            )
        return Timing.of(np.zeros(len(ops)), ops.bytes, Usage.of([{m: 1.0} for m in memory]))
