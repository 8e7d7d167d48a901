"""Graphs of grids, built once for all jobs of a run whose grids have the same function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ...facts.graph import Graph
from ...facts.op_time_overrides import OpTimeOverrides
from ...facts.ops import Ops
from ...record.step_grid import StepGrid

Point = tuple[int, ...]
MOST_KEPT = 2**20  # ops, at 45 B each


class GraphsAtPoints(NamedTuple):
    """Ops of the graphs at some points, one graph after the other.

    Parameters
    ----------
    ops : table of all ops
    times : times and factors that override the backends
    """

    ops: Ops
    times: OpTimeOverrides | None


class GridGraphs:
    """Graphs that the grids of a run have built so far.

    Replicas that prepare the same function at the same points share them.
    """

    def __init__(self) -> None:
        self._known: dict[object, tuple[StepGrid, GraphsAtPoints]] = {}
        self._kept = 0

    def at(
        self,
        points: Sequence[Point],
        grid: StepGrid,
        first: Graph,
        edit: Callable[[Graph], Graph] | None,
    ) -> GraphsAtPoints:
        """Graphs at some points, each edited by its job.

        Parameters
        ----------
        points : numbers per axis
        grid : grid whose function builds them
        first : graph of its first point, edited
        edit : function that changes each graph; None for none, and only then they are shared

        Raises
        ------
        GraphError
            A graph has another structure than the first.
        """
        if edit is not None:
            return _build(points, grid, first, edit)
        begin = tuple(int(axis[0]) for axis in grid.axes.values())
        key = id(grid.build), tuple(grid.axes), begin, tuple(points)
        if key not in self._known:
            built = _build(points, grid, first, _unedited)
            self._kept += len(built.ops)
            if self._kept > MOST_KEPT:
                self._known, self._kept = {}, len(built.ops)
            self._known[key] = grid, built  # the grid keeps the id of its function in use
        return self._known[key][1]


def _unedited(graph: Graph) -> Graph:
    return graph


def _build(
    points: Sequence[Point], grid: StepGrid, first: Graph, edit: Callable[[Graph], Graph]
) -> GraphsAtPoints:
    graphs = [edit(grid.graph_at(point)) for point in points]
    for point, graph in zip(points, graphs, strict=True):
        grid.check_same_structure(first, graph, point)
    ops, times = Ops.concat([graph.ops for graph in graphs]), None
    if any(graph.times is not None for graph in graphs):
        own = [graph.times or OpTimeOverrides.none(len(graph)) for graph in graphs]
        times = OpTimeOverrides(
            np.concatenate([one.time for one in own]), np.concatenate([one.factor for one in own])
        )
    return GraphsAtPoints(ops, times)
