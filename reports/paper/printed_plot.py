"""Plots for papers: points and curves that differ in mark and stroke, not only in colour."""

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
from .sheet import SMALL, TALLEST, Sheet, legend_above, shorten_text, text_width, wrap_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

FLAT = 0.72  # height of one axes, of its width: at most
SHARE = 0.75  # of the page's height
LEAST = 1.5  # inches: height of one axes
MOST = 3.0
MARKS = "os^Dvx+"
STROKES = ("-", "--", ":", "-.", (0, (5, 1)), (0, (1, 1)))
MOST_NAMED = 8  # ticks with names


@on_paper(Plot)
def plot(figure: Plot, sheet: Sheet) -> Drawing:
    """Draw the axes of a plot above each other, or as small multiples side by side."""
    across = min(figure.columns, len(figure.axes))
    across = 1 if _slanted_height(figure, sheet.width / across) and sheet.columns == 1 else across
    down = math.ceil(len(figure.axes) / across)
    flat = min(FLAT * sheet.width / across, MOST)
    each = max(min(SHARE * figure.height / down, flat), LEAST)
    each += _slanted_height(figure, sheet.width / across)
    drawing = sheet.canvas(min(each * down, TALLEST))
    wide, tall = sheet.width / across, each - _slanted_height(figure, sheet.width / across)
    shown: dict[str, Any] = {}
    grid = drawing.subplots(down, across, squeeze=False)
    for place, axes in enumerate(grid.flat):
        if place >= len(figure.axes):
            axes.set_axis_off()
            continue
        one = figure.axes[place]
        first = place % across == 0 or one.y != figure.axes[place - 1].y
        shown |= _draw_axes(axes, one, wide, tall, named=first)
    above = legend_above(drawing, list(shown.values()), list(shown))
    drawing.set_figheight(min(each * down + above, TALLEST))
    return drawing


@on_paper(Cdf)
def cdf(figure: Cdf, sheet: Sheet) -> Drawing:
    """Draw cumulative distributions."""
    return plot(cdf_plot(figure), sheet)


def _draw_axes(
    axes: Any, axes_block: Axes, wide: float, tall: float, *, named: bool
) -> dict[str, Any]:
    """Draw one axes of a plot; returns the legend entries."""
    shown = {}
    marked = 0
    for one, stroke in _distinct_strokes(axes_block.series):
        drawn = _draw_series(axes, one, stroke, hollow=bool(marked % 2))
        marked += bool(one.mark)
        if one.label and drawn is not None:
            shown[one.label] = drawn
    _scale(axes.xaxis, axes.set_xscale, axes.set_xlim, axes_block.x)
    _scale(axes.yaxis, axes.set_yscale, axes.set_ylim, axes_block.y)
    if axes_block.band:
        _draw_band(axes, axes_block.band)
    for at in axes_block.x.rule:
        axes.axvline(at, color=rgb("soft"), linestyle=(0, (4, 2)), linewidth=0.8)
    for at in axes_block.y.rule:
        axes.axhline(at, color=rgb("soft"), linestyle=(0, (4, 2)), linewidth=0.8)
    axes.grid(color=rgb("line"))
    letters = int(72 / (0.56 * 8))
    axes.set_xlabel(wrap_text(axes_block.x.name, int((wide - 0.5) * letters)))
    if named:
        axes.set_ylabel(
            wrap_text(axes_block.y.name.replace("\n", " "), int((tall - 0.45) * letters))
        )
    if axes_block.title:
        axes.set_title(shorten_text(axes_block.title, int(wide * letters)), loc="left")
    _name_ticks(axes, axes_block.x, wide)
    return shown


def _distinct_strokes(series: Sequence[Series]) -> Iterator[tuple[Series, Any]]:
    """Each series with a stroke; series that would look alike get different marks or strokes."""
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


def _draw_series(axes: Any, series: Series, stroke: Any, *, hollow: bool) -> Any:
    colour = rgb(series.colour)
    if series.line == "stalks":
        low, high = (np.asarray(end, float) for end in (series.low, series.high))
        middle = (low + high) / 2
        return axes.errorbar(series.x, middle, yerr=(high - low) / 2, fmt="none", ecolor=colour,
                             elinewidth=0.9, capsize=2.0, capthick=0.9)  # fmt: skip
    how = {"drawstyle": "steps-post"} if series.line == "steps" else {}
    points = len(np.atleast_1d(series.x))
    size = max(series.size * 0.8, 1.2) if series.mark and points <= 200 else 2.0
    (drawn,) = axes.plot(
        np.asarray(series.x, float), np.asarray(series.y, float), linestyle=stroke, color=colour,
        marker=series.mark or "none", markersize=size, alpha=series.opacity,
        markeredgewidth=0.8, markerfacecolor="none" if hollow else colour, **how,
    )  # fmt: skip
    return drawn


def _scale(axis: Any, set_scale: Any, set_limits: Any, axis_block: Axis) -> None:
    """Set an axis to a linear or logarithmic scale, with limits and readable tick labels."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

    if axis_block.log:
        set_scale("log", base=axis_block.log)
        few = axis_block.ticks is None and _decades(axis) < 2 and axis_block.log == 10
        axis.set_major_locator(
            LogLocator(axis_block.log, subs=(1.0, 2.0, 5.0) if few else (1.0,), numticks=7)
        )
        axis.set_minor_formatter(NullFormatter())
    else:
        axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    axis.set_major_formatter(FuncFormatter(lambda value, _: tick_text(float(f"{value:.6g}"))))
    low, high = axis_block.limits
    set_limits(low, high)


def _decades(axis: Any) -> float:
    low, high = sorted(map(abs, axis.get_view_interval()))
    return math.log10(high / low) if low > 0 else math.inf


def _name_ticks(axes: Any, axis_block: Axis, wide: float) -> None:
    """Set the named ticks of the x axis, slanted if they are long."""
    if axis_block.ticks is None:
        return
    kept = _named_ticks(axis_block)
    long = _is_long(axis_block, wide)
    axes.set_xticks([at for at, _ in kept], [text for _, text in kept],
                    rotation=35 if long else 0, ha="right" if long else "center",
                    fontsize=SMALL, rotation_mode="anchor")  # fmt: skip
    axes.set_xticks([], minor=True)


def _named_ticks(axis_block: Axis) -> list[tuple[float, str]]:
    """Named ticks of an axis, reduced and shortened for paper."""
    named = list(axis_block.ticks or ())
    return [
        (at, shorten_text(text, 26)) for at, text in named[:: -(-len(named) // MOST_NAMED) or 1]
    ]


def _is_long(axis_block: Axis, wide: float) -> bool:
    """True if tick names do not fit side by side."""
    widest = max((text_width(text) for _, text in _named_ticks(axis_block)), default=0.0)
    return widest > (wide - 0.6) / max(len(_named_ticks(axis_block)), 1)


def _slanted_height(figure: Plot, wide: float) -> float:
    """Height in inches that slanted tick names need below an axis; 0 if none are slanted."""
    long = [text_width(t) for a in figure.axes if _is_long(a.x, wide) for _, t in _named_ticks(a.x)]
    return 0.55 * max(long, default=0.0)


def _draw_band(axes: Any, band: float) -> None:
    """Draw a grey band around the line x = y."""
    low, high = axes.get_xlim()
    spaced = np.geomspace if axes.get_xscale() == "log" else np.linspace
    across = spaced(low, high, 50)
    axes.fill_between(across, across * (1 - band), across * (1 + band), color=rgb("line"), lw=0)
    axes.plot(across, across, color=rgb("soft"), linewidth=0.7, scalex=False, scaley=False)
