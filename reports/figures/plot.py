"""Plots of points and curves, as HTML with inline SVG.

As in ``bars``, texts are page text that keeps its size at any width. Positions are fractions of
the drawing, so marks keep their shape when the drawing stretches.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape

import numpy as np
from numpy.typing import NDArray

from ..blocks import Axes, Axis, Plot, Series
from ..figure_kind import on_page
from ..palette import css
from .bars import legend_html, round_steps

INCH = 96  # pixels
UNITS = 1_000  # of a curve's drawing, along either axis
MARGIN = 0.04  # of the data's span, beyond the outermost point
SHORT, EDGE = 5, 0.04  # letters that fit anywhere; of an axis' length
MOST_TICKS = 7
FEW = 2  # decades of an axis that has numbers between them, too
SHAPES = {  # of a point of size 1
    "o": "M-1 0a1 1 0 1 0 2 0a1 1 0 1 0 -2 0z",
    "s": "M-.9 -.9h1.8v1.8h-1.8z",
    "^": "M0 -1.1L1.1 .9H-1.1z",
    "v": "M0 1.1L1.1 -.9H-1.1z",
    "D": "M0 -1.3L1.3 0L0 1.3L-1.3 0z",
    "x": "M-1 -1L1 1M1 -1L-1 1",
    "+": "M-1.2 0H1.2M0 -1.2V1.2",
}
OPEN_SHAPES = "x+"  # drawn as lines
DASHES = {":": "2 3", "--": "6 4"}
Numbers = NDArray[np.float64]


@on_page(Plot)
def plot_svg(figure: Plot) -> str:
    """HTML of a plot, with its axes above each other.

    Examples
    --------
    >>> one = Axes(Axis("GPUs"), Axis("time, s"), [Series([1, 2], [4.0, 2.0], label="base")])
    >>> drawn = plot_svg(Plot([one]))
    >>> drawn.count("<title>"), "base" in drawn, "GPUs" in drawn
    (2, True, True)
    """
    tall = round(figure.height * INCH / math.ceil(len(figure.axes) / figure.columns))
    drawn = [_axes_html(one, tall) for one in figure.axes]
    if figure.columns == 1:
        return "".join(drawn)
    return f'<div class="two">{"".join(drawn)}</div>'


def _axes_html(axes_block: Axes, tall: int) -> str:
    x, y = (
        _Scale(axes_block.x, _finite_values(axes_block.series, "x")),
        _Scale(axes_block.y, _finite_values(axes_block.series, "y")),
    )
    named = {s.label: s.colour for s in axes_block.series if s.label}
    marks = "".join(
        f'<span style="left:{100 * x.share(at):.4g}%{_edge_css(x.share(at), text)}">{escape(text)}'
        "</span>"
        for at, text in x.ticks()
    )
    heights = "".join(
        f'<span style="top:{100 * (1 - y.share(at)):.4g}%">{escape(text)}</span>'
        for at, text in y.ticks()
    )
    widest = max((len(text) for _, text in y.ticks()), default=1)
    return (
        f'<div class="chart">{f"<h3>{escape(axes_block.title)}</h3>" if axes_block.title else ""}'
        f"{legend_html(named, _shapes(axes_block.series))}"
        f'<div class="axis up">{escape(axes_block.y.name)}</div>'
        f'<div class="plot curves"><div class="heights" style="width:{widest}ch">{heights}</div>'
        f'<svg style="height:{tall}px">{_plot_area(axes_block, x, y)}</svg>'
        f'<div class="ticks">{marks}</div><div class="axis">{escape(axes_block.x.name)}</div>'
        "</div></div>"
    )


def _edge_css(share: float, text: str) -> str:
    """CSS that moves a long tick label at either end of the x axis back inside the drawing.

    >>> _edge_css(0.99, "25 Gb/s, 0.06 USD/hour"), _edge_css(0.99, "16"), _edge_css(0.5, "long")
    (';transform:translateX(-100%)', '', '')
    """
    if len(text) <= SHORT or EDGE < share < 1 - EDGE:
        return ""
    return f";transform:translateX({'0' if share < EDGE else '-100%'})"


def _plot_area(axes_block: Axes, x: _Scale, y: _Scale) -> str:
    """SVG of the plot area: grid, rules, band, curves and points."""
    grid = [_line(x.share(at), x.share(at), 0, 1, "grid") for at, _ in x.ticks()]
    grid += [_line(0, 1, y.share(at), y.share(at), "grid") for at, _ in y.ticks()]
    rules = [_line(x.share(at), x.share(at), 0, 1, "rule") for at in axes_block.x.rule]
    rules += [_line(0, 1, y.share(at), y.share(at), "rule") for at in axes_block.y.rule]
    curves = "".join(_curve(s, x, y) for s in axes_block.series if s.line)
    band = _band(axes_block, x, y) if axes_block.band else ""
    points = "".join(p for s in axes_block.series if s.mark for p in _points(s, axes_block, x, y))
    box = f'viewBox="0 0 {UNITS} {UNITS}" preserveAspectRatio="none"'
    lines = "".join((*grid, *rules))
    return f"{lines}<svg {box}>{band}{curves}</svg>{points}"


def _line(x: float, x2: float, y: float, y2: float, name: str) -> str:
    places = (f"{100 * v:.4g}%" for v in (x, x2, 1 - y, 1 - y2))
    left, right, top, bottom = places
    return f'<line class="{name}" x1="{left}" x2="{right}" y1="{top}" y2="{bottom}"/>'


def _band(axes_block: Axes, x: _Scale, y: _Scale) -> str:
    """SVG of a grey band around the line x = y, and of that line."""
    ends = np.geomspace(*x.ends, 40) if x.log else np.linspace(*x.ends, 40)
    upper = _path_of(x.shares(ends), y.shares(ends * (1 + axes_block.band)))
    lower = _path_of(x.shares(ends[::-1]), y.shares(ends[::-1] * (1 - axes_block.band)))
    equal = _path_of(x.shares(ends), y.shares(ends))
    return f'<path class="band" d="{upper}L{lower[1:]}z"/><path class="rule" d="{equal}"/>'


def _path_of(x: Numbers, y: Numbers) -> str:
    pairs = zip((UNITS * x).tolist(), (UNITS * (1 - y)).tolist(), strict=True)
    return "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in pairs)


def _curve(series: Series, x: _Scale, y: _Scale) -> str:
    at = x.shares(np.asarray(series.x, float))
    style = _style(series)
    if series.line == "stalks":
        ends = (y.shares(np.asarray(end, float)) for end in (series.low, series.high))
        parts = (
            _path_of(np.array([a, a]), np.array([low, high]))
            for a, low, high in zip(at, *ends, strict=True)
        )
        return f'<path class="curve" {style} d="{"".join(parts)}"/>'
    up = y.shares(np.asarray(series.y, float))
    if series.line == "steps":
        at, up = np.repeat(at, 2)[1:], np.repeat(up, 2)[:-1]
    return f'<path class="curve" {style} d="{_path_of(at, up)}"/>' if len(at) else ""


def _style(series: Series) -> str:
    dashes = f";stroke-dasharray:{DASHES[series.line]}" if series.line in DASHES else ""
    thin = f";opacity:{series.opacity:.3g}" if series.opacity != 1 else ""
    return f'style="stroke:{css(series.colour)}{dashes}{thin}"'


def _points(series: Series, axes: Axes, x: _Scale, y: _Scale) -> Iterator[str]:
    colour, shape = css(series.colour), SHAPES[series.mark]
    kind = "stroke" if series.mark in OPEN_SHAPES else "fill"
    thin = f";opacity:{series.opacity:.3g}" if series.opacity != 1 else ""
    xs, ys = np.asarray(series.x, float), np.asarray(series.y, float)
    places = zip(x.shares(xs).tolist(), y.shares(ys).tolist(), strict=True)
    for i, (across, up) in enumerate(places):
        if math.isnan(across) or math.isnan(up):
            continue
        said = series.titles[i] if len(series.titles) else _point_hint(series, axes, xs[i], ys[i])
        yield (
            f'<svg x="{100 * across:.4g}%" y="{100 * (1 - up):.4g}%" class="{kind}">'
            f'<path transform="scale({0.65 * series.size:.3g})" style="{kind}:{colour}{thin}" '
            f'd="{shape}"><title>{escape(said)}</title></path></svg>'
        )


def _point_hint(series: Series, axes: Axes, x: float, y: float) -> str:
    """Hint text of a point: the series' name, and both coordinates with their axis names."""
    texts = [
        f"{axis.name}: {_named_tick(axis, value) or f'{value:.4g}'}"
        for axis, value in ((axes.x, x), (axes.y, y))
    ]
    return "\n".join([series.label, *texts] if series.label else texts)


def _named_tick(axis: Axis, value: float) -> str:
    return next((text for at, text in axis.ticks or () if at == value), "")


def _shapes(series: Sequence[Series]) -> dict[str, str]:
    """SVG of each series' mark for the legend, so that colour is not the only difference."""
    found = {}
    for one in series:
        if one.label and one.mark:
            kind = "stroke" if one.mark in OPEN_SHAPES else "fill"
            found[one.label] = (
                f'<svg class="key {kind}" viewBox="-1.5 -1.5 3 3">'
                f'<path style="{kind}:{css(one.colour)}" d="{SHAPES[one.mark]}"/></svg>'
            )
    return found


def _finite_values(series: Sequence[Series], axis_name: str) -> Numbers:
    """All finite coordinates of the series along one axis."""
    names = [axis_name] if axis_name == "x" else [axis_name, "low", "high"]
    every = [np.asarray(getattr(s, name), float).ravel() for s in series for name in names]
    found = np.concatenate(every) if every else np.empty(0)
    return found[np.isfinite(found)]


class _Scale:
    """Scale of an axis: maps numbers to positions from 0 to 1."""

    def __init__(self, axis: Axis, values: Numbers):
        self.axis, self.log = axis, axis.log
        if self.log:
            values = values[values > 0]
        low, high = self._outermost(values)
        given = axis.limits
        self.ends = (low if given[0] is None else given[0], high if given[1] is None else given[1])

    def _outermost(self, values: Numbers) -> tuple[float, float]:
        if not len(values):
            return (1.0, 10.0) if self.log else (0.0, 1.0)
        low, high = float(values.min()), float(values.max())
        if self.log:
            more = (high / low) ** MARGIN if high > low else 2.0
            return low / more, high * more
        more = MARGIN * (high - low) or 0.5 * abs(high) or 0.5
        return low - more, high + more

    def share(self, value: float) -> float:
        return float(self.shares(np.array([value]))[0])

    def shares(self, values: Numbers) -> Numbers:
        """Positions of values, shape (n,); NaN where a logarithmic scale has none."""
        low, high = self.ends
        if self.log:
            with np.errstate(divide="ignore", invalid="ignore"):
                found = np.log(values / low) / math.log(high / low)
            return np.where(np.isfinite(found), found, np.nan)
        return (values - low) / (high - low)

    def ticks(self) -> list[tuple[float, str]]:
        """Tick positions and their labels."""
        low, high = self.ends
        if self.axis.ticks is not None:
            return [t for t in self.axis.ticks if low <= t[0] <= high]
        if not self.log:
            return [(at, tick_text(at)) for at in round_steps(low, high, MOST_TICKS)]
        return [(at, tick_text(at)) for at in _powers(low, high, self.log)]


def tick_text(value: float) -> str:
    """Format a number as a tick label, with thousands separators and rarely an exponent.

    >>> tick_text(1200000.0), tick_text(0.25), tick_text(150.5), tick_text(1e-07)
    ('1,200,000', '0.25', '150.5', '1e-07')
    """
    return f"{value:,.0f}" if 1e3 <= abs(value) < 1e9 and value == round(value) else f"{value:g}"


def _powers(low: float, high: float, base: int) -> list[float]:
    """Powers of a base between two numbers; over few decades also 2 and 5 times each power.

    >>> _powers(0.5, 30.0, 10), _powers(1.0, 64.0, 4)
    ([0.5, 1.0, 2.0, 5.0, 10.0, 20.0], [1.0, 4.0, 16.0, 64.0])
    """
    first = math.floor(math.log(low, base) - 1e-9)
    last = math.ceil(math.log(high, base) + 1e-9)
    few = base == 10 and math.log10(high / low) < FEW
    step = max(1, (last - first) // (MOST_TICKS + 1))
    found = [
        m * float(base) ** k
        for k in range(first, last + 1, step)
        for m in ((1, 2, 5) if few else (1,))
    ]
    return [at for at in found if low * (1 - 1e-9) <= at <= high * (1 + 1e-9)]
