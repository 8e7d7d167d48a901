"""Sections on what processes recorded: time series, and metrics of many emitted values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from ....sim.record.distribution import Distribution
from ....sim.record.emitted_values import MOST_VALUES, Emitted
from ....sim.record.time_series import TimeSeries
from ....sim.run.result import Result
from ...blocks import Axes, Axis, Block, Column, Heading, Line, Paragraph, Plot, Series, Table
from ...figures.schedule import seconds_scale
from ...numbers import axis_scale, format_quantity, format_share
from ...palette import series_colour
from ...section import section
from ...texts.study import StudyShown

MOST_SERIES = 8  # drawn
MOST_CURVES = 6  # variants in a drawing
MOST_POINTS = 400  # of a curve: a page is to stay small
SERIES_COLUMNS = ("values", "mean", "minimum", "maximum", "last")
METRIC_COLUMNS = ("values", "mean", "p50", "p95", "p99", "minimum", "maximum")
PERCENTS = (50, 95, 99)
MOST_ROWS = 40
ByVariant = Mapping[str, TimeSeries]


@section("series", title="Time series", order=26)
def time_series(study: StudyShown) -> Iterable[Block]:
    """Section on every series that processes recorded: its extremes, and its course."""
    found: dict[str, dict[str, TimeSeries]] = {}
    for variant, result in study.results.items():
        for name, one in result.series.items():
            found.setdefault(name, {})[variant] = one
    if not found:
        return
    yield Paragraph(_text(found))
    yield _table(found, several=len(study.results) > 1)
    for name, curves in list(found.items())[:MOST_SERIES]:
        yield Heading(name)
        yield _drawing(name, curves)


def _text(found: Mapping[str, ByVariant]) -> str:
    """Paragraph on what points are, and on what is not drawn."""
    merged = any(one.merged for curves in found.values() for one in curves.values())
    told = "Quantities that processes recorded during the run."
    if merged:
        told += (
            " Values of a short span of time are merged into one point. A solid line is the mean "
            "of each point; dotted lines are its minimum and maximum."
        )
    if len(found) > MOST_SERIES:
        told += f" The first {MOST_SERIES} of {len(found)} are drawn."
    return told


def _table(found: Mapping[str, ByVariant], *, several: bool) -> Table:
    rows: list[list[Line]] = []
    for name, curves in found.items():
        for variant, one in curves.items():
            rows.append([name, *([variant] if several else []), *_cells(one)])
    names = [Column("series", header=True), *([Column("variant")] if several else [])]
    return Table(
        [*names, *(Column(name, number=True) for name in SERIES_COLUMNS)], rows, stacked=True
    )


def _cells(one: TimeSeries) -> Iterator[str]:
    count, unit = int(one.count.sum()), one.unit or "1"
    yield f"{count:,}"
    mean, least, most = one.sum.sum() / count, one.minimum.min(), one.maximum.max()
    yield from (format_quantity(float(v), unit) for v in (mean, least, most, one.final[-1]))


def _drawing(name: str, curves: ByVariant) -> Plot:
    """Plot with one curve per variant, and dotted ones of its extremes."""
    drawn = {v: one.in_points(MOST_POINTS) for v, one in list(curves.items())[:MOST_CURVES]}
    whole, second = seconds_scale(max(float(one.end[-1]) for one in drawn.values()))
    most = max(float(abs(v)) for one in drawn.values() for v in (*one.maximum, *one.minimum))
    unit = next((one.unit for one in drawn.values() if one.unit), "1")
    scale, shown = (1.0, "") if unit == "1" else axis_scale(most, unit)
    lines = []
    for k, (variant, one) in enumerate(drawn.items()):
        colour, label = series_colour(k), variant if len(drawn) > 1 else ""
        lines.append(Series(one.time / whole, one.mean / scale, "", "steps", colour, label))
        if one.merged:
            lines += [
                Series(one.time / whole, end / scale, "", ":", colour, opacity=0.6)
                for end in (one.minimum, one.maximum)
            ]
    up = Axis(f"{name}, {shown}" if shown else name)
    return Plot([Axes(Axis(f"time, {second}"), up, lines)], height=2.4)


@section("emitted", title="Emitted metrics", order=42)
def emitted_metrics(study: StudyShown) -> Iterable[Block]:
    """Section on the metrics of which processes emitted several values."""
    several = len(study.results) > 1
    rows = [
        row for name, result in study.results.items() for row in _metric_rows(name, result, several)
    ]
    if not rows:
        return
    more = f" The first {MOST_ROWS} of {len(rows):,} are shown." * (len(rows) > MOST_ROWS)
    yield Paragraph(f"Values that processes emitted during the run.{more}")
    names = [Column("metric", header=True), *([Column("variant")] if several else [])]
    numbers = [Column(name, number=True) for name in METRIC_COLUMNS]
    how = Column("quantiles", title=f"exact for up to {MOST_VALUES:,} values in a run")
    yield Table([*names, *numbers, how], rows[:MOST_ROWS], stacked=True)


def _metric_rows(variant: str, result: Result, several: bool) -> Iterator[list[Line]]:
    """One row per metric of a variant that has several values."""
    for job in result.jobs:
        emitted = result.of(job).emitted
        for name, values in emitted.samples.items():
            if len(values) > 1:
                unit = emitted.units.get((0, name), "1")
                label = f"{job}.{name}" if len(result.jobs) > 1 else name
                cells = [format_quantity(one, unit) for one in _statistics(values)]
                yield [
                    label, *([variant] if several else []), f"{len(values):,}", *cells,
                    quantile_text(values),
                ]  # fmt: skip


def _statistics(values: Emitted) -> list[float]:
    """Mean, percentiles, minimum and maximum."""
    if isinstance(values, Distribution):
        percentiles = [values.percentile(p) for p in PERCENTS]
        return [values.mean, *percentiles, values.minimum, values.maximum]
    percentiles = np.percentile(values, PERCENTS).tolist()
    return [float(values.mean()), *percentiles, float(values.min()), float(values.max())]


def quantile_text(values: Emitted) -> str:
    """Text on how exact the quantiles of a metric are.

    >>> quantile_text(np.array([1.0, 2.0]))
    'exact'
    """
    return f"within {format_share(values.error)}" if isinstance(values, Distribution) else "exact"
