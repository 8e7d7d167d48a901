"""Figures of an accuracy page: predicted over measured times, error by size and distribution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..blocks import Axes, Axis, Cdf, Plot, Series
from ..figures.schedule import seconds_scale
from ..palette import series_colour

MARKS = ("o", "s", "^", "D", "v")
BAND = 0.1
MOST_POINTS = 5_000
Components = Mapping[str, Mapping[str, Any]]


def predicted_over_measured(components: Components) -> Plot:
    """Plot of predicted over measured seconds, one point per distinct op, with a +-10 % band."""
    every = [o for c in components.values() for o in c["ops"]]
    scale, unit = seconds_scale(max(o["measured"] for o in every))
    low = min(min(o["measured"], o["predicted"]) for o in every) / scale * 0.7
    high = max(max(o["measured"], o["predicted"]) for o in every) / scale * 1.4
    ends = max(low, 1e-12), high
    series = []
    for i, (name, one) in enumerate(components.items()):
        ops = one["ops"][:MOST_POINTS]
        x, y = ([o[which] / scale for o in ops] for which in ("measured", "predicted"))
        series.append(
            Series(x, y, MARKS[i % 5], colour=series_colour(i), label=name, size=4, opacity=0.75)
        )
    across = Axis(f"measured, {unit}; the band is ±10 %", 10, limits=ends)
    up = Axis(f"predicted, {unit}", 10, limits=ends)
    return Plot([Axes(across, up, series, BAND)], 3.6)


def error_distribution(components: Components) -> Cdf:
    """Cumulative distribution of errors: the fraction of calls whose error is at most x."""
    errors, calls = {}, {}
    for name, one in components.items():
        errors[name] = [100 * abs(o["predicted"] / o["measured"] - 1) for o in one["ops"]]
        calls[name] = [o["calls"] for o in one["ops"]]
    across = Axis("error, %; dashed: 10 %", limits=(0, None), rule=[100 * BAND])
    return Cdf(across, errors, calls, "calls", 3.6)


def error_by_size(components: Components) -> Plot | None:
    """Plot of median and worst error by op size, in factors of four; None without bytes."""
    known = {n: c["by_size"] for n, c in components.items() if c["by_size"]}
    if not known:
        return None
    series = []
    for i, (name, rows) in enumerate(known.items()):
        size = np.array([r["least"] for r in rows])
        colour = series_colour(i)
        median, worst = ([100 * r[which] for r in rows] for which in ("p50", "max"))
        series.append(Series(size, median, MARKS[i % 5], "-", colour, f"{name}, median", 4))
        series.append(Series(size, worst, "x", ":", colour, f"{name}, worst", 5))
    ticks = _size_labels(sorted({r["least"] for rows in known.values() for r in rows}))
    across = Axis("bytes of the op, from", 4, ticks)
    up = Axis("error, %", limits=(0, None), rule=[100 * BAND])
    return Plot([Axes(across, up, series)], height=2.9)


def _size_labels(sizes: Sequence[float]) -> list[tuple[float, str]]:
    """Tick positions and labels for sizes in bytes."""
    step = max(1, len(sizes) // 10)
    return [(s, format_bytes(s)) for s in sizes[::step]]


def format_bytes(size: float) -> str:
    """A size in bytes as text, with a binary prefix.

    >>> format_bytes(4096), format_bytes(4.0), format_bytes(4194304)
    ('4 KiB', '4 B', '4 MiB')
    """
    for unit, name in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if size >= unit:
            return f"{size / unit:g} {name}"
    return f"{size:g} B"
