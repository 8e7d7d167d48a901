"""Checks of bounded queues before a run: components elsewhere, and iterations that may be lost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from ....sim.engine_api.queue_table import DROPPED, UNBOUNDED, queue_table
from ....sim.errors import GraphError
from ...config.problems import Problem
from .counted_periods import number_of_periods

if TYPE_CHECKING:
    from .variant import Variant


def impossible_queue_problems(point: Variant) -> Iterator[Problem]:
    """Problems of bounded queues: unknown components, and drops that would cancel iterations."""
    system = point.simulation.system
    spot = point.scenario.spot
    try:
        table = queue_table(system)
    except GraphError as error:
        yield Problem("impossible-queue", str(error), spot("cluster.node.pools"))
        return
    if table is None:
        return
    dropping = np.flatnonzero((table.length != UNBOUNDED) & (table.last == DROPPED))
    if not len(dropping):
        return
    for name, graph in point.built.graphs.items():
        if graph is None or number_of_periods(graph) < 2:
            continue
        path = f"jobs.{name}.workload" if point.scenario.section("jobs") else "workload"
        yield Problem(
            "impossible-queue",
            f"{path}: it has several iterations, each of which waits for the one before, but a "
            f"full queue of {system.components[int(dropping[0])].name} drops ops, which cancels "
            "all that waits for them; write full: wait, or one iteration without warm-up",
            spot(path),
        )
