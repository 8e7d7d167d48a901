"""Values with error bars for papers, one row for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..blocks import Intervals
from ..figure_kind import on_paper
from ..figures.plot import tick_text
from ..palette import SERIES, rgb
from .sheet import Sheet, shorten_texts, wrap_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

PITCH = 0.2  # inches from row to row
NAMES = 0.4  # of the width


@on_paper(Intervals)
def intervals(figure: Intervals, sheet: Sheet) -> Drawing:
    """Draw values as points, with their intervals as error bars."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    value, low, high = (np.asarray(a, float) for a in (figure.value, figure.low, figure.high))
    drawing = sheet.canvas(len(value) * PITCH + 0.6)
    axes = drawing.add_subplot()
    rows = np.arange(len(value))
    axes.errorbar(value, rows, xerr=np.clip([value - low, high - value], 0, None), fmt="o",
                  color=rgb(SERIES[0]), markersize=3.5, elinewidth=0.9, capsize=2.0)  # fmt: skip
    axes.set_ylim(len(value) - 0.5, -0.5)
    axes.set_yticks(rows, shorten_texts(figure.rows, sheet.letters(NAMES * sheet.width)))
    if figure.axis.log:
        axes.set_xscale("log", base=figure.axis.log)
    else:
        axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: tick_text(float(f"{v:.6g}"))))
    axes.set_xlim(*figure.axis.limits)
    for at in figure.axis.rule:
        axes.axvline(at, color=rgb("soft"), linestyle=(0, (4, 2)), linewidth=0.8)
    axes.grid(axis="x", color=rgb("line"))
    axes.set_xlabel(wrap_text(figure.axis.name, sheet.letters(0.55 * sheet.width, 8.0)))
    return drawing
