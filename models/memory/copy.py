"""Copies: bytes that use every memory and bus on their path at the same time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...sim.errors import BackendError
from ...sim.facts.backend import Backend, Timing, Usage, backend
from ...sim.facts.ops import Ops, require
from ...sim.facts.signature import parse_signature
from ...sim.facts.system import System
from ...sim.units import Seconds

PATHS: dict[str, tuple[tuple[str, float], ...]] = {
    "h2d": (("dram", 1.0), ("pcie_down", 1.0), ("h2d", 1.0), ("hbm", 1.0)),
    "d2h": (("hbm", 1.0), ("d2h", 1.0), ("pcie_up", 1.0), ("dram", 1.0)),
    "d2d": (("hbm", 2.0),),  # read and written
    "h2h": (("dram", 2.0),),
    "fill": (("hbm", 1.0),),  # a GPU's memory is set to a value: only written
    "c2d": (("cxl", 1.0), ("pcie_down", 1.0), ("h2d", 1.0), ("hbm", 1.0)),
    "d2c": (("hbm", 1.0), ("d2h", 1.0), ("pcie_up", 1.0), ("cxl", 1.0)),
    "h2c": (("cxl", 1.0), ("dram", 1.0)),  # pages that move down a tier, and up again
    "c2h": (("cxl", 1.0), ("dram", 1.0)),
}
"""By direction (h host, d device, c CXL memory): roles of the GPU's parts, and how often the bytes
pass them.  ``h2d`` and ``d2h`` are also the two directions of the bus, ``pcie_up`` and
``pcie_down`` those of the PCIe switch above the GPU."""


@backend("copy")
class Copy(Backend):
    """DMA engines of a GPU; the direction is in the op's signature (``copy:h2d``).

    Parameters
    ----------
    launch : Seconds
        Start-up time of each copy, before its bytes move.

    Examples
    --------
    >>> from ...sim.facts.system import Component
    >>> parts = [Component("g", "gpu", slots=1), Component("dma", "dma", slots=1),
    ...     Component("bus", "link", rate=1e9, latency=1e-6)]
    >>> system = System(tuple(parts), ("g",), {"g": {"dma": "dma", "h2d": "bus"}})
    >>> ops = Ops.of(kind=2, bytes=[1e6], signature=0, signatures=("copy:h2d",))
    >>> ops = ops.with_placement(system, 1)
    >>> copy = Copy(launch=2e-6)
    >>> copy.open(system)
    >>> timing = copy.timing(ops)
    >>> timing.fixed.round(9).tolist(), timing.usage.component.tolist()
    ([3e-06], [2])
    """

    def __init__(self, *, launch: Seconds = 0.0):
        self.launch = launch
        self.source = f"model:copy launch={launch:.4g} s"
        self._gpu: dict[int, int] = {}

    def open(self, system: System) -> None:
        """Look up the GPU of each DMA engine."""
        self._gpu = {g: g for g in system.numbers}
        self._gpu |= {engine: gpu for gpu, engine in system.parts_by_gpu("dma").items()}

    def timing_groups(self, system: System) -> NDArray[np.int64]:
        """Class number of each component: equal for GPUs whose paths have the same latencies."""
        gpus = np.array(system.numbers, np.int64)
        latency = np.append(system.components.column(lambda c: c.latency, float), -1.0)  # no part
        roles = sorted({role for path in PATHS.values() for role, _ in path})
        each = np.stack([latency[system.components_in_role(role)[gpus]] for role in roles])
        told = np.unique(each, axis=1, return_inverse=True)[1].reshape(-1)
        found = np.zeros(len(system.components), np.int64)
        found[gpus] = told
        engines = system.components_in_role("dma")[gpus]
        found[engines[engines >= 0]] = told[engines >= 0]
        return found

    def knows(self, ops: Ops) -> NDArray[np.bool_]:
        """Mask of ops with known bytes and direction, shape (n,)."""
        known = [parse_signature(s).name in PATHS for s in ops.signatures]
        return np.array([*known, False])[ops.signature] & ~np.isnan(ops.bytes)

    def timing(self, ops: Ops, now: float = 0.0) -> Timing:
        """Launch and latencies of the path as fixed time, then the bytes as shared work."""
        require(ops, "bytes")
        if ops.at is None:
            raise BackendError("copy: the op is not placed on a machine; place the graph first")
        system = ops.at.system
        names = [parse_signature(s).name for s in ops.signatures]
        asked = zip(ops.at.component.tolist(), ops.signature.tolist(), strict=True)
        usage_by_op: dict[tuple[int, int], dict[int, float]] = {}
        uses = []
        for component, s in asked:
            if (component, s) not in usage_by_op:
                direction = names[s] if s >= 0 else "unknown"
                usage_by_op[component, s] = self._usage_of_path(component, direction, system)
            uses.append(usage_by_op[component, s])
        latency = [sum(system.components[c].latency for c in u) for u in uses]
        return Timing.of(self.launch + np.array(latency), ops.bytes, Usage.of(uses))

    def _usage_of_path(self, component: int, direction: str, system: System) -> dict[int, float]:
        """Bytes that each component on a copy's path moves per copied byte, by component index.

        Memories that the system does not have are left out.
        """
        if direction not in PATHS:
            raise BackendError(
                f"{system.components[component].name}: copy {direction!r} is not a direction; "
                f"write one of {list(PATHS)} in the op's signature"
            )
        gpu = self._gpu.get(component, component)
        usage = {system.part(gpu, role): weight for role, weight in PATHS[direction]}
        usage.pop(-1, None)
        bus = [role for role, _ in PATHS[direction] if role in ("h2d", "d2h")] or [
            PATHS[direction][0][0]
        ]
        if system.part(gpu, bus[0]) < 0:
            raise BackendError(
                f"{system.components[gpu].name}: copy {direction!r} needs a part {bus[0]!r}; "
                "give the node a link between host and GPU, or bind 'recorded'"
            )
        return usage
