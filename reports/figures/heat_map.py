"""Heat maps for pages, drawn as bars whose shade encodes the number."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ..blocks import BarChart, Bars, HeatMap
from ..figure_kind import on_page
from ..numbers import format_quantity
from ..palette import paler
from .bars import bar_chart_html

SHADES = 32
LEGEND = (25, 50, 75, 100)  # per cent of the darkest
GAP = 0.03  # of a column: between cells that have names


@on_page(HeatMap)
def heat_map_html(figure: HeatMap) -> str:
    """HTML of a heat map.

    Examples
    --------
    >>> one = HeatMap(["gpu"], [[1.0, 0.5, 0.0]], "time, s", "in use", [0.0, 1.0, 2.0, 3.0])
    >>> heat_map_html(one).count("<path fill")
    2
    """
    return bar_chart_html(heat_map_bars(figure))


def heat_map_bars(figure: HeatMap) -> BarChart:
    """Bar chart of a heat map; adjacent cells of one row with equal shade become one bar."""
    values = np.asarray(figure.values, float)
    edges = column_edges(figure)
    least, most = value_range(figure)
    shares = np.clip((np.nan_to_num(values, nan=least) - least) / (most - least), 0, 1)
    shade = np.ceil(np.where(np.isnan(values), 0, shares) * SHADES).astype(int)
    cells = _named_cells if figure.columns else _merged_cells
    legend = {
        format_quantity(least + (most - least) * percent / 100, figure.unit): paler(
            figure.colour, percent
        )
        for percent in LEGEND
    }
    rows = figure.rows
    return BarChart(
        rows,
        list(cells(figure, shade, edges)),
        float(edges[-1]),
        _axis(figure),
        figure.thick,
        legend,
    )


def _axis(figure: HeatMap) -> str:
    """Text of the column axis; lists the column names if columns have names."""
    if not any(figure.columns):
        return f"{figure.axis}; {figure.scale}"
    return f"{figure.axis}, from the left: {', '.join(figure.columns)}; {figure.scale}"


def column_edges(figure: HeatMap) -> NDArray[np.float64]:
    """Positions where columns begin and end, shape (columns + 1,)."""
    width = np.asarray(figure.values, float).shape[1]
    given = np.asarray(figure.edges, float)
    return given if len(given) else np.arange(width + 1.0)


def value_range(figure: HeatMap) -> tuple[float, float]:
    """The values of the palest and of the darkest shade."""
    values = np.asarray(figure.values, float)
    known = values[np.isfinite(values)]
    most = figure.most if figure.most is not None else float(known.max(initial=figure.least))
    return figure.least, most if most > figure.least else figure.least + 1.0


def _merged_cells(
    figure: HeatMap, shade: NDArray[np.int64], edges: NDArray[np.float64]
) -> Iterator[Bars]:
    for level in range(1, SHADES + 1):
        cells: list[tuple[int, float, float]] = []
        for row, line in enumerate(shade == level):
            ends = np.flatnonzero(np.diff(line, prepend=False, append=False))
            cells += [
                (row, edges[a], edges[b] - edges[a])
                for a, b in zip(ends[::2], ends[1::2], strict=True)
            ]
        if cells:
            rows, start, length = (np.array(c) for c in zip(*cells, strict=True))
            yield Bars(rows, start, length, figure.colour, height=0.9, opacity=level / SHADES)


def _named_cells(
    figure: HeatMap, shade: NDArray[np.int64], edges: NDArray[np.float64]
) -> Iterator[Bars]:
    values = np.asarray(figure.values, float)
    for row, column in zip(*np.nonzero(shade), strict=True):
        wide = edges[column + 1] - edges[column]
        said = figure.title.format(
            row=figure.rows[row],
            column=figure.columns[column] or column + 1,
            value=format_quantity(float(values[row, column]), figure.unit),
        )
        yield Bars(row, edges[column] + GAP * wide, (1 - 2 * GAP) * wide, figure.colour, said,
                   height=0.92, opacity=shade[row, column] / SHADES)  # fmt: skip
