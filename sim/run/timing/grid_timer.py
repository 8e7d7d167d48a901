"""Timing of a grid: graphs at many points, by one call to each backend for a table of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...engine_api.interface import EngineGraph
from ...engine_api.lowering import lower_claims, lower_flows, ticks_from_seconds
from ...engine_api.validation import check_graph
from ...errors import BackendError, GraphError
from ...facts.backend import Timing, uncontended_seconds
from ...facts.csr import Csr
from ...facts.graph import Graph
from ...facts.op_time_overrides import OpTimeOverrides
from ...facts.ops import Ops
from ...facts.way import Pins
from ...record.binding import OpTimings, time_ops
from ...record.one_way import refuse_ops_without_single_path
from ...record.prepared import row_timings
from ...record.prepared_grid import PointTimings
from ...record.step_grid import StepGrid
from .graph_timing import GraphTiming
from .grid_graphs import GridGraphs, Point


class GridTable(NamedTuple):
    """Ops of the graphs at some points, one graph after the other.

    Parameters
    ----------
    ops : table of all ops
    row : row of each op in its graph
    times : times and factors that override the backends
    """

    ops: Ops
    row: NDArray[np.int64]
    times: OpTimeOverrides | None


class GridTimer:
    """Times the graphs of a grid, which are placed like the graph of its first point.

    Parameters
    ----------
    timing : timing of the run's graphs
    grid : StepGrid
    graphs : graphs that the grids of the run have built
    edit : function that changes each graph before it is timed; None for none
    first : graph of the first point, before its placement
    placed : the same, placed
    component : (n,) component whose backend times each op
    members : (n,) GPUs of each send and collective
    pins : routes that the graph chose
    """

    def __init__(
        self,
        timing: GraphTiming,
        grid: StepGrid,
        graphs: GridGraphs,
        edit: Callable[[Graph], Graph] | None,
        first: Graph,
        placed: Graph,
        component: NDArray[np.int32],
        members: Csr,
        pins: Pins | None = None,
    ):
        self._timing, self._grid, self._pins = timing, grid, pins
        self._graphs, self._edit = graphs, edit
        self._first, self._placed = first, placed
        self._component, self._members = component, members

    def times(self, points: Sequence[Point]) -> PointTimings:
        """Timings of all ops at some points.

        Raises
        ------
        BackendError, GraphError
            The structure differs at a point, or an op cannot be timed there.
        """
        table = self._table(points)
        try:
            return self._ask(table)
        except (BackendError, GraphError) as error:
            if len(points) > 1:
                for point in points:  # to name the one that is refused
                    self.times([point])
                raise
            where = f"grid {self._grid.name}: {self._grid.text_of(points[0])}: {error}"
            if isinstance(error, BackendError):
                raise BackendError(where) from error
            raise GraphError("grid", where) from error

    def seconds(self, asked: PointTimings, timing: Timing) -> NDArray[np.float64]:
        """Time of each op without contention, in s, if it had another timing than asked."""
        return uncontended_seconds(timing, asked.ops)

    def _table(self, points: Sequence[Point]) -> GridTable:
        built, times = self._graphs.at(points, self._grid, self._first, self._edit)
        row, ops = np.tile(np.arange(len(self._placed)), len(points)), self._placed.ops
        return GridTable(built.replace(period=ops.period[row], label=ops.label[row]), row, times)

    def _ask(self, table: GridTable) -> PointTimings:
        timing, row = self._timing, table.row
        system = timing.routes(self._pins)
        component, members = self._component[row], self._members.take(row)
        answers = time_ops(table.ops, component, members, system, timing.bound, row, table.times)
        self._check(answers)
        refuse_ops_without_single_path(timing.parts, table.ops, answers.timing, members, system)
        lowered = EngineGraph.of_independent_ops(
            self._placed.name,
            ticks_from_seconds(answers.timing.fixed, timing.tick, row),
            lower_flows(answers.timing, timing.system, timing.scale, timing.tick, rows=row),
            lower_claims(answers.timing),
        )
        check_graph(timing.parts, lowered)
        placed = table.ops.with_placement(system, component, members)
        return PointTimings(placed, answers.timing, row_timings(answers, lowered))

    def _check(self, answers: OpTimings) -> None:
        holds = answers.timing.holds
        if answers.drivers:
            raise GraphError("grid", "a backend is asked during the run; prepare the graph itself")
        if holds is not None and np.any(holds.until >= 0):
            raise GraphError(
                "grid",
                "an op holds a capacity until another has ended; prepare the graph itself",
            )
