"""Plots of points and curves: matplotlib without its window system, as inline SVG.

Ink and paper are the reader's: what is drawn in :data:`INK` takes the colour of the text around
it, so a plot is readable on light, dark and paper.  Bars need none of this: see ``chart``.
"""

from __future__ import annotations

import io
import re
from typing import Any

INK = "#010203"


def blank(width: float, height: float) -> tuple[Any, Any]:
    """An empty figure and its only axes; width and height in inches."""
    figure = canvas(width, height)
    return figure, axes_of(figure)


def canvas(width: float, height: float) -> Any:
    """A figure without axes, clear as glass; width and height in inches."""
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


def axes_of(figure: Any, rows: int = 1, row: int = 1) -> Any:
    """Axes in one of several rows of a figure."""
    axes = figure.add_subplot(rows, 1, row)
    axes.patch.set_alpha(0)
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def svg(figure: Any) -> str:
    """A figure as inline SVG, its ink that of the page."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :].replace(INK, "currentColor")
    return re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.S)


def legend(axes: Any) -> None:
    """Above the plot, where nothing is drawn."""
    axes.legend(
        ncols=7, loc="lower left", bbox_to_anchor=(0, 1), frameon=False, fontsize=8,
        columnspacing=1.2, handlelength=1.2,
    )  # fmt: skip
