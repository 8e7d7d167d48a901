"""Section on a sweep over two settings: a heat map of the deciding metric."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..blocks import Block, HeatMap, Paragraph
from ..section import section
from ..texts.headline import metric_in_words
from .pareto import ordered_texts
from .points import SweepShown
from .sweep_results import Summary, setting_name, sweep_goals, value_text

LEAST, MOST = 2, 40  # values of a setting
COVERED = 0.5  # of all pairs, at least: else a heat map is mostly blank


@section("two_way", page="sweep", title="Two settings together", order=45)
def two_way(sweep: SweepShown) -> Iterable[Block]:
    """Section with a heat map of the first goal's metric, if a sweep varies two settings."""
    summary = sweep.summary
    if (found := two_way_heat_map(summary)) is not None:
        yield Paragraph(
            "Each cell is the point with these two settings; a blank cell was not run or failed."
        )
        yield found


def two_way_heat_map(summary: Summary) -> HeatMap | None:
    """Heat map of a sweep over two settings; None for any other sweep."""
    settings = list(summary["vary"])
    _, metric, unit = sweep_goals(summary)[0]
    points = [p for p in summary["points"] if metric in p.get("values", {})]
    if len(settings) != 2 or not points:
        return None
    texts = [ordered_texts([p["set"][s] for p in points]) for s in settings]
    if any(not LEAST <= len(t) <= MOST for t in texts):
        return None
    values = np.full([len(t) for t in texts], np.nan)
    for p in points:
        at = [t.index(value_text(p["set"][s])) for s, t in zip(settings, texts, strict=True)]
        values[tuple(at)] = p["values"][metric]
    if np.isfinite(values).mean() < COVERED:
        return None
    return _drawing(values, texts, settings, (metric, unit), summary)


def _drawing(
    values: Any,
    texts: Sequence[Sequence[str]],
    settings: Sequence[str],
    metric_and_unit: tuple[str, str],
    summary: Summary,
) -> HeatMap:
    """The heat map, with the setting that has more values as rows."""
    if values.shape[0] < values.shape[1]:
        values, texts, settings = values.T, texts[::-1], settings[::-1]
    down, across = (setting_name(s, summary["vary"]) for s in settings)
    metric, unit = metric_and_unit
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    near = 0.5 * high < low  # a scale from 0 would hide the differences
    scale = metric_in_words(metric)
    return HeatMap(
        list(texts[0]), values, across, scale, columns=list(texts[1]), most=high,
        least=low - 0.1 * (high - low) if near else 0.0, down=down, unit=unit,
        title=f"{down} = {{row}}, {across} = {{column}}: {{value}}",
    )  # fmt: skip
