"""Heat maps for papers: shades of one colour, whose order remains in greyscale."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..blocks import HeatMap
from ..figure_kind import on_paper
from ..figures.heat_map import column_edges, value_range
from ..numbers import format_quantity
from ..palette import rgb
from .sheet import SMALL, Sheet, shorten_texts, text_width, wrap_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

PITCH, NAMED_PITCH = 0.145, 0.22  # inches from row to row
NAMES = 0.4  # of the width
BESIDE = "  "  # before a number beside a name: a figure has no room for it
MOST_TEXTS = 120  # cells that say their number
DARK = 0.55  # of the scale, from which on text is white


@on_paper(HeatMap)
def heat_map(figure: HeatMap, sheet: Sheet) -> Drawing:
    """Draw a heat map with a colour scale, and with numbers in cells if they fit."""
    from matplotlib.colors import LinearSegmentedColormap

    values, edges = np.asarray(figure.values, float), column_edges(figure)
    low, high = value_range(figure)
    named = any(figure.columns)
    pitch = NAMED_PITCH if named else PITCH
    drawing = sheet.canvas(3.0)
    axes = drawing.add_subplot()
    hues = LinearSegmentedColormap.from_list(figure.colour, [rgb("paper"), rgb(figure.colour)])
    shades = hues.with_extremes(bad=rgb("tint"))
    drawn = axes.pcolormesh(
        edges, np.arange(len(figure.rows) + 1.0), np.ma.masked_invalid(values), cmap=shades,
        vmin=low, vmax=high, edgecolors="face", linewidth=0.1,
    )  # fmt: skip
    axes.set_ylim(len(figure.rows), 0)
    plain = [row.partition(BESIDE)[0] for row in figure.rows]
    names = shorten_texts(plain, sheet.letters(NAMES * sheet.width))
    axes.set_yticks(np.arange(len(names)) + 0.5, names)
    axes.tick_params(axis="y", length=0)
    _spines(axes)
    letters = sheet.letters(sheet.width - 1.2, 8.0)
    axes.set_xlabel(wrap_text(figure.axis, letters))
    if figure.down:
        axes.set_ylabel(figure.down)
    beneath = _name_columns(axes, figure, edges, sheet) if named else 0.0
    scale = drawing.colorbar(drawn, ax=axes, pad=0.02, aspect=max(8 * len(figure.rows) * pitch, 8))
    _scale(scale, figure, (low, high), sheet.letters(max(len(figure.rows) * pitch, 0.7), 8.0))
    if named:
        _draw_values(axes, figure, values, (low, high))
    height = len(figure.rows) * pitch + 0.45 + beneath + 0.13 * (len(figure.axis) // letters)
    drawing.set_figheight(min(max(height, 1.2), 8.6))
    return drawing


def _spines(axes: Any) -> None:
    for side in axes.spines.values():
        side.set_visible(True)


def _scale(bar: Any, figure: HeatMap, ends: tuple[float, float], letters: int) -> None:
    """Label the colour scale with numbers and a name."""
    at = np.linspace(*ends, 3)
    bar.set_ticks(at, labels=[format_quantity(float(v), figure.unit) for v in at])
    bar.set_label(wrap_text(figure.scale, letters))
    bar.outline.set_linewidth(0.4)


def _name_columns(axes: Any, figure: HeatMap, edges: NDArray[np.float64], sheet: Sheet) -> float:
    """Label the columns, slanted if names are long; returns the height of the labels in inches."""
    names = shorten_texts(figure.columns, 26)
    room = 0.42 * sheet.width / len(names)
    widest = max(map(text_width, names))
    long = widest > room
    axes.set_xticks((edges[1:] + edges[:-1]) / 2, names, rotation=40 if long else 0,
                    ha="right" if long else "center", rotation_mode="anchor")  # fmt: skip
    return 0.64 * widest if long else 0.0


def _draw_values(
    axes: Any, figure: HeatMap, values: NDArray[np.float64], ends: tuple[float, float]
) -> None:
    """Write the numbers into the cells if all fit; a dash marks a blank cell."""
    texts = {
        at: format_quantity(float(v), figure.unit) if np.isfinite(v) else "–"
        for at, v in np.ndenumerate(values)
    }
    columns = values.shape[1]
    room = 0.42 * axes.get_figure().get_figwidth() / columns
    if values.size > MOST_TEXTS or max(map(text_width, texts.values())) > room:
        return
    edges = column_edges(figure)
    for (row, column), text in texts.items():
        value = values[row, column]
        dark = (value - ends[0]) / (ends[1] - ends[0]) > DARK
        axes.text(
            (edges[column] + edges[column + 1]) / 2, row + 0.5, text, ha="center", va="center",
            fontsize=SMALL, color=rgb("paper" if dark else "ink"),
        )  # fmt: skip
