"""Base class of workloads that repeat the same step, with the metric iteration time.

The ops' column ``period`` counts the repetitions; this metric calls them iterations.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from ..analysis.periods import counted_edges
from ..facts.metric import Metric
from ..units import seconds
from .workload import Samples, Workload

if TYPE_CHECKING:
    from .result import Result

ITERATION_TIME = Metric(
    "iteration_time",
    "s",
    "Wall time of one optimizer step; warm-up iterations left out.",
    better="lower",
)


class Periodic(Workload):
    """Base class of a workload whose ops belong to iterations, such as training.

    Attributes
    ----------
    warm_up : int
        Number of iterations at the start to ignore.
    counted : int or None
        Number of iterations to measure after those; None for all.

    Examples
    --------
    >>> Periodic.headline, [m.name for m in Periodic.metrics]
    ('iteration_time.p50', ['iteration_time'])
    """

    metrics: tuple[Metric, ...] = (ITERATION_TIME,)
    headline = "iteration_time.p50"
    period = "iteration"
    periodic = True
    warm_up: int = 0
    counted: int | None = None

    def measure(self, result: Result) -> Mapping[str, Samples]:
        """Iteration times after the warm-up, and the emitted metrics.

        Raises
        ------
        ValueError
            No iteration is left to measure.
        """
        edges = counted_edges(result, self.warm_up, self.counted)
        time = seconds(np.diff(edges), result.tick)
        return {ITERATION_TIME.name: time, **super().measure(result)}
