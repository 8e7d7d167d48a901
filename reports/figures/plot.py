"""Plots of points and curves as inline SVG, by matplotlib without a window system.

Ink and paper are the reader's: what is drawn in :data:`INK` takes the colour of the text around
it, so a plot is readable on light, dark and paper.  Bars need none of this: see ``chart``.
"""

from __future__ import annotations

import io
import re
from typing import Any

import numpy as np

from ..blocks import Axes, Axis, Plot, Series

INK = "#010203"
GREY = "#999999"
FEW = 2  # decades of an axis that has numbers between them, too


def plot_svg(of: Plot) -> str:
    """Inline SVG of a plot."""
    figure = _canvas(of.width, of.height)
    for row, one in enumerate(of.axes, 1):
        axes = _axes_of(figure, len(of.axes), row)
        _draw(axes, one)
    return _svg(figure)


def _draw(axes: Any, of: Axes) -> None:
    if of.band:
        line = np.array(of.x.limits, float)
        axes.fill_between(
            line, line * (1 - of.band), line * (1 + of.band), color=GREY, alpha=0.25, lw=0
        )
        axes.plot(line, line, color=GREY, lw=1)
    for series in of.series:
        _draw_series(axes, series)
    _scale(axes.set_xscale, axes.set_xlim, axes.xaxis, of.x)
    _scale(axes.set_yscale, axes.set_ylim, axes.yaxis, of.y)
    for at in of.x.rule:
        axes.axvline(at, color=GREY, lw=1, ls="--")
    for at in of.y.rule:
        axes.axhline(at, color=GREY, lw=1, ls="--")
    axes.set_xlabel(of.x.name)
    axes.set_ylabel(of.y.name)
    if any(series.label for series in of.series):
        _legend(axes)


def _draw_series(axes: Any, of: Series) -> None:
    colour = of.colour or INK
    if of.line == "stalks":
        axes.vlines(of.x, of.low, of.high, color=colour)
        return
    axes.plot(
        of.x, of.y, marker=of.mark or None, color=colour, alpha=of.opacity,
        markersize=of.size, label=of.label or None,
        linestyle={"": "None", "steps": "-"}.get(of.line, of.line),
        drawstyle="steps-post" if of.line == "steps" else "default",
    )  # fmt: skip


def _scale(set_scale: Any, set_limits: Any, axis: Any, of: Axis) -> None:
    """Set scale, limits and ticks of one axis, with readable numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    if of.log:
        set_scale("log", base=of.log)
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_formatter(NullFormatter())
        if None not in of.limits and np.ptp(np.log10(np.array(of.limits, float))) < FEW:
            axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    set_limits(*of.limits)
    if of.ticks is not None:
        axis.set_ticks([at for at, _ in of.ticks], [text for _, text in of.ticks])


def _canvas(width: float, height: float) -> Any:
    """An empty, transparent figure; width and height in inches."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    mpl.rcParams.update(
        {
            "svg.fonttype": "none",
            "svg.hashsalt": "foretrace",  # the same bytes every time
            "font.size": 9,
            "text.color": INK,
            "axes.labelcolor": INK,
            "axes.edgecolor": INK,
            "xtick.color": INK,
            "ytick.color": INK,
        }
    )
    figure = Figure(figsize=(width, height), layout="constrained")
    figure.patch.set_alpha(0)
    return figure


def _axes_of(figure: Any, rows: int = 1, row: int = 1) -> Any:
    """Matplotlib axes in one of several rows of a figure."""
    axes = figure.add_subplot(rows, 1, row)
    axes.patch.set_alpha(0)
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def _svg(figure: Any) -> str:
    """Inline SVG of a figure, in the text colour of the page."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :].replace(INK, "currentColor")
    return re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.S)


def _legend(axes: Any) -> None:
    """Add the legend above the plot, where nothing is drawn."""
    axes.legend(
        ncols=7, loc="lower left", bbox_to_anchor=(0, 1), frameon=False, fontsize=8,
        columnspacing=1.2, handlelength=1.2,
    )  # fmt: skip
