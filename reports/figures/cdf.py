"""Cumulative distributions, drawn as step plots."""

from __future__ import annotations

import numpy as np

from ..blocks import Axes, Axis, Cdf, Plot, Series
from ..figure_kind import on_page
from ..palette import series_colour
from .plot import plot_svg


def cdf_plot(figure: Cdf) -> Plot:
    """Plot of cumulative distributions: one step curve per name.

    Examples
    --------
    >>> one = cdf_plot(Cdf(Axis("time, s"), {"base": [2.0, 1.0]})).axes[0].series[0]
    >>> one.x.tolist(), one.y.tolist()
    ([1.0, 1.0, 2.0], [0.0, 50.0, 100.0])
    """
    series = []
    for i, (name, values) in enumerate(figure.curves.items()):
        held = np.asarray(values, float)
        weights = np.asarray((figure.weights or {}).get(name, np.ones(len(held))), float)
        order = np.argsort(held, kind="stable")
        share = 100 * np.cumsum(weights[order]) / (weights.sum() or 1.0)
        begin = held.min(initial=np.inf) if figure.x.limits[0] is None else figure.x.limits[0]
        x = np.append(begin, held[order]) if len(held) else held
        y = np.append(0.0, share) if len(held) else share
        series.append(Series(x, y, "", "steps", series_colour(i), name))
    up = Axis(f"{figure.what} within, %", limits=(0, 101))
    return Plot([Axes(figure.x, up, series)], figure.height)


@on_page(Cdf)
def cdf_svg(figure: Cdf) -> str:
    """HTML of a cumulative distribution."""
    return plot_svg(cdf_plot(figure))
