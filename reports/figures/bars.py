"""Bar charts over one numeric axis, as HTML with inline SVG.

Only the rectangles are SVG and stretch with the page. Names, ticks and legend are page text, so
they keep their size and colour at any width.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from html import escape

import numpy as np
from numpy.typing import ArrayLike

from ..blocks import BarChart, Bars
from ..figure_kind import on_page
from ..palette import css

WIDTH = 2_000  # units from one end of the axis to the other: what can be told apart
ROW = 100  # units from one row to the next
MOST_TICKS = 8


@on_page(BarChart)
def bar_chart_html(figure: BarChart) -> str:
    """HTML of a bar chart.

    Examples
    --------
    >>> drawn = bar_chart_html(BarChart(["base"], [Bars([0], [0.0], [2.0], "idle")], 4.0, "t, s"))
    >>> "M0 0h1000v100h-1000z" in drawn, ">base<" in drawn, ">3<" in drawn
    (True, True, True)
    """
    figure = replace(figure, span=figure.span or 1.0)  # an empty axis if nothing takes time
    ticks, tall = round_steps(0.0, figure.span), len(figure.rows)
    lines = "".join(f"M{_bar_units(t, figure.span)} 0V{ROW * tall}" for t in ticks[1:])
    bars = "".join(_path(b, figure.span) for b in figure.bars)
    names = "".join(f'<span title="{escape(name)}">{escape(name)}</span>' for name in figure.rows)
    marks = "".join(f'<span style="left:{100 * t / figure.span:.4g}%">{t:g}</span>' for t in ticks)
    return (
        f'<div class="chart" style="--thick:{figure.thick}px">{legend_html(figure.legend or {})}'
        f'<div class="plot"><div class="names">{names}</div>'
        f'<div class="bars"><svg viewBox="0 0 {WIDTH} {ROW * tall}" '
        f'preserveAspectRatio="none" style="height:{figure.thick * tall}px">'
        f'<path class="grid" d="{lines}"/>{bars}</svg>{_texts(figure)}</div>'
        f'<div class="ticks">{marks}</div><div class="axis">{escape(figure.axis)}</div></div></div>'
    )


def legend_html(colours: Mapping[str, str], drawn: Mapping[str, str] | None = None) -> str:
    """HTML of a legend: a colour patch, or the series' mark, before each name.

    >>> legend_html({"base": "idle"})
    '<div class="legend"><span><i style="background:var(--idle)"></i>base</span></div>'
    """
    shown = "".join(
        f"<span>{(drawn or {}).get(name) or _patch(colour)}{escape(name)}</span>"
        for name, colour in colours.items()
    )
    return f'<div class="legend">{shown}</div>' if shown else ""


def _patch(colour: str) -> str:
    return f'<i style="background:{css(colour)}"></i>'


def _path(bars: Bars, span: float) -> str:
    """SVG path of all rectangles of a group; each is at least one unit wide."""
    start, length = np.atleast_1d(bars.start), np.atleast_1d(bars.length)
    x = _bar_units(start, span)
    width = np.maximum(_bar_units(start + length, span) - x, 1)
    y = np.rint(ROW * np.atleast_1d(bars.row)).astype(int)
    tall = round(ROW * bars.height)
    corners = zip(x.tolist(), y.tolist(), width.tolist(), strict=True)
    shape = "".join(f"M{a} {b}h{w}v{tall}h-{w}z" for a, b, w in corners)
    title = f"<title>{escape(bars.title)}</title>" if bars.title else ""
    thin = f' fill-opacity="{bars.opacity:.3g}"' if bars.opacity != 1 else ""
    return f'<path fill="{css(bars.colour)}"{thin} d="{shape}">{title}</path>'


def _texts(figure: BarChart) -> str:
    """HTML of the texts in bars, placed over the drawing."""
    return "".join(
        f'<span class="in" style="left:{100 * t.start / figure.span:.4g}%;'
        f"width:{100 * t.length / figure.span:.4g}%;top:{figure.thick * t.row:g}px;"
        f'color:{css(t.colour)}">{escape(t.text)}</span>'
        for t in figure.texts
    )


def _bar_units(position: ArrayLike, span: float) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    return np.rint(WIDTH * np.asarray(position) / span).astype(np.int64)


def round_steps(low: float, high: float, most: int = MOST_TICKS) -> list[float]:
    """A few round numbers between two bounds, in equal steps.

    >>> round_steps(0.0, 1.7), round_steps(0.31, 1.02, 7), round_steps(-5.0, 20.0, 7)
    ([0.0, 0.5, 1.0, 1.5], [0.4, 0.6, 0.8, 1.0], [-5.0, 0.0, 5.0, 10.0, 15.0, 20.0])
    """
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = power * next(m for m in (1, 2, 5, 10) if m * power >= rough * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(k * step, 12) for k in range(first, last + 1)]
