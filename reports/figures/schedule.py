"""Figures of a run's schedule: results in, marks out.

Colours are those of Okabe and Ito (2008), told apart without colour vision, on light and dark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...sim.ops import Kind
from ...sim.result import Result
from ...sim.units import seconds
from ..blocks import BarChart, Bars
from ..export.op_places import op_places
from ..numbers import format_quantity
from .bars import WIDTH

COLOURS = {
    "compute": "#0072B2",
    "overlapped": "#56B4E9",
    "exposed_communication": "#D55E00",
    "memory": "#009E73",
    "waiting": "#E69F00",
    "host": "#999999",
    "idle": "#DDDDDD",
}
LAYERS = {  # of the timeline, drawn in this order
    "gap": (Kind.GAP, Kind.DELAY),
    "host": (Kind.HOST,),
    "compute": (Kind.COMPUTE,),
    "memory": (Kind.COPY,),
    "network": (Kind.COLLECTIVE, Kind.SEND, Kind.RECV),
}
LAYER_COLOURS = COLOURS | {"gap": COLOURS["idle"], "network": COLOURS["exposed_communication"]}
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")  # of variants
MOST_ROWS = 24
SHADES = 32  # of a heat map
Point = Mapping[str, Any]


def time_breakdown_bars(points: Mapping[str, Point], of: str) -> BarChart:
    """Time breakdown of the mean rank, one bar per variant.

    Parameters
    ----------
    of : which part of the run: ``an iteration``
    """
    names = list(points)
    whole = max(sum(b["mean"] for b in p["activity"].values()) for p in points.values())
    scale, unit = seconds_scale(whole)
    left = np.zeros(len(names))
    bars, legend = [], {}
    for box, colour in COLOURS.items():
        for row, name in enumerate(names):
            mean = points[name]["activity"][box]["mean"]
            if mean > 0:
                legend[box.replace("_", " ")] = colour
                title = f"{name}: {box.replace('_', ' ')} {format_quantity(mean, 's')}"
                bars.append(
                    Bars(row + 0.15, left[row] / scale, mean / scale, colour, title, height=0.7)
                )
            left[row] += mean
    axis = f"{of} of the mean rank, durations as recorded, {unit}"
    return BarChart(names, bars, (whole or 1.0) / scale, axis, thick=34, legend=legend)


def critical_path_bars(points: Mapping[str, Point], most: int = 8) -> BarChart:
    """Critical path by the component charged, one bar per variant."""
    totals: dict[str, float] = {}
    for p in points.values():
        for who, t in p["blame"].items():
            totals[who] = max(totals.get(who, 0.0), t)
    shown = sorted(totals, key=lambda w: -totals[w])[:most]
    longest = max(totals.values(), default=1.0) or 1.0
    scale, unit = seconds_scale(longest)
    height = 0.8 / len(points)
    bars, legend = [], {}
    for i, (name, p) in enumerate(points.items()):
        colour = legend[name] = PALETTE[i % len(PALETTE)]
        for row, who in enumerate(shown):
            charged = p["blame"].get(who, 0.0)
            title = f"{name}: {who} {format_quantity(charged, 's')}"
            at = row + 0.1 + i * height
            if charged > 0:
                bars.append(Bars(at, 0.0, charged / scale, colour, title, height=height))
    thick = max(20, 11 * len(points))
    axis = f"of the critical path, {unit}"
    legend = legend if len(points) > 1 else {}
    return BarChart(shown, bars, longest / scale, axis, thick, legend)


def seconds_scale(largest: float) -> tuple[float, str]:
    """Factor and name of the unit in which seconds of this size are shown.

    >>> seconds_scale(0.02)
    (0.001, 'ms')
    """
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if largest >= scale:
            return scale, unit
    return 1e-9, "ns"


def utilization_heat_map(shares: Mapping[str, Sequence[float]], makespan: float) -> BarChart:
    """Utilization over time, one row for each of the busiest components; idle is blank."""
    names = sorted(shares, key=lambda n: -float(np.mean(shares[n])))[:MOST_ROWS]
    scale, unit = seconds_scale(makespan)
    shade = np.ceil(np.clip([shares[n] for n in names], 0, 1) * SHADES).astype(int)
    bars = []
    for level in range(1, SHADES + 1):
        cells: list[tuple[int, int, int]] = []
        for row, line in enumerate(shade == level):
            edges = np.flatnonzero(np.diff(line, prepend=False, append=False))
            cells += [(row, a, b - a) for a, b in zip(edges[::2], edges[1::2], strict=True)]
        if cells:
            row_, start, length = (np.array(c) for c in zip(*cells, strict=True))
            width = makespan / scale / shade.shape[1]
            bars.append(
                Bars(row_, start * width, length * width, COLOURS["compute"], height=0.9,
                     opacity=level / SHADES)
            )  # fmt: skip
    rows = [f"{n}  {format_quantity(float(np.mean(shares[n])), '')}" for n in names]
    legend = {f"{percent} %": f"rgb(0 114 178 / {percent}%)" for percent in (25, 50, 75, 100)}
    return BarChart(rows, bars, makespan / scale, f"in use, over time in {unit}", 17, legend)


def timeline_bars(
    result: Result, ranks: Sequence[int], window: tuple[int, int]
) -> tuple[BarChart, float]:
    """Bars of some ranks' ops between two ticks; and the gap in s below which they merge."""
    first, last = window
    where, columns = op_places(result), result.columns
    start, end = columns.start[where.op], columns.end[where.op]
    there = (end > first) & (start < last) & (end > start) & np.isin(where.rank, ranks)
    start, end = np.maximum(start[there], first), np.minimum(end[there], last)
    kind, rank, stream = result.ops.kind[where.op[there]], where.rank[there], where.stream[there]
    lanes = _lanes(rank, stream)
    length, least = float(seconds(last - first, result.tick)), max((last - first) // WIDTH, 1)
    scale, unit = seconds_scale(length)
    bars, legend = [], {}
    for name, kinds in LAYERS.items():
        of_layer = np.isin(kind, kinds)
        for lane, row in lanes.items():
            own = of_layer & (rank == lane[0]) & (stream == lane[1])
            spans = seconds(merge_bars(start[own] - first, end[own] - first, least), result.tick)
            if len(spans):
                legend[name] = LAYER_COLOURS[name]
                at, took = spans.T / scale
                bars.append(
                    Bars(np.full(len(at), row + 0.1), at, took, legend[name], name, height=0.8)
                )
    rows = [f"rank {r}, stream {s}" for r, s in lanes]
    axis = f"time, {unit}"
    drawn = BarChart(rows, bars, length / scale, axis, 26, legend)
    return drawn, float(seconds(least, result.tick))


def _lanes(rank: Any, stream: Any) -> dict[tuple[int, int], int]:
    pairs = sorted(set(zip(rank.tolist(), stream.tolist(), strict=True)))
    return {pair: i for i, pair in enumerate(pairs)}


def merge_bars(start: Any, end: Any, least: int) -> Any:
    """(n, 2) starts and lengths of bars; bars less than ``least`` apart are merged.

    >>> merge_bars(np.array([0, 10, 50]), np.array([8, 20, 51]), 5).tolist()
    [[0, 20], [50, 5]]
    """
    if not len(start):
        return np.empty((0, 2), np.int64)
    order = np.argsort(start, kind="stable")
    start, end = start[order], np.maximum.accumulate(end[order])
    first = np.flatnonzero(np.append(True, start[1:] - end[:-1] >= least))
    until = np.append(end[first[1:] - 1], end[-1])
    return np.stack([start[first], np.maximum(until - start[first], least)], axis=1)
