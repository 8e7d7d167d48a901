"""Figures of a sweep: points over two goals, and the effect of each setting."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from ..blocks import Axes, Axis, Plot, Series
from ..numbers import axis_scale
from ..palette import SERIES
from ..texts.headline import metric_in_words
from .sweep_results import value_text

Point = Mapping[str, Any]
MISS, OK, BEST = "host", SERIES[0], SERIES[5]
MOST_DOTS = 2_000
FEW_DOTS = 200  # larger while they do not cover each other
MOST_SETTINGS = 8
EFFECTS = 2  # settings side by side


def pareto_scatter(
    points: Sequence[Point], axes_of: Sequence[tuple[str, str]], base: Point
) -> Plot:
    """Scatter plot of all points over two metrics, with the Pareto front highlighted.

    Parameters
    ----------
    points : points of the sweep, as in its summary
    axes_of : the two metrics with their units
    base : the scenario as described
    """
    (x, x_unit), (y, y_unit) = axes_of
    whole = [p for p in points if x in p.get("values", {}) and y in p["values"]]
    (x_scale, x_name), (y_scale, y_name) = (
        axis_scale(max((abs(p["values"][m]) for p in whole), default=1.0), u)
        for m, u in ((x, x_unit), (y, y_unit))
    )
    series = []
    for label, mark, colour, chosen in (
        ("misses expectations", "x", MISS, [p for p in whole if p["missed"]]),
        ("other", "o", OK, [p for p in whole if not p["missed"] and not p["front"]]),
        ("front", "D", BEST, [p for p in whole if p["front"]]),
        ("as described", "+", "", [base] if x in base.get("values", {}) else []),
    ):
        kept = chosen if mark in "D+" else _thin_out(chosen)
        if kept:
            xs = [p["values"][x] / x_scale for p in kept]
            ys = [p["values"][y] / y_scale for p in kept]
            series.append(Series(xs, ys, mark, colour=colour, label=label))
    across = Axis(f"{metric_in_words(x)}, {x_name}")
    return Plot([Axes(across, Axis(f"{metric_in_words(y)}, {y_name}"), series)])


def cost_ladder_plot(
    points: Sequence[Point],
    rungs: Sequence[Point],
    axes_of: Sequence[tuple[str, str]],
    limits: Sequence[float] = (),
) -> Plot:
    """Plot of a metric over cost: all points, with the cost ladder joined by steps.

    Parameters
    ----------
    points : points of the sweep, as in its summary
    rungs : points that are better than every cheaper one, cheapest first
    axes_of : price and metric, with their units
    limits : limits of the metric, drawn as lines
    """
    (x, x_unit), (y, y_unit) = axes_of
    whole = [p for p in points if {x, y} <= p.get("values", {}).keys()]
    scale, name = axis_scale(max((abs(p["values"][y]) for p in whole), default=1.0), y_unit)

    def series(chosen: Sequence[Point], label: str, **how: Any) -> Series:
        heights = [p["values"][y] / scale for p in chosen]
        return Series([p["values"][x] for p in chosen], heights, label=label, **how)

    missed, met = ([p for p in whole if bool(p["missed"]) is m] for m in (True, False))
    axes = [
        series(_thin_out(missed), "misses expectations", mark="x", colour=MISS),
        series(_thin_out(met), "meets expectations", colour=OK),
        series(rungs, "worth its price", mark="D", line="steps", colour=BEST),
        _error_bars([r for r in rungs if r["intervals"].get(y)], x, y, scale),
    ]
    dashed = "; dashed: expected limit" if limits else ""
    down = Axis(f"{metric_in_words(y)}, {name}{dashed}", rule=[limit / scale for limit in limits])
    across = Axis(f"{metric_in_words(x)}, {x_unit}")
    return Plot([Axes(across, down, [s for s in axes if len(s.x)])], height=3.0)  # type: ignore[arg-type]


def _error_bars(rungs: Sequence[Point], x: str, y: str, scale: float) -> Series:
    """Error bars: the 90 % interval of the metric at each point."""
    low, high = ([r["intervals"][y][k] / scale for r in rungs] for k in (0, 1))
    return Series([r["values"][x] for r in rungs], low, "", "stalks", BEST, low=low, high=high)


def setting_effect_plot(
    points: Sequence[Point], settings: Mapping[str, str], metric: str, unit: str
) -> Plot:
    """Plot of a metric over each setting, one dot per point.

    Parameters
    ----------
    points : points of the sweep, as in its summary
    settings : display names by key of ``vary``
    metric, unit : name of the plotted metric, and its unit
    """
    whole = [p for p in points if metric in p.get("values", {})]
    shown = list(settings)[:MOST_SETTINGS]
    scale, name = axis_scale(max((abs(p["values"][metric]) for p in whole), default=1.0), unit)
    down = Axis(textwrap.fill(f"{metric_in_words(metric)}, {name}", 18))
    rows = []
    for setting in shown:
        texts = ordered_texts([p["set"][setting] for p in whole])
        at = {t: k for k, t in enumerate(texts)}
        drawn = _thin_out(whole)
        series = Series(
            [at[value_text(p["set"][setting])] for p in drawn],
            [p["values"][metric] / scale for p in drawn],
            colour=OK, size=5.0 if len(drawn) < FEW_DOTS else 2.5, opacity=0.5,
        )  # fmt: skip
        step = len(texts) // 12 + 1
        ticks = [(float(k), texts[k]) for k in range(0, len(texts), step)]
        rows.append(Axes(Axis(settings[setting], ticks=ticks), down, [series]))
    down_rows = -(-len(shown) // EFFECTS)
    return Plot(rows, height=0.6 + 1.7 * down_rows, columns=min(EFFECTS, len(shown)))


def _thin_out(points: Sequence[Point]) -> Sequence[Point]:
    """Every k-th point, with k such that few enough points remain to be drawn."""
    return points[:: len(points) // MOST_DOTS + 1]


def ordered_texts(values: Sequence[Any]) -> list[str]:
    """Distinct values as texts; numbers sorted by size."""
    texts = list(dict.fromkeys(map(value_text, values)))
    try:
        return sorted(texts, key=lambda t: float(t.partition(" ")[0]))
    except ValueError:
        return texts
