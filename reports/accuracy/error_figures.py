"""Figures of an accuracy page: predicted against measured, error by size, how errors are spread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..figures.plot import blank, legend, svg
from ..figures.schedule import scale_of

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00")
MARKS = ("o", "s", "^", "D", "v")
BAND = 0.1
MOST_POINTS = 5_000
FEW = 2  # decades of an axis that has numbers between them, too
Components = Mapping[str, Mapping[str, Any]]


def scatter(components: Components) -> str:
    """Every different op: measured across, predicted up; a line where they are equal, +-10 %."""
    figure, axes = blank(4.3, 3.6)
    every = [o for c in components.values() for o in c["ops"]]
    scale, unit = scale_of(max(o["measured"] for o in every))
    low = min(min(o["measured"], o["predicted"]) for o in every) / scale * 0.7
    high = max(max(o["measured"], o["predicted"]) for o in every) / scale * 1.4
    line = np.array([max(low, 1e-12), high])
    axes.fill_between(line, line * (1 - BAND), line * (1 + BAND), color="#999999", alpha=0.25, lw=0)
    axes.plot(line, line, color="#999999", lw=1)
    for i, (name, one) in enumerate(components.items()):
        ops = one["ops"][:MOST_POINTS]
        axes.plot(
            [o["measured"] / scale for o in ops], [o["predicted"] / scale for o in ops],
            MARKS[i % 5], color=PALETTE[i % 5], markersize=4, alpha=0.75, label=name, lw=0,
        )  # fmt: skip
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(*line)
    axes.set_ylim(*line)
    _plain(axes, decades=float(np.log10(line[1] / line[0])))
    axes.set_xlabel(f"measured, {unit}; the band is ±10 %")
    axes.set_ylabel(f"predicted, {unit}")
    legend(axes)
    return svg(figure)


def _plain(axes: Any, decades: float) -> None:
    """Numbers as people write them; also between powers of ten where these are few."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_formatter(NullFormatter())
        if decades < FEW:
            axis.set_major_locator(LogLocator(subs=(1, 2, 5)))


def spread_of_errors(components: Components) -> str:
    """Share of the calls whose error is at most so large."""
    figure, axes = blank(4.3, 3.6)
    for i, (name, one) in enumerate(components.items()):
        error = np.array([abs(o["predicted"] / o["measured"] - 1) for o in one["ops"]])
        calls = np.array([o["calls"] for o in one["ops"]])
        order = np.argsort(error)
        share = np.cumsum(calls[order]) / calls.sum()
        axes.step(
            np.append(0, error[order]) * 100, np.append(0, share) * 100, where="post",
            color=PALETTE[i % 5], label=name,
        )  # fmt: skip
    axes.axvline(100 * BAND, color="#999999", lw=1, ls="--")
    axes.set_xlim(left=0)
    axes.set_ylim(0, 101)
    axes.set_xlabel("error, %; dashed: 10 %")
    axes.set_ylabel("calls within, %")
    legend(axes)
    return svg(figure)


def error_by_size(components: Components) -> str:
    """Median error and worst, for each factor of four in bytes; "" where no op has bytes."""
    known = {n: c["by_size"] for n, c in components.items() if c["by_size"]}
    if not known:
        return ""
    figure, axes = blank(7.2, 2.9)
    for i, (name, rows) in enumerate(known.items()):
        size = np.array([r["least"] for r in rows])
        axes.plot(size, [100 * r["p50"] for r in rows], MARKS[i % 5] + "-", color=PALETTE[i % 5],
                  markersize=4, label=f"{name}, median")  # fmt: skip
        axes.plot(size, [100 * r["max"] for r in rows], MARKS[i % 5] + ":", color=PALETTE[i % 5],
                  markersize=3, label="worst", alpha=0.6)  # fmt: skip
    axes.axhline(100 * BAND, color="#999999", lw=1, ls="--")
    axes.set_xscale("log", base=4)
    axes.set_xlabel("bytes of the op, from")
    axes.set_ylabel("error, %")
    axes.set_ylim(bottom=0)
    _sizes(axes, sorted({r["least"] for rows in known.values() for r in rows}))
    legend(axes)
    return svg(figure)


def _sizes(axes: Any, sizes: Sequence[float]) -> None:
    """Sizes as people write them."""
    step = max(1, len(sizes) // 10)
    shown = sizes[::step]
    axes.set_xticks(shown, [bytes_of(s) for s in shown])


def bytes_of(size: float) -> str:
    """A size in powers of two.

    >>> bytes_of(4096), bytes_of(4.0), bytes_of(4194304)
    ('4 KiB', '4 B', '4 MiB')
    """
    for unit, name in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if size >= unit:
            return f"{size / unit:g} {name}"
    return f"{size:g} B"
