"""Section on scaling in a sweep: throughput over a number of parts, and its efficiency."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from ..blocks import Axes, Axis, Block, Column, Line, Paragraph, Plot, Series, Table
from ..numbers import format_quantity, format_share
from ..palette import series_colour
from ..section import section
from ..texts.headline import metric_in_words
from .points import SweepShown
from .sweep_results import (
    Found,
    Summary,
    differing_settings,
    first_value,
    setting_text,
    unique_suffix,
)

RATE = "tokens_per_second.p50"
COUNTS = ("nodes", "count", "data", "tensor", "pipeline")  # last words of settings that are numbers
OF_A_FIXED_MACHINE = "workload.parallel."  # how the same GPUs share a model: no more parts
MOST_CURVES = 6
MARKS = "os^Dv"


class ScalingCurve(NamedTuple):
    """Throughput over the number of parts (such as GPUs), with all other settings fixed.

    Parameters
    ----------
    name : text of the settings that are fixed on this curve
    counts, rates : number of parts, ascending, and the throughput at each
    """

    name: str
    counts: list[float]
    rates: list[float]

    @property
    def efficiency(self) -> list[float]:
        """Throughput relative to linear scaling from the smallest number of parts.

        >>> ScalingCurve("", [2.0, 4.0], [10.0, 15.0]).efficiency
        [1.0, 0.75]
        """
        count, rate = self.counts[0], self.rates[0]
        return [(r / rate) / (c / count) for c, r in zip(self.counts, self.rates, strict=True)]


@section("scaling", page="sweep", title="How it scales", order=25)
def scaling_section(sweep: SweepShown) -> Iterable[Block]:
    """Section on throughput and efficiency over each varied number of parts."""
    summary = sweep.summary
    for paths in summary["vary"]:
        curves = scaling_curves(summary, paths)
        if curves:
            yield from _blocks(unique_suffix(paths, summary["vary"]), curves)


def scaling_curves(summary: Summary, paths: str) -> list[ScalingCurve]:
    """Scaling curves over a setting, highest rate first; [] if it is not a number of parts."""
    named = [path.strip() for path in paths.split(",")]
    if named[0].rpartition(".")[2] not in COUNTS or all(OF_A_FIXED_MACHINE in p for p in named):
        return []
    groups: dict[str, dict[float, float]] = {}
    for point in summary["points"]:
        count = first_value(point["set"][paths], summary["vary"][paths])
        rate = point.get("values", {}).get(RATE)
        if isinstance(count, int | float) and rate:
            groups.setdefault(_other_settings_text(point, paths, summary), {})[float(count)] = rate
    curves = [
        ScalingCurve(name, sorted(found), [found[c] for c in sorted(found)])
        for name, found in groups.items()
        if len(found) > 1
    ]
    return sorted(curves, key=lambda one: -one.rates[-1])[:MOST_CURVES]


def _other_settings_text(point: Found, paths: str, summary: Summary) -> str:
    """Text of a point's settings, without one setting and without those that all points share."""
    differing = differing_settings(summary["points"], summary["vary"])
    return (
        ", ".join(
            setting_text(key, value, summary["vary"])
            for key, value in point["set"].items()
            if key != paths and key in differing
        )
        or "all points"
    )


def _blocks(name: str, curves: list[ScalingCurve]) -> Iterator[Block]:
    yield Paragraph(
        f"{metric_in_words(RATE).capitalize()} over {name}; dashed: linear scaling "
        "from the smallest number tried. Efficiency is the rate divided by linear scaling."
    )
    best = curves[0]
    ideal = [best.rates[0] * c / best.counts[0] for c in best.counts]
    rates = [Series(best.counts, ideal, "", "--", "soft", "linear")]
    shares = []
    for i, one in enumerate(curves):
        look: dict[str, Any] = {
            "mark": MARKS[i % len(MARKS)],
            "line": "-",
            "colour": series_colour(i),
        }
        rates.append(Series(one.counts, one.rates, label=one.name, **look))
        shares.append(Series(one.counts, [100 * e for e in one.efficiency], **look))
    across = Axis(name, ticks=[(c, f"{c:g}") for c in best.counts])
    yield Plot(
        [
            Axes(across, Axis("tokens per second", limits=(0, None)), rates),
            Axes(across, Axis("efficiency, %", limits=(0, None), rule=[100.0]), shares),
        ],
        height=5.0,
    )
    columns = [Column("settings", header=True), Column(name, number=True)]
    columns += [Column(head, number=True) for head in ("rate", "efficiency")]
    rows: list[list[Line]] = [
        [one.name, f"{count:g}", format_quantity(rate, "token/s"), format_share(share)]
        for one in curves
        for count, rate, share in zip(one.counts, one.rates, one.efficiency, strict=True)
    ]
    yield Table(columns, rows)
