"""Boxes of ranks' time in the period that the headline tells: they add up to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ...sim.analysis.activity import activity, activity_by_window
from ...sim.analysis.periods import counted_edges
from ...sim.periodic import Periodic
from ...sim.result import Result
from ...sim.units import Seconds, seconds
from .statistics import statistic_of
from .summary import FEWEST

if TYPE_CHECKING:
    from .map_function import MapFunction
    from .variants import VariantResults

Boxes = dict[str, NDArray[np.float64]]


def boxes_of_headline(of: VariantResults, headline: Seconds, each: MapFunction = map) -> Boxes:
    """Seconds of each rank in each box, of the whole run or of one period.

    Where the answer is the time of a period, it is the period nearest to the headline, in the
    replica nearest to it; what they differ by is scaled away, so that the boxes of a rank add up to
    the headline.

    Parameters
    ----------
    headline : value of the deciding metric
    each : goes over what is run
    """
    (only, *others) = of.point.workloads.values()
    if others or not isinstance(only, Periodic):
        return activity(_with_boxes(of.result))
    if not of.point.answer.period:
        result = _with_boxes(of.result)
        edges = counted_edges(result, only.warm_up, only.counted)
        return {box: t.mean(axis=0) for box, t in activity_by_window(result, edges).items()}
    result = _with_boxes(_nearest_run(of, headline, each))
    edges = counted_edges(result, only.warm_up, only.counted)
    took = seconds(np.diff(edges), result.tick)
    nearest = int(np.argmin(np.abs(took - headline)))
    boxes = activity_by_window(result, edges[nearest : nearest + 2])
    return {box: t[0] * (headline / took[nearest]) for box, t in boxes.items()}


def _nearest_run(of: VariantResults, headline: Seconds, each: MapFunction) -> Result:
    """The replica whose own answer is nearest to the headline; the recorded one of a few."""
    if len(of.replicas) < FEWEST or of.point.coupled is not None:
        return of.result
    answer = of.point.answer
    own = [statistic_of(r[answer.sample], answer.statistic) for r in of.replicas]
    (drawn,) = each(of.point.draw, (int(np.argmin(np.abs(np.array(own) - headline))),))
    return drawn


def _with_boxes(result: Result) -> Result:
    """A result that kept enough to tell its boxes."""
    return result if result.keep != "none" else result.detail
