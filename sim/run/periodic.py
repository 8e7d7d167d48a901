"""Workloads that do the same again and again, and how long that takes: the training iteration.

Periods are counted by the column of the ops; here they are called iterations, as the field does.
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
    """A workload whose ops say in which iteration they are.

    Attributes
    ----------
    warm_up : int
        Iterations at the start that do not count.
    counted : int or None
        Iterations that count after that; None for all there are.

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
        """Samples of the iterations that count, and of emitted metrics.

        Raises
        ------
        ValueError
            No iteration is left to count.
        """
        edges = counted_edges(result, self.warm_up, self.counted)
        time = seconds(np.diff(edges), result.tick)
        return {ITERATION_TIME.name: time, **super().measure(result)}
