"""Begin and end ticks of the periods (iterations) of a run."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..engine_api.interface import NEVER
from ..record.aggregates import first_period_start_tick
from ..record.run_record import RunRecord


def counted_edges(
    result: RunRecord, warm_up: int = 0, count: int | None = None
) -> NDArray[np.int64]:
    """(k + 1,) boundary ticks of the ``count`` periods that follow ``warm_up`` periods.

    Raises
    ------
    ValueError
        No period is left to count.
    """
    edges = period_edges(result)
    number = 0 if edges is None else len(edges) - 1
    kept = step_edges(result)[warm_up : None if count is None else warm_up + count + 1]
    if edges is None or len(kept) < 2:
        raise ValueError(
            f"the run has {number} iterations and {warm_up} are warm-up, so none is left; "
            "use fewer warm-up iterations"
        )
    return kept


def step_edges(result: RunRecord) -> NDArray[np.int64]:
    """(k + 1,) ticks: begin of the first period, then the end of each period on its last rank.

    Without periods: (2,) ticks, begin and end of the run.
    """
    found = period_edges(result)
    if found is None:
        found = result.first_release + np.array([0, result.makespan_ticks])
    return found


def period_edges(result: RunRecord) -> NDArray[np.int64] | None:
    """(k + 1,) boundary ticks of the periods; None without periods, and for several jobs.

    If the run started with a graph, only the periods of that graph count. The first period begins
    at the start of the run, or at the last end of ops without a period that end before the first
    period does. Each later period begins where the one before it ends.
    """
    if result.written is None:
        return result.aggregates.edges if len(result.aggregates.steps) else None
    if len(result.jobs) > 1:
        return None
    given = result.written.given
    start, end = result.columns.start[:given], result.columns.end[:given]
    step = result.ops.period[:given]
    outside = end[(step < 0) & (end != NEVER)]
    if not np.all(counts := (end != NEVER) & (step >= 0)):
        start, end, step = start[counts], end[counts], step[counts]
    if not len(step):
        return None
    # Ops of one period are mostly contiguous: reduce each contiguous range first, then periods.
    heads = np.flatnonzero(np.append(True, step[1:] != step[:-1]))
    steps, of = np.unique(step[heads], return_inverse=True)
    last = np.full(len(steps), NEVER, np.int64)
    np.maximum.at(last, of, np.maximum.reduceat(end, heads))
    first = np.minimum.reduceat(start, heads)[of == 0].min()
    last = np.maximum.accumulate(last)
    return np.concatenate(
        [[first_period_start_tick(first, outside.max(initial=NEVER), last[0])], last]
    )
