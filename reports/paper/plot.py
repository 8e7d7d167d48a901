"""Plots for papers: points and curves that differ in mark and stroke, not in colour alone."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..blocks import Axes, Axis, Cdf, Plot, Series
from ..figure_kind import on_paper
from ..figures.cdf import cdf_plot
from ..figures.plot import tick_text
from ..palette import rgb
from .sheet import SMALL, TALLEST, Sheet, legend_above, shortened, text_width, wrapped

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

HEIGHT = 1.9  # inches of one axes in one column
SHARE = 0.75  # of the page's height
MARKS = "os^Dvx+"
STROKES = ("-", "--", ":", "-.", (0, (5, 1)), (0, (1, 1)))
MOST_NAMED = 8  # ticks with names


@on_paper(Plot)
def plot(of: Plot, sheet: Sheet) -> Drawing:
    """Draw axes above each other, or small multiples side by side."""
    across = min(of.columns, len(of.axes))
    down = math.ceil(len(of.axes) / across)
    each = max(SHARE * of.height / down, 1.5 if len(of.axes) > 1 else HEIGHT)
    drawing = sheet.canvas(min(each * down, TALLEST))
    wide, tall = sheet.width / across, each
    shown: dict[str, Any] = {}
    grid = drawing.subplots(down, across, squeeze=False)
    for place, axes in enumerate(grid.flat):
        if place >= len(of.axes):
            axes.set_axis_off()
            continue
        one = of.axes[place]
        first = place % across == 0 or one.y != of.axes[place - 1].y
        shown |= _draw_axes(axes, one, wide, tall, named=first)
    above = legend_above(drawing, list(shown.values()), list(shown))
    drawing.set_figheight(min(each * down + above, TALLEST))
    return drawing


@on_paper(Cdf)
def cdf(of: Cdf, sheet: Sheet) -> Drawing:
    """Draw cumulative distributions."""
    return plot(cdf_plot(of), sheet)


def _draw_axes(axes: Any, of: Axes, wide: float, tall: float, *, named: bool) -> dict[str, Any]:
    """Draw one axes; returns what its legend shows."""
    shown = {}
    for one, stroke in _told_apart(of.series):
        drawn = _draw_series(axes, one, stroke)
        if one.label and drawn is not None:
            shown[one.label] = drawn
    _scale(axes.xaxis, axes.set_xscale, axes.set_xlim, of.x)
    _scale(axes.yaxis, axes.set_yscale, axes.set_ylim, of.y)
    if of.band:
        _draw_band(axes, of.band)
    for at in of.x.rule:
        axes.axvline(at, color=rgb("soft"), linestyle=(0, (4, 2)), linewidth=0.8)
    for at in of.y.rule:
        axes.axhline(at, color=rgb("soft"), linestyle=(0, (4, 2)), linewidth=0.8)
    axes.grid(color=rgb("line"))
    letters = int(72 / (0.56 * 8))
    axes.set_xlabel(wrapped(of.x.name, int((wide - 0.5) * letters)))
    if named:
        axes.set_ylabel(wrapped(of.y.name.replace("\n", " "), int((tall - 0.35) * letters)))
    if of.title:
        axes.set_title(shortened(of.title, int(wide * letters)), loc="left")
    _name_ticks(axes, of.x, wide)
    return shown


def _told_apart(series: Sequence[Series]) -> Iterator[tuple[Series, Any]]:
    """Series, each with a stroke; what others are drawn like has a mark or a stroke of its own."""
    free = [m for m in MARKS if m not in {s.mark for s in series}]
    marks, curves = set[str](), 0
    for one in series:
        if one.mark and not one.line:
            again = one.mark in marks and free
            marks.add(one.mark)
            yield (replace(one, mark=free.pop(0)) if again else one), "none"
        elif one.line in ("-", "steps"):
            yield one, "-" if one.mark else STROKES[curves % len(STROKES)]
            curves += not one.mark
        else:
            yield one, one.line or "none"


def _draw_series(axes: Any, of: Series, stroke: Any) -> Any:
    colour = rgb(of.colour)
    if of.line == "stalks":
        low, high = (np.asarray(end, float) for end in (of.low, of.high))
        middle = (low + high) / 2
        return axes.errorbar(of.x, middle, yerr=(high - low) / 2, fmt="none", ecolor=colour,
                             elinewidth=0.9, capsize=2.0, capthick=0.9)  # fmt: skip
    how = {"drawstyle": "steps-post"} if of.line == "steps" else {}
    points = len(np.atleast_1d(of.x))
    size = max(of.size * 0.8, 1.2) if of.mark and points <= 200 else 2.0
    (drawn,) = axes.plot(
        np.asarray(of.x, float), np.asarray(of.y, float), linestyle=stroke, color=colour,
        marker=of.mark or "none", markersize=size, alpha=of.opacity,
        markeredgewidth=0.8 if of.mark in "x+" else 0.3,
        markeredgecolor=colour if of.mark in "x+" else rgb("paper"), **how,
    )  # fmt: skip
    return drawn


def _scale(axis: Any, set_scale: Any, set_limits: Any, of: Axis) -> None:
    """Linear or logarithmic, with limits and readable numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

    if of.log:
        set_scale("log", base=of.log)
        few = of.ticks is None and _decades(axis) < 2 and of.log == 10
        axis.set_major_locator(
            LogLocator(of.log, subs=(1.0, 2.0, 5.0) if few else (1.0,), numticks=7)
        )
        axis.set_minor_formatter(NullFormatter())
    else:
        axis.set_major_locator(MaxNLocator(5))
    axis.set_major_formatter(FuncFormatter(lambda value, _: tick_text(float(f"{value:.6g}"))))
    low, high = of.limits
    set_limits(low, high)


def _decades(axis: Any) -> float:
    low, high = sorted(map(abs, axis.get_view_interval()))
    return math.log10(high / low) if low > 0 else math.inf


def _name_ticks(axes: Any, of: Axis, wide: float) -> None:
    """Names at the x axis, slanted where they are long."""
    if of.ticks is None:
        return
    step = -(-len(of.ticks) // MOST_NAMED)
    kept = list(of.ticks)[::step]
    names = [shortened(text, 18) for _, text in kept]
    room = (wide - 0.6) / max(len(kept), 1)
    long = max(map(text_width, names), default=0.0) > room
    axes.set_xticks([at for at, _ in kept], names, rotation=35 if long else 0,
                    ha="right" if long else "center", fontsize=SMALL,
                    rotation_mode="anchor")  # fmt: skip
    axes.set_xticks([], minor=True)


def _draw_band(axes: Any, band: float) -> None:
    """Grey band around the line of equal numbers."""
    ends = np.array(axes.get_xlim())
    across = np.geomspace(*ends, 50) if axes.get_xscale() == "log" else np.linspace(*ends, 50)
    axes.fill_between(across, across * (1 - band), across * (1 + band), color=rgb("line"), lw=0)
    axes.plot(across, across, color=rgb("soft"), linewidth=0.7, scalex=False, scaley=False)
