"""Pipeline bubble: time of an iteration in which a stage is idle because others are not done."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ....sim.analysis.activity import activity_by_window
from ....sim.facts.metric import Metric
from ....sim.run.result import Result
from ....sim.units import seconds

BUBBLE = Metric(
    "bubble",
    "",
    "Share of an iteration in which nothing runs on a rank or is in flight, since what it waits "
    "for is on another stage of the pipeline; mean over ranks; 0 without a pipeline.",
    better="lower",
)


def bubble_shares(
    result: Result, edges: NDArray[np.int64], stages: int
) -> NDArray[np.float64] | None:
    """Fraction of each iteration that is pipeline bubble, shape (k,), or None.

    None if the run kept no time breakdown. With equal stages it equals the published bubble as a
    fraction of the iteration: (p - 1) / (m + p - 1) for GPipe and 1F1B (Narayanan et al. 2021,
    arXiv:2104.04473, section 2.2.1, which divides by the time without the bubble).

    Parameters
    ----------
    edges : (k + 1,) ticks at which iterations start and end
    stages : number of pipeline stages
    """
    if stages == 1:
        return np.zeros(len(edges) - 1)
    if result.keep == "none":
        return None
    idle = activity_by_window(result, edges)["idle"].mean(axis=1)
    return np.asarray(idle / seconds(np.diff(edges), result.tick))
