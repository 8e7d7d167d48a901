"""Timing of a graph: place it, call the backends, and round the times to engine integers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from ...engine_api.interface import Answer, EngineGraph, OnlineTiming
from ...engine_api.lowering import (
    lower,
    lower_answers,
    lower_claims,
    lower_flows,
    ticks_from_seconds,
)
from ...engine_api.row_lowering import RowLowering
from ...engine_api.validation import check_graph
from ...errors import GraphError
from ...facts.backend import Backend, Timing, check_timing
from ...facts.csr import Csr
from ...facts.graph import Graph
from ...facts.ops import Ops
from ...facts.place import place
from ...facts.system import System
from ...facts.way import Pins
from ...record.binding import OpTimings, communication_endpoints, time_graph, time_ops
from ...record.bound_system import BoundSystem
from ...record.one_way import refuse_ops_without_single_path
from ...units import seconds


@dataclass(frozen=True)
class TimedGraph:
    """Placed graph with the timings of its ops, common to all replicas."""

    graph: Graph
    answers: OpTimings
    lowered: EngineGraph


class GraphTiming:
    """Timing of graphs by the backends of a machine.

    Parameters
    ----------
    machine : Machine with a backend for each component.

    Attributes
    ----------
    routed : System
        Machine with the current routes.
    down : set of int
        Components that these routes avoid.
    """

    def __init__(self, machine: BoundSystem):
        self.system, self.tick, self.scale = machine.system, machine.tick, machine.scale
        self.bound, self.parts = machine.bound, machine.parts
        self.routed, self.down = machine.system, frozenset[int]()
        self._pinned = WeakKeyDictionary[Pins, tuple[System, System]]()

    @cached_property
    def row_lowering(self) -> RowLowering:
        """Conversion of single ops to engine integers."""
        return RowLowering(self.parts, self.system, self.scale, self.tick)

    def routes(self, pins: Pins | None) -> System:
        """Machine with the current routes, except that chosen routes are used where they can be.

        A chosen route over a component that routes avoid is not used.
        """
        if pins is None:
            return self.routed
        known = self._pinned.get(pins)
        if known is None or known[0] is not self.routed:
            free = {
                pair: route
                for pair, route in pins.routes.items()
                if self.down.isdisjoint(route.components)
            }
            known = self._pinned[pins] = self.routed, self.routed.with_routes(free)
        return known[1]

    def place(self, graph: Graph, on: Sequence[str] | None = None) -> Graph:
        """Graph placed on this machine: as placed before, or else on the given components."""
        if graph.system is None:
            graph = place(graph, self.system, on)
        if graph.system is not self.system:
            raise GraphError(
                "placement", f"graph {graph.name!r} was placed on another system; place it again"
            )
        return graph

    def time_graph(
        self,
        graph: Graph,
        on: Sequence[str] | None = None,
        periodic: bool = True,
        pins: Pins | None = None,
    ) -> TimedGraph:
        """Place a graph, time its ops, and convert it to engine form.

        Parameters
        ----------
        on : GPUs of its ranks, if it is not placed yet
        periodic : True if its ops keep their periods
        pins : routes that it chose
        """
        graph = self.place(graph, on)
        if not periodic:
            graph = _without_periods(graph)
        system = self.routes(pins)
        timings = time_graph(graph, self.bound, system)
        if self.parts.medium is not None:
            members = communication_endpoints(graph)
            refuse_ops_without_single_path(self.parts, graph.ops, timings.timing, members, system)
        return TimedGraph(graph, timings, self.lower(graph, timings, pins))

    def lower(self, graph: Graph, timings: OpTimings, pins: Pins | None = None) -> EngineGraph:
        """Engine graph of a placed graph with the given op timings."""
        at, members = (
            timings.component,
            communication_endpoints(graph) if timings.drivers else Csr.empty(0),
        )
        asks = tuple(
            self.online_timing(graph, backend, at, members, pins) for backend in timings.drivers
        )
        online = timings.online if asks else None
        return lower(
            graph.name,
            graph.explicit,
            timings.timing,
            self.system,
            self.scale,
            self.tick,
            online,
            asks,
        )

    def time_rows(
        self,
        graph: Graph,
        at: NDArray[np.int64],
        component: NDArray[np.int32],
        members: Csr,
        ops: Ops | None = None,
        pins: Pins | None = None,
        answered: Sequence[Timing] = (),
    ) -> tuple[OpTimings, EngineGraph]:
        """Time some rows of a graph: their op timings, and their engine form as independent ops.

        Parameters
        ----------
        at : row numbers of the ops in the graph
        component : component whose backend times each row
        members : GPUs of each send and collective
        ops : table of the rows with other numbers than in the graph; None for those of the graph
        pins : routes that the graph chose
        answered : timings that the first backends returned already
        """
        table = graph.ops.take(at) if ops is None else ops
        times = None if graph.times is None else graph.times.take(at)
        system = self.routes(pins)
        timings = time_ops(table, component, members, system, self.bound, at, times, answered)
        refuse_ops_without_single_path(self.parts, table, timings.timing, members, system)
        shared = lower_flows(timings.timing, self.system, self.scale, self.tick, rows=at)
        fixed = ticks_from_seconds(timings.timing.fixed, self.tick, at)
        found = EngineGraph.of_independent_ops(
            graph.name, fixed, shared, lower_claims(timings.timing)
        )
        check_graph(self.parts, found.scattered(len(graph), at))
        return timings, found

    def online_timing(
        self,
        graph: Graph,
        backend: Backend,
        component_by_row: NDArray[np.int32] | Mapping[int, int],
        members: Csr | Mapping[int, NDArray[np.int32]],
        pins: Pins | None = None,
    ) -> OnlineTiming:
        """Function that an engine calls during the run to time ops by an online backend.

        Parameters
        ----------
        component_by_row : component of each row
        members : GPUs of each send and collective, by row
        pins : routes that the graph chose
        """
        ops = graph.ops

        def timing(rows: Sequence[int], now: int) -> list[Answer]:
            at = np.asarray(rows)
            component = np.array([component_by_row[row] for row in rows], np.int32)
            ends = Csr.of([members[row].tolist() for row in rows])
            table = ops.take(at).with_placement(self.routes(pins), component, ends)
            found = backend.timing(table, float(seconds(now, self.tick)))
            check_timing(found, table, self.system.components[component[0]].name, at)
            if graph.times is not None:
                found = graph.times.take(at).apply_to(found)
            written = found.with_explicit_usage(component)
            return lower_answers(written, self.system, self.scale, self.tick, at)

        return timing


def _without_periods(graph: Graph) -> Graph:
    """Graph whose ops have no period."""
    ops = graph.ops
    return graph if np.all(ops.period < 0) else graph.with_ops(ops.replace(period=-1))
