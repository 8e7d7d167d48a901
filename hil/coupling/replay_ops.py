"""What a run would ask its devices, and what the models say of the same ops: for replay."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...sim.backend import Timing
from ...sim.binding import endpoints
from ...sim.graph import Graph
from ...sim.ops import Ops
from ...sim.place import asked, place
from ...sim.system import System
from ...sim.units import Bytes, Seconds
from .coupled import Coupled, Coupling, way
from .device_adapter import ResidualPath
from .op_path import each, where


@dataclass(frozen=True)
class ReplayOp:
    """One op that a device would do.

    Parameters
    ----------
    row : of the graph
    component : as it was swapped
    signature : what the driver is asked
    bytes : of the op; NaN for unknown
    predicted : s, by the model, alone; NaN where no model is bound
    way : what stays modelled of it
    slowest : B/s that what stays modelled allows; infinite for no bound
    possible : whether the driver can do it
    """

    row: int
    component: str
    signature: str
    bytes: Bytes
    predicted: Seconds
    way: ResidualPath
    slowest: float
    possible: bool

    def whole(self, sample: Seconds) -> Seconds:
        """Seconds of the op alone, given the device's part of it.

        >>> ReplayOp(0, "nic", "send:send", 1e6, 0.0, ResidualPath(1e-6), 1e9, True).whole(5e-4)
        0.001
        """
        bound = self.bytes / self.slowest if np.isfinite(self.slowest) else 0.0
        return max(sample + self.way.latency, bound)


def replay_ops(coupling: Coupling, graph: Graph, predict: bool = True) -> list[ReplayOp]:
    """Every op of a graph that a device covers, in the order of the rows.

    Parameters
    ----------
    predict : ask models also about ops of which devices do all; they may not know them
    """
    if graph.system is not coupling.system:
        graph = place(graph, coupling.system)
    component, members, found = asked(graph), endpoints(graph), []
    for backend in {id(b): b for b in coupling.backends.values()}.values():
        if not isinstance(backend, Coupled):
            continue
        names = [coupling.system.number(n) for n, b in coupling.backends.items() if b is backend]
        rows = np.flatnonzero(np.isin(component, names))
        if len(rows):
            table = graph.ops.take(rows).asked(coupling.system, component[rows], members.take(rows))
            found += _of(backend, table, rows, predict)
    return sorted(found, key=lambda q: q.row)


def _of(backend: Coupled, ops: Ops, rows: NDArray[np.int64], predict: bool) -> list[ReplayOp]:
    system = where(ops).system
    backend.open(system)
    model = backend.model if predict else None
    said = backend.modelled(ops, 0.0) if model is None else model.timing(ops)
    times, found = np.full(len(ops), np.nan) if said is None else alone(said, ops), []
    for op, row, predicted in zip(each(ops, said), rows.tolist(), times.tolist(), strict=True):
        port = backend.port(op)
        if port is None:
            continue
        text, beside = op.text, way(op, port)
        slowest = min((rate_of(system, c) / w for c, w in beside.usage.items()), default=np.inf)
        possible = port.swap.can(text)
        found.append(ReplayOp(row, port.name, text, op.bytes, predicted, beside, slowest, possible))
    return found


def rate_of(system: System, component: str) -> float:
    """Of a component; infinite for one that has none."""
    rate = system[component].rate
    return float("inf") if rate is None else rate


def alone(said: Timing, ops: Ops) -> NDArray[np.float64]:
    """(n,) s of each op with nothing else in flight."""
    if said.work is None:
        return said.fixed
    at, n = where(ops), len(ops)
    rate = np.full(n, np.inf) if said.limit is None else said.limit.copy()
    parts = at.system.components
    if said.usage is None:
        row, component, weight = np.arange(n), at.component, np.ones(n)
    else:
        row = np.repeat(np.arange(n), np.diff(said.usage.indptr))
        component, weight = said.usage.component, said.usage.weight
    each = np.array([np.inf if (r := parts[c].rate) is None else r for c in component.tolist()])
    np.minimum.at(rate, row, each / weight)
    busy = np.divide(said.work, rate, out=np.zeros(n), where=said.work > 0)
    return np.asarray(said.fixed + busy)
