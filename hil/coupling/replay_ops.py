"""Replay mode: the ops of a graph that devices would execute, and their predicted times."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...sim.facts.backend import uncontended_seconds
from ...sim.facts.graph import Graph
from ...sim.facts.ops import Ops
from ...sim.facts.place import place, timing_component_per_op
from ...sim.facts.system import System
from ...sim.record.binding import communication_endpoints
from ...sim.units import Bytes, Seconds
from .coupled import Coupled, Coupling, residual_path
from .device_adapter import ResidualPath
from .op_path import op_paths, placement


@dataclass(frozen=True)
class ReplayOp:
    """Op of a graph that a device covers.

    Parameters
    ----------
    row : row of the op in the graph
    component : name under ``hil.swap``
    signature : signature sent to the driver
    bytes : bytes of the op; NaN if unknown
    predicted : time by the model for the complete op without contention, in s; NaN if no model is
        bound
    residual_path : part of the path that stays modelled
    rate_bound : maximum rate of the residual path, in B/s; infinite if unlimited
    supported : True if the driver can execute the op
    """

    row: int
    component: str
    signature: str
    bytes: Bytes
    predicted: Seconds
    residual_path: ResidualPath
    rate_bound: float
    supported: bool

    def total_seconds(self, sample: Seconds) -> Seconds:
        """Time of the op in s: the device's sample plus the residual latency.

        It is at least bytes / rate bound.

        >>> op = ReplayOp(0, "nic", "send:send", 1e6, 0.0, ResidualPath(1e-6), 1e9, True)
        >>> op.total_seconds(5e-4), op.total_seconds(2e-3)
        (0.001, 0.002001)
        """
        bound = self.bytes / self.rate_bound if np.isfinite(self.rate_bound) else 0.0
        return max(sample + self.residual_path.latency, bound)


def replay_ops(coupling: Coupling, graph: Graph, predict: bool = True) -> list[ReplayOp]:
    """Ops of a graph that devices cover, in order of rows.

    Parameters
    ----------
    predict : True to include the model's prediction also for ops that devices cover completely
    """
    if graph.system is not coupling.system:
        graph = place(graph, coupling.system)
    component, members, replay = timing_component_per_op(graph), communication_endpoints(graph), []
    for backend in {id(b): b for b in coupling.backends.values()}.values():
        if not isinstance(backend, Coupled):
            continue
        names = [coupling.system.number(n) for n, b in coupling.backends.items() if b is backend]
        rows = np.flatnonzero(np.isin(component, names))
        if len(rows):
            table = graph.ops.take(rows).with_placement(
                coupling.system, component[rows], members.take(rows)
            )
            replay += _ops_of_backend(backend, table, rows, predict)
    return sorted(replay, key=lambda q: q.row)


def _ops_of_backend(
    backend: Coupled, ops: Ops, rows: NDArray[np.int64], predict: bool
) -> list[ReplayOp]:
    system = placement(ops).system
    backend.open(system)
    model = backend.model if predict else None
    timing = backend.model_timing(ops, 0.0) if model is None else model.timing(ops)
    times, replay = (
        np.full(len(ops), np.nan) if timing is None else uncontended_seconds(timing, ops),
        [],
    )
    for op, row, predicted in zip(
        op_paths(ops, timing), rows.tolist(), times.tolist(), strict=True
    ):
        port = backend.adapter_of(op)
        if port is None:
            continue
        text, residual = op.signature, residual_path(op, port)
        rate_bound = min(
            (component_rate(system, c) / w for c, w in residual.usage.items()), default=np.inf
        )
        supported = port.swap.can_execute(text)
        replay.append(
            ReplayOp(row, port.name, text, op.bytes, predicted, residual, rate_bound, supported)
        )
    return replay


def component_rate(system: System, component: str) -> float:
    """Rate of a component in its unit of work per second, such as B/s; infinite if it has none."""
    rate = system[component].rate
    return float("inf") if rate is None else rate
