"""Figures of a run's schedule: time breakdown, utilization and timeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...sim.run.result import Result
from ...sim.units import seconds
from ..blocks import BarChart, Bars, HeatMap
from ..export.op_places import op_places
from ..numbers import format_quantity
from ..palette import BOXES, bar_kinds
from .bars import WIDTH
from .packed_bars import majority
from .timeline_source import bar_kind_of_ops

FIRST_DRAWN = ("gap", "host", "compute", "memory", "communication")  # then roles of plug-ins
MOST_ROWS = 24
Point = Mapping[str, Any]


def mean_rank_breakdown(points: Mapping[str, Point]) -> dict[str, dict[str, float]]:
    """Time in s per category of the time breakdown, for the mean rank of each variant."""
    return {name: {b: t["mean"] for b, t in p["activity"].items()} for name, p in points.items()}


def time_breakdown_bars(
    boxes: Mapping[str, Mapping[str, float]], axis: str, thick: int = 34
) -> BarChart:
    """Time breakdown as stacked bars: one bar per row, one segment per time category.

    Parameters
    ----------
    boxes : seconds by time category, by row name (such as a variant or a rank)
    axis : name of the time axis, without a unit
    thick : height of a row in pixels
    """
    used = {b: c for b, c in BOXES.items() if any(times[b] > 0 for times in boxes.values())}
    times = {row: {b.replace("_", " "): found[b] for b in used} for row, found in boxes.items()}
    return stacked_bars(times, {b.replace("_", " "): c for b, c in used.items()}, axis, thick)


def stacked_bars(
    times: Mapping[str, Mapping[str, float]],
    colours: Mapping[str, str],
    axis: str,
    thick: int = 34,
) -> BarChart:
    """Stacked bar chart of seconds: one bar per row, one segment per name.

    >>> colours = {"gpu": "compute", "nic": "exposed"}
    >>> chart = stacked_bars({"base": {"gpu": 2.0, "nic": 1.0}}, colours, "path")
    >>> chart.span, chart.axis, [float(bars.start) for bars in chart.bars]
    (3.0, 'path, s', [0.0, 2.0])
    """
    whole = max((sum(found.values()) for found in times.values()), default=0.0) or 1.0
    scale, unit = seconds_scale(whole)
    bars = []
    for row, (name, found) in enumerate(times.items()):
        left = 0.0
        for what, took in found.items():
            if took > 0:
                title = f"{name}: {what} {format_quantity(took, 's')}"
                bars.append(
                    Bars(row + 0.15, left / scale, took / scale, colours[what], title, height=0.7)
                )
            left += took
    return BarChart(list(times), bars, whole / scale, f"{axis}, {unit}", thick, colours)


def seconds_scale(largest: float) -> tuple[float, str]:
    """Factor and name of a readable time unit for times up to ``largest`` seconds.

    >>> seconds_scale(0.02)
    (0.001, 'ms')
    """
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if largest >= scale:
            return scale, unit
    return 1e-9, "ns"


def utilization_heat_map(shares: Mapping[str, Sequence[float]], makespan: float) -> HeatMap:
    """Heat map of utilization over time of the busiest components; idle cells are blank."""
    names = sorted(shares, key=lambda n: -float(np.mean(shares[n])))[:MOST_ROWS]
    scale, unit = seconds_scale(makespan)
    values = [shares[n] for n in names]
    edges = np.linspace(0.0, makespan / scale, len(values[0]) + 1 if values else 2)
    rows = [f"{n}  {format_quantity(float(np.mean(shares[n])), '')}" for n in names]
    return HeatMap(rows, values, f"time, {unit}", "share in use", edges, most=1.0, thick=17)


def timeline_bars(
    result: Result, ranks: Sequence[int], window: tuple[int, int]
) -> tuple[BarChart, float]:
    """Bars of the ops of some ranks between two ticks, and the length of a pixel in s.

    Each pixel shows the kind of op with the most time.
    """
    first, last = window
    where, columns = op_places(result), result.columns
    start, end = columns.start[where.op], columns.end[where.op]
    there = (end > first) & (start < last) & (end > start) & np.isin(where.rank, ranks)
    start, end = np.maximum(start[there], first), np.minimum(end[there], last)
    bar, rank, stream = (
        bar_kind_of_ops(result)[where.op[there]],
        where.rank[there],
        where.stream[there],
    )
    lanes = _lanes(rank, stream)
    length, least = float(seconds(last - first, result.tick)), max((last - first) // WIDTH, 1)
    scale, unit = seconds_scale(length)
    layers = _layer_colours()
    order = [*layers]
    layer = np.array([order.index(name) if name in layers else -1 for name in bar_kinds()])[bar]
    bars, legend = [], {}
    for lane, row in lanes.items():
        own = (rank == lane[0]) & (stream == lane[1]) & (layer >= 0)
        drawn_at, took, shown = bars_by_majority(
            start[own] - first, end[own] - first, layer[own], least
        )
        for number, name in enumerate(layers):
            chosen = shown == number
            if chosen.any():
                legend[name] = layers[name]
                at = seconds(drawn_at[chosen], result.tick) / scale
                bars.append(
                    Bars(np.full(len(at), row + 0.1), at,
                         seconds(took[chosen], result.tick) / scale, legend[name], name, height=0.8)
                )  # fmt: skip
    legend = {name: legend[name] for name in layers if name in legend}
    rows = [f"rank {r}, stream {s}" for r, s in lanes]
    axis = f"time, {unit}"
    drawn = BarChart(rows, bars, length / scale, axis, 26, legend)
    return drawn, float(seconds(least, result.tick))


def _layer_colours() -> dict[str, str]:
    """Colour of each kind of timeline bar, in drawing order."""
    bars = {name: colour for name, colour in bar_kinds().items() if name != "waiting"}
    return {name: bars[name] for name in (*FIRST_DRAWN, *bars)}


def _lanes(rank: Any, stream: Any) -> dict[tuple[int, int], int]:
    pairs = sorted(set(zip(rank.tolist(), stream.tolist(), strict=True)))
    return {pair: i for i, pair in enumerate(pairs)}


def bars_by_majority(start: Any, end: Any, layer: Any, pixel_ticks: int) -> tuple[Any, Any, Any]:
    """Starts, lengths and kinds of bars, after each pixel gets the kind of op with the most time.

    A pixel is ``pixel_ticks`` ticks, and a layer is a kind of op in drawing order. So a few ops of
    another kind do not hide many short ops of one kind.

    >>> start, end = np.array([0, 6, 20]), np.array([6, 10, 30])
    >>> [found.tolist() for found in bars_by_majority(start, end, np.array([2, 4, 4]), 10)]
    [[0, 20], [10, 10], [2, 4]]
    """
    if not len(start):
        return (np.empty(0, np.int64),) * 3
    first = start // pixel_ticks
    whole = -(-end // pixel_ticks) - first  # pixels that each op touches
    op = np.repeat(np.arange(len(start)), whole)
    pixel = np.arange(len(op)) - np.repeat(np.cumsum(whole) - whole, whole) + first[op]
    inside = np.minimum(end[op], (pixel + 1) * pixel_ticks) - np.maximum(
        start[op], pixel * pixel_ticks
    )
    drawn, shown = majority(pixel, layer[op], inside)
    new = np.append(True, (np.diff(drawn) != 1) | (np.diff(shown) != 0))
    until = np.append(drawn[np.flatnonzero(new)[1:] - 1], drawn[-1]) + 1
    return drawn[new] * pixel_ticks, (until - drawn[new]) * pixel_ticks, shown[new]
