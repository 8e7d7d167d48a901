"""Figures of one result, such as ``result.plot.timeline()``; for studies see ``plots``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...sim.analysis.activity import activity
from ...sim.analysis.metrics import utilization_windows
from ...sim.errors import ForetraceError
from ...sim.run.result import Result
from ..blocks import Axis, Cdf
from ..figures.icicle import icicle
from ..figures.schedule import (
    seconds_scale,
    stacked_bars,
    time_breakdown_bars,
    timeline_bars,
    utilization_heat_map,
)
from ..figures.time_tree import op_totals, time_tree
from ..palette import series_colour
from .sheet import Sheet
from .write import draw_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

FEW = 2  # ranks of a timeline by default


class ResultPlots:
    """Matplotlib figures of a result.

    Every method takes ``columns`` (width in paper columns: 1 is 3.3 inches, 2 is 7) and ``style``
    (a matplotlib style sheet), and returns a matplotlib figure.

    Parameters
    ----------
    result : result of a run

    Examples
    --------
    >>> [name for name in dir(ResultPlots) if not name.startswith("_")]
    ['activity', 'blame', 'cdf', 'ops', 'timeline', 'use']
    """

    def __init__(self, result: Result):
        self._result = result

    def activity(self, columns: int = 1, style: str | Path | None = None) -> Drawing:
        """Draw the time breakdown of the mean rank."""
        boxes = {box: float(np.mean(t)) for box, t in activity(self._result).items()}
        drawn = time_breakdown_bars({"run": boxes}, "the whole run of the mean rank")
        return _drawn(drawn, columns, style)

    def blame(self, columns: int = 1, style: str | Path | None = None) -> Drawing:
        """Draw the critical path by the kind of component that it is charged to."""
        system, sums = self._result.system, dict[str, float]()
        for who, charged in self._result.blame().seconds.items():
            kind = system[who].kind if who in system.index else who
            sums[kind] = sums.get(kind, 0.0) + charged
        sums = dict(sorted(sums.items(), key=lambda one: -one[1]))
        colours = {kind: series_colour(i) for i, kind in enumerate(sums)}
        return _drawn(stacked_bars({"run": sums}, colours, "critical path"), columns, style)

    def cdf(
        self, metric: str = "period", columns: int = 1, style: str | Path | None = None
    ) -> Drawing:
        """Draw the cumulative distribution of a metric.

        Parameters
        ----------
        metric : a metric that processes emitted, or ``period`` for the time of each iteration
        """
        values, unit = self._values(metric)
        if unit == "s":
            scale, unit = seconds_scale(float(np.max(values, initial=0.0)))
            values = values / scale
        across = Axis(f"{metric}, {unit}" if unit not in ("", "1") else metric)
        return _drawn(Cdf(across, {metric: values}), columns, style)

    def ops(self, columns: int = 1, style: str | Path | None = None) -> Drawing:
        """Draw the time of ops by kind, phase, module and name."""
        tree = time_tree({"run": op_totals(self._result.detail)})
        return _drawn(icicle(tree, "time of ops of the mean rank"), columns, style)

    def timeline(
        self,
        ranks: Sequence[int] = range(FEW),
        columns: int = 1,
        style: str | Path | None = None,
    ) -> Drawing:
        """Draw the ops of some ranks over the whole run.

        Parameters
        ----------
        ranks : ranks to draw
        """
        result = self._result.detail
        last = int(result.columns.end.max(initial=1))
        return _drawn(timeline_bars(result, ranks, (0, last))[0], columns, style)

    def use(self, columns: int = 1, style: str | Path | None = None) -> Drawing:
        """Draw the utilization of the busiest components over time."""
        there = self._result.system.index
        windows = utilization_windows(self._result)
        shares = {n: s.tolist() for n, s in windows.items() if n in there}
        return _drawn(utilization_heat_map(shares, self._result.makespan), columns, style)

    def _values(self, metric: str) -> tuple[Any, str]:
        """Values of a metric, and its unit."""
        emitted = self._result.emitted
        if metric == "period" and len(self._result.periods):
            return np.asarray(self._result.periods), "s"
        if metric in emitted.samples:
            units = {unit for (_, name), unit in emitted.units.items() if name == metric}
            return emitted.samples[metric], next(iter(units), "1")
        known = [*(["period"] if len(self._result.periods) else []), *emitted.samples]
        raise ForetraceError(
            f"metric {metric!r}: this run has no such metric; use {', '.join(known)}"
        )


def _drawn(figure: Any, columns: int, style: str | Path | None) -> Drawing:
    return draw_figure(figure, Sheet(columns, Path(style) if style else None))
