"""Time breakdown of ranks in one period, which adds up to the headline."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ....sim.analysis.activity import activity, activity_by_window
from ....sim.analysis.periods import counted_edges
from ....sim.run.periodic import Periodic
from ....sim.run.result import Result
from ....sim.units import Seconds, seconds
from ..variants.statistics import statistic_of
from .summary import FEWEST

if TYPE_CHECKING:
    from ..variants.map_function import MapFunction
    from ..variants.variants import VariantResults

Boxes = dict[str, NDArray[np.float64]]


def headline_time_breakdown(
    results: VariantResults, headline: Seconds, map_runs: MapFunction = map
) -> Boxes:
    """Seconds of each rank by activity, of one period or of the complete run.

    For periods it is the mean over the counted ones. If the headline is the time of a period, the
    breakdown is that of the replica nearest to it, of the ranks of its job, scaled so that the
    activities of a rank add up to it.

    Parameters
    ----------
    headline : value of the deciding metric
    map_runs : map function over runs
    """
    answer, told = results.point.answer, bool(results.point.answer.period)
    (one, *others) = results.point.workloads.values()
    if others and told:
        one = results.point.workloads[answer.job]
    if not isinstance(one, Periodic) or (others and not told):
        return activity(_with_boxes(results.result))
    result = _with_boxes(_nearest_run(results, headline, map_runs) if told else results.result)
    result = result.of(answer.job) if others else result
    edges = counted_edges(result, one.warm_up, one.counted)
    mean = float(seconds(np.diff(edges), result.tick).mean())
    scale = headline / mean if told and mean else 1.0  # what takes no time has empty boxes
    boxes = activity_by_window(result, edges)
    return {box: t.mean(axis=0) * scale for box, t in boxes.items()}


def _nearest_run(results: VariantResults, headline: Seconds, map_runs: MapFunction) -> Result:
    """Replica with the answer nearest to the headline; with few replicas, the recorded run."""
    if len(results.replicas) < FEWEST or results.point.coupled is not None:
        return results.result
    answer = results.point.answer
    own = [statistic_of(r[answer.sample], answer.statistic) for r in results.replicas]
    (drawn,) = map_runs(results.point.draw, (int(np.argmin(np.abs(np.array(own) - headline))),))
    return drawn


def _with_boxes(result: Result) -> Result:
    """Result with enough detail for the time breakdown."""
    return result if result.keep != "none" else result.detail
