"""Figures: data in, inline SVG out.

Drawn by matplotlib without its window system.  Ink and paper are the reader's: what is drawn in
:data:`INK` takes the colour of the text around it, so a figure is readable on light, dark and
paper.  Colours are those of Okabe and Ito (2008), told apart without colour vision.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..sim.ops import Kind
from ..sim.result import Result
from ..sim.units import seconds
from .places import placed

INK = "#010203"
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
FINEST = 2_000  # parts of a timeline's width that are told apart
MOST_ROWS = 24


def blank(width: float, height: float) -> tuple[Any, Any]:
    """An empty figure and its axes; width and height in inches."""
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
    axes = figure.add_subplot()
    axes.patch.set_alpha(0)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


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


def boxes(points: Mapping[str, Mapping[str, Any]]) -> str:
    """Mean rank's time by what it does, a bar for each variant."""
    figure, axes = blank(7.2, 0.75 + 0.42 * len(points))
    names = list(points)
    left = np.zeros(len(names))
    scale, unit = scale_of(
        max(sum(b["mean"] for b in p["activity"].values()) for p in points.values())
    )
    for box, colour in COLOURS.items():
        width = np.array([points[n]["activity"][box]["mean"] for n in names]) / scale
        if width.any():
            axes.barh(
                names, width, left=left, color=colour, label=box.replace("_", " "), height=0.6
            )
        left += width
    axes.invert_yaxis()
    axes.set_xlabel(f"time of the mean rank, {unit}")
    legend(axes)
    return svg(figure)


def blame(points: Mapping[str, Mapping[str, Any]], most: int = 8) -> str:
    """Critical path by who is charged, for each variant."""
    totals: dict[str, float] = {}
    for p in points.values():
        for who, t in p["blame"].items():
            totals[who] = max(totals.get(who, 0.0), t)
    shown = sorted(totals, key=lambda w: -totals[w])[:most]
    figure, axes = blank(7.2, 0.8 + 0.16 * len(shown) * (1 + len(points)))
    scale, unit = scale_of(max(totals.values(), default=1.0))
    height = 0.8 / len(points)
    palette = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00"]
    for i, (name, p) in enumerate(points.items()):
        at = np.arange(len(shown)) + (i - (len(points) - 1) / 2) * height
        width = [p["blame"].get(who, 0.0) / scale for who in shown]
        axes.barh(at, width, height=height * 0.9, label=name, color=palette[i % len(palette)])
    axes.set_yticks(np.arange(len(shown)), shown)
    axes.invert_yaxis()
    axes.set_xlabel(f"of the critical path, {unit}")
    if len(points) > 1:
        legend(axes)
    return svg(figure)


def scale_of(largest: float) -> tuple[float, str]:
    """The unit that seconds of this size are told in.

    >>> scale_of(0.02)
    (0.001, 'ms')
    """
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if largest >= scale:
            return scale, unit
    return 1e-9, "ns"


def heat(shares: Mapping[str, Sequence[float]], makespan: float) -> str:
    """Utilization over time: a row for each of the busiest components, light is idle."""
    names = sorted(shares, key=lambda n: -float(np.mean(shares[n])))[:MOST_ROWS]
    figure, axes = blank(7.2, 0.9 + 0.19 * len(names))
    scale, unit = scale_of(makespan)
    image = np.array([shares[n] for n in names])
    axes.imshow(
        image, aspect="auto", cmap="cividis", vmin=0, vmax=1, interpolation="nearest",
        extent=(0, makespan / scale, len(names) - 0.5, -0.5),
    )  # fmt: skip
    axes.set_yticks(range(len(names)), [f"{n}  {np.mean(shares[n]):.0%}" for n in names])
    axes.set_xlabel(f"time, {unit}")
    return svg(figure)


def timeline(result: Result, ranks: Sequence[int], window: tuple[int, int]) -> tuple[str, float]:
    """Ops of some ranks between two ticks; and the gap in s below which bars are joined."""
    first, last = window
    where, columns = placed(result), result.columns
    start, end = columns.start[where.op], columns.end[where.op]
    there = (end > first) & (start < last) & (end > start) & np.isin(where.rank, ranks)
    start, end = start[there], end[there]
    kind, rank, stream = result.ops.kind[where.op[there]], where.rank[there], where.stream[there]
    lanes = _lanes(rank, stream)
    figure, axes = blank(7.2, 1.15 + 0.32 * len(lanes))
    length, least = float(seconds(last - first, result.tick)), max((last - first) // FINEST, 1)
    scale, unit = scale_of(length)
    for name, kinds in LAYERS.items():
        of_layer = np.isin(kind, kinds)
        for lane, y in lanes.items():
            own = of_layer & (rank == lane[0]) & (stream == lane[1])
            bars = joined(start[own] - first, end[own] - first, least)
            spans = (seconds(bars, result.tick) / scale).tolist()
            axes.broken_barh(spans, (y - 0.4, 0.8), facecolors=LAYER_COLOURS[name], linewidth=0)
        if of_layer.any():
            axes.barh(0, 0, color=LAYER_COLOURS[name], label=name)
    axes.set_yticks(list(lanes.values()), [f"rank {r}, stream {s}" for r, s in lanes])
    axes.invert_yaxis()
    axes.set_xlim(0, length / scale)
    axes.set_xlabel(f"time, {unit}")
    legend(axes)
    return svg(figure), float(seconds(least, result.tick))


def _lanes(rank: Any, stream: Any) -> dict[tuple[int, int], int]:
    pairs = sorted(set(zip(rank.tolist(), stream.tolist(), strict=True)))
    return {pair: i for i, pair in enumerate(pairs)}


def joined(start: Any, end: Any, least: int) -> Any:
    """(n, 2) Starts and lengths of bars; what is less than ``least`` apart is one bar.

    >>> joined(np.array([0, 10, 50]), np.array([8, 20, 51]), 5).tolist()
    [[0, 20], [50, 5]]
    """
    if not len(start):
        return np.empty((0, 2), np.int64)
    order = np.argsort(start, kind="stable")
    start, end = start[order], np.maximum.accumulate(end[order])
    first = np.flatnonzero(np.append(True, start[1:] - end[:-1] >= least))
    until = np.append(end[first[1:] - 1], end[-1])
    return np.stack([start[first], np.maximum(until - start[first], least)], axis=1)
