"""Figures of a sweep: every point between two things that are wanted, and what each setting does.

Drawn by matplotlib: see ``plot``.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from ..figures.plot import INK, axes_of, blank, canvas, legend, svg
from ..numbers import PREFIXES

Point = Mapping[str, Any]
MISS, OK, BEST = "#999999", "#0072B2", "#D55E00"
MOST_DOTS = 5_000
FEW_DOTS = 200  # larger while they do not cover each other
MOST_SETTINGS = 8


def scatter(points: Sequence[Point], axes_of: Sequence[tuple[str, str]], base: Point) -> str:
    """A dot for each point between two metrics; the front in another colour and shape.

    Parameters
    ----------
    points : of the summary
    axes_of : two metrics with their units
    base : the scenario as it stands
    """
    (x, x_unit), (y, y_unit) = axes_of
    whole = [p for p in points if x in p.get("values", {}) and y in p["values"]]
    (x_scale, x_name), (y_scale, y_name) = (
        _scale(max((abs(p["values"][m]) for p in whole), default=1.0), u)
        for m, u in ((x, x_unit), (y, y_unit))
    )
    figure, axes = blank(7.2, 3.4)
    for label, marker, colour, chosen in (
        ("misses what is expected", "x", MISS, [p for p in whole if p["missed"]]),
        ("other", "o", OK, [p for p in whole if not p["missed"] and not p["front"]]),
        ("front", "D", BEST, [p for p in whole if p["front"]]),
        ("as described", "+", INK, [base] if x in base.get("values", {}) else []),
    ):
        kept = chosen if marker in "D+" else chosen[:: len(chosen) // MOST_DOTS + 1]
        if kept:
            axes.scatter(
                [p["values"][x] / x_scale for p in kept],
                [p["values"][y] / y_scale for p in kept],
                marker=marker, color=colour, s=26, label=label,
            )  # fmt: skip
    axes.set_xlabel(f"{x.replace('_', ' ')}, {x_name}")
    axes.set_ylabel(f"{y.replace('_', ' ')}, {y_name}")
    legend(axes)
    return svg(figure)


def ladder(
    points: Sequence[Point],
    rungs: Sequence[Point],
    axes_of: Sequence[tuple[str, str]],
    limits: Sequence[float] = (),
) -> str:
    """A metric over what it costs: every point a dot, those worth their price joined by steps.

    Parameters
    ----------
    points : of the summary
    rungs : each better than every cheaper one, the cheapest first
    axes_of : the price and the metric, with their units
    limits : of the metric, as lines
    """
    (x, x_unit), (y, y_unit) = axes_of
    whole = [p for p in points if {x, y} <= p.get("values", {}).keys()]
    scale, name = _scale(max((abs(p["values"][y]) for p in whole), default=1.0), y_unit)
    figure, axes = blank(7.2, 3.0)
    for label, marker, colour, chosen in (
        ("misses what is expected", "x", MISS, [p for p in whole if p["missed"]]),
        ("meets it", "o", OK, [p for p in whole if not p["missed"]]),
    ):
        kept = chosen[:: len(chosen) // MOST_DOTS + 1]
        if kept:
            axes.scatter(
                [p["values"][x] for p in kept], [p["values"][y] / scale for p in kept],
                marker=marker, color=colour, s=26, label=label,
            )  # fmt: skip
    prices, heights = ([p["values"][m] for p in rungs] for m in (x, y))
    heights = [h / scale for h in heights]
    axes.step(prices, heights, where="post", marker="D", color=BEST, label="worth its price")
    for rung, price in zip(rungs, prices, strict=True):
        if bounds := rung["intervals"].get(y):
            axes.vlines(price, *(b / scale for b in bounds), color=BEST)
    for limit in limits:
        axes.axhline(limit / scale, color=INK, linewidth=0.8, linestyle="--", label="limit")
    axes.set_xlabel(f"{x.replace('_', ' ')}, {x_unit}")
    axes.set_ylabel(f"{y.replace('_', ' ')}, {name}")
    legend(axes)
    return svg(figure)


def effects(points: Sequence[Point], settings: Sequence[str], metric: str, unit: str) -> str:
    """A metric over each setting: every point a dot, the best of each value joined.

    Parameters
    ----------
    points : of the summary
    settings : keys of ``vary``
    metric, unit : what is shown
    """
    whole = [p for p in points if metric in p.get("values", {})]
    shown = list(settings)[:MOST_SETTINGS]
    scale, name = _scale(max((abs(p["values"][metric]) for p in whole), default=1.0), unit)
    figure = canvas(7.2, 0.6 + 1.7 * len(shown))
    for i, setting in enumerate(shown):
        axes = axes_of(figure, len(shown), i + 1)
        texts = _in_order([p["set"][setting] for p in whole])
        at = {t: k for k, t in enumerate(texts)}
        drawn = whole[:: len(whole) // MOST_DOTS + 1]
        axes.scatter(
            [at[str(p["set"][setting])] for p in drawn],
            [p["values"][metric] / scale for p in drawn],
            color=OK, s=26 if len(drawn) < FEW_DOTS else 6, alpha=0.5,
        )  # fmt: skip
        step = len(texts) // 12 + 1
        axes.set_xticks(range(0, len(texts), step), texts[::step])
        axes.set_xlabel(setting)
        axes.set_ylabel(textwrap.fill(f"{metric.replace('_', ' ')}, {name}", 18))
    return svg(figure)


def _in_order(values: Sequence[Any]) -> list[str]:
    """The different values as texts, numbers by size."""
    texts = list(dict.fromkeys(map(str, values)))
    try:
        return sorted(texts, key=lambda t: float(t.partition(" ")[0]))
    except ValueError:
        return texts


def _scale(largest: float, unit: str) -> tuple[float, str]:
    """What to divide by, and the unit that is left.

    >>> _scale(0.02, "s"), _scale(0.5, "")
    ((0.001, 'ms'), (0.01, '%'))
    """
    if unit == "":
        return 0.01, "%"
    for scale, prefix in PREFIXES:
        if largest >= scale:
            return scale, f"{prefix}{unit}"
    return 1.0, unit
