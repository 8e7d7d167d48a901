"""Steps of a recorded run as a profiler counts them, if the host runs ahead of the GPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ....sim.analysis.activity import LAYERS, box_ticks_of_places, busy_intervals
from ....sim.engine_api.interface import NEVER
from ....sim.record.aggregates import BOXES
from ....sim.run.result import Result
from ....sim.units import seconds

MAIN = 0  # stream of the thread that marks steps


def as_profiled(result: Result, facts: Mapping[str, object]) -> dict[str, Any] | None:
    """Step time and exposed communication as a profiler reports them; None if they are the same.

    If the host runs ahead, it marks steps while the GPU still executes earlier ones. A profiler's
    tables count all GPU ops between two marks, also those of earlier steps, and count copies as
    compute.

    Returns
    -------
    dict or None
        ``in_flight`` (GPU ops), ``step`` (mean s between marks on the first rank's main thread) and
        ``exposed_communication`` (s in the window, mean over ranks).
    """
    count = facts.get("in_flight", 0)
    marks = _end_of_each_step(result) if count and result.written is not None else []
    if len(marks) < 2:
        return None
    return {
        "in_flight": count,
        "step": float(seconds(np.array(marks[-1] - marks[0]), result.tick)) / (len(marks) - 1),
        "exposed_communication": _exposed_beside_copies(result),
    }


def _end_of_each_step(result: Result) -> list[int]:
    """Ticks at which the first rank's main thread starts, and at which it ends each step."""
    graph = result.runs[0].graph
    ops, first = graph.ops, result.runs[0].first
    start, end = (c[first : first + len(graph)] for c in (result.columns.start, result.columns.end))
    own = (ops.rank == 0) & (ops.stream == MAIN) & (ops.period >= 0) & (end != NEVER)
    if graph.streams.get((0, MAIN)) != "host" or not own.any():
        return []
    steps, step = np.unique(ops.period[own], return_inverse=True)
    last = np.full(len(steps), NEVER, np.int64)
    np.maximum.at(last, step, end[own])
    return [int(start[own].min()), *last.tolist()]


def _exposed_beside_copies(result: Result) -> float:
    """Seconds of communication without compute or copies at the same time, mean over ranks."""
    places = busy_intervals(result)
    copies = places.layer == LAYERS.index("copy")
    counted = places._replace(layer=np.where(copies, LAYERS.index("compute"), places.layer))
    window = result.first_release + np.array([0, result.makespan_ticks])
    boxes = box_ticks_of_places(counted, window, result.ranks, compiled=False)
    return float(seconds(boxes[BOXES.index("exposed_communication")], result.tick).mean())
