"""Values with intervals, drawn as bars: thin along the interval, thick at the value."""

from __future__ import annotations

import numpy as np

from ..blocks import BarChart, Bars, Intervals
from ..figure_kind import on_page
from ..palette import SERIES
from .bars import bar_chart_html

MARK = 0.006  # of the axis: width of the mark at the value


@on_page(Intervals)
def intervals_html(figure: Intervals) -> str:
    """HTML of values with their intervals.

    Examples
    --------
    >>> from ..blocks import Axis
    >>> drawn = intervals_html(Intervals(["base"], [2.0], [1.0], [4.0], Axis("time, s")))
    >>> drawn.count("<path fill"), "time, s" in drawn
    (2, True)
    """
    value, low, high = (np.asarray(a, float) for a in (figure.value, figure.low, figure.high))
    rows = np.arange(len(value))
    span = 1.05 * float(max(high.max(initial=0.0), value.max(initial=0.0)))
    marks = [
        Bars(rows + 0.42, low, high - low, SERIES[0], "90 % within", 0.16, 0.6),
        Bars(rows + 0.25, value - MARK * span / 2, MARK * span, SERIES[0], "value", 0.5),
    ]
    return bar_chart_html(BarChart(figure.rows, marks, span, figure.axis.name))
