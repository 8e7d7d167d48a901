"""Bar charts for papers: coloured rectangles, with hatch patterns for greyscale."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..blocks import BarChart, Bars
from ..figure_kind import on_paper
from ..palette import rgb
from .sheet import (
    ELLIPSIS,
    SMALL,
    Sheet,
    hatch_colour,
    hatch_pattern,
    legend_above,
    shorten_texts,
    text_width,
    wrap_text,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

LEAST_PITCH = 0.145  # inches from row to row: a name of 7 points
PITCH = 24 / 0.17  # pixels of a page's row to an inch
NAMES = 0.4  # of the width: names at most
PATTERNED = 0.05  # inches: what is narrower has no room for a pattern


@on_paper(BarChart)
def bar_chart(figure: BarChart, sheet: Sheet) -> Drawing:
    """Draw a bar chart with one row per name, the first on top."""
    from matplotlib.patches import Patch

    span = figure.span or 1.0
    pitch = max(figure.thick / PITCH, LEAST_PITCH)
    drawing = sheet.canvas(3.0)
    axes = drawing.add_subplot()
    names = shorten_texts(figure.rows, sheet.letters(NAMES * sheet.width))
    inch = (sheet.width - max(map(text_width, names), default=0.0) - 0.2) / span
    patterned = not figure.texts  # it would run through the letters
    for bars in figure.bars:
        _draw_bars(axes, bars, inch, patterned=patterned)
    _draw_texts(axes, figure, inch, pitch)
    axes.set_xlim(0, span)
    axes.set_ylim(len(figure.rows), 0)
    axes.set_yticks(np.arange(len(names)) + 0.5, names)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color=rgb("line"))
    across = wrap_text(figure.axis, sheet.letters(sheet.width - 0.5, 8.0))
    axes.set_xlabel(across)
    legend = figure.legend or {}
    patches = [_patch(Patch, colour, patterned=patterned) for colour in legend.values()]
    above = legend_above(drawing, patches, list(legend))
    drawing.set_figheight(
        min(len(figure.rows) * pitch + 0.34 + 0.13 * (across.count("\n") + 1) + above, 8.6)
    )
    return drawing


def _patch(kind: Any, colour: str, *, patterned: bool) -> Any:
    hatch = hatch_pattern(colour) if patterned else ""
    return kind(facecolor=rgb(colour), hatch=hatch, edgecolor=hatch_colour(colour))


def _draw_bars(axes: Any, bars: Bars, inch: float, *, patterned: bool) -> None:
    """Draw rectangles of one colour; hatch patterns only on bars that are wide enough."""
    from matplotlib.collections import PolyCollection

    row, start, length = (
        np.atleast_1d(np.asarray(a, float)) for a in (bars.row, bars.start, bars.length)
    )
    row, start, length = np.broadcast_arrays(row, start, length)
    wide = (length * inch > PATTERNED) & patterned
    for chosen, hatch in ((wide, hatch_pattern(bars.colour)), (~wide, "")):
        if not chosen.any():
            continue
        left, right, top = start[chosen], (start + length)[chosen], row[chosen]
        low = top + bars.height
        corners = np.stack([left, top, right, top, right, low, left, low], -1)
        axes.add_collection(
            PolyCollection(
                [*corners.reshape(-1, 4, 2)], hatch=hatch,
                facecolor=(*rgb(bars.colour), bars.opacity),
                edgecolor=hatch_colour(bars.colour) if hatch else rgb(bars.colour),
                linewidth=0.0 if hatch else 0.2,
            )
        )  # fmt: skip


def _draw_texts(axes: Any, figure: BarChart, inch: float, pitch: float) -> None:
    """Draw texts in bars, clipped to the width of the bar."""
    if pitch < LEAST_PITCH:
        return
    for one in figure.texts:
        fits = _clip_text(one.text, one.length * inch - 0.06)
        if fits:
            axes.text(
                one.start + one.length / 2, one.row + 0.5, fits, ha="center", va="center",
                fontsize=SMALL, color=rgb(one.colour), clip_on=True,
            )  # fmt: skip


def _clip_text(text: str, inches: float) -> str:
    """Clip a text to a width; "" if too little of it would remain.

    >>> _clip_text("12", 0.2), _clip_text("a name", 0.25), _clip_text("12", 0.05)
    ('12', 'a n…', '')
    """
    if text_width(text) <= inches:
        return text
    letters = int(len(text) * inches / text_width(text))
    return text[: letters - 1] + ELLIPSIS if letters > 3 and not text.isdigit() else ""
