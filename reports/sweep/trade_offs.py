"""Sections on the trade-offs of a sweep: value for money, Pareto front, effect of settings."""

from __future__ import annotations

from collections.abc import Iterable

from ..blocks import Block, Column, Inline, Line, Paragraph, Plot, Table, Tag, comma_separated
from ..numbers import format_change, format_quantity, three_digits
from ..section import section
from ..texts.headline import metric_in_words
from .cost_ladder import (
    BETTER,
    CANNOT_TELL,
    HOUR,
    HOURLY,
    Rung,
    cost_ladder,
    first_goal_besides_cost,
    further_metrics,
    gain_per_dollar_text,
    hourly_price_text,
)
from .pareto import cost_ladder_plot as ladder_figure
from .pareto import pareto_scatter, setting_effect_plot
from .points import SweepShown
from .sweep_results import Summary, differing_settings, setting_name, settings_text, sweep_goals


@section("capacity", page="sweep", title="Value for money", order=20)
def cost_section(sweep: SweepShown) -> Iterable[Block]:
    """Section on points that are worth their price, as a table and a figure."""
    summary = sweep.summary
    if not (rungs := ladder_rows(summary)):
        return
    yield Paragraph(
        "Points that meet the expectations, each better than every cheaper one. Prices are from "
        "cost.items, per hour, for all machines. A gain counts as certain only if the intervals of "
        "the two points do not overlap."
    )
    columns = [
        Column("point", header=True),
        Column("price", number=True),
        Column(metric_in_words(first_goal_besides_cost(summary)[1]), number=True),
        Column("90 % within", number=True, wraps=True),
        Column("gain", number=True),
        Column("gain per USD/hour", number=True, wraps=True),
        *(Column(name, number=True) for name, _, _ in further_metrics(summary)),
    ]
    yield Table(columns, rungs, stacked=True)
    if (drawn := _ladder_plot(summary)) is not None:
        yield drawn


def ladder_rows(summary: Summary) -> list[list[Line]]:
    """Table rows of the cost ladder: one row per point, from the cheapest, with its gain."""
    rungs = cost_ladder(summary)
    return [_rung_row(a, b, summary) for a, b in zip((None, *rungs), rungs, strict=False)]


def _rung_row(below: Rung | None, rung: Rung, summary: Summary) -> list[Line]:
    _, metric, unit = first_goal_besides_cost(summary)
    values, bounds = rung.point["values"], rung.point["intervals"].get(metric)
    point: list[Inline] = [settings_text(rung.point, summary)]
    if rung.point.get("unsure"):
        point += [" ", Tag("cannot tell whether it meets the expectations", "cannot-tell")]
    gain: list[Inline] = [format_change(rung.gain) if below else ""]
    if rung.outcome not in ("", BETTER):
        gain += [" ", Tag(rung.outcome, "cannot-tell")]
    return [
        point,
        hourly_price_text(rung.price),
        format_quantity(values[metric], unit),
        " to ".join(format_quantity(b, unit) for b in bounds) if bounds else "unknown",
        gain,
        gain_per_dollar_text(below, rung, summary) if below and rung.outcome != CANNOT_TELL else "",
        *(_amount_text(values[m], u) for _, m, u in further_metrics(summary)),
    ]


def _amount_text(value: float, unit: str) -> str:
    """A value with its unit; GPU time in hours.

    >>> _amount_text(42120.0, "s"), _amount_text(5600.0, "W")
    ('11.7 h', '5.6 kW')
    """
    return f"{three_digits(value / HOUR)} h" if unit == "s" else format_quantity(value, unit)


def _ladder_plot(summary: Summary) -> Plot | None:
    found = [r.point for r in cost_ladder(summary)]
    if len(found) < 2:
        return None
    _, metric, unit = first_goal_besides_cost(summary)
    limits = [e["limit"] for e in summary["expect"] if e["metric"] == metric]
    return ladder_figure(summary["points"], found, ((HOURLY, "USD"), (metric, unit)), limits)


@section("pareto", page="sweep", title="Pareto front", order=30)
def pareto_section(sweep: SweepShown) -> Iterable[Block]:
    """Section with the Pareto front of the first two goals."""
    summary = sweep.summary
    goals = [(m, u) for _, m, u in sweep_goals(summary)]
    if len(goals) < 2:
        return
    yield Paragraph(
        "A point is on the Pareto front if no other point that meets the expectations is better in "
        "one goal and no worse in the others."
    )
    yield pareto_scatter(summary["points"], goals[:2], summary["base"])


@section("sensitivity", page="sweep", title="Effect of each setting", order=40)
def setting_effects(sweep: SweepShown) -> Iterable[Block]:
    """Section with the first goal plotted over each setting."""
    summary = sweep.summary
    whole = [p for p in summary["points"] if "error" not in p]
    if not whole:
        return
    _, metric, unit = sweep_goals(summary)[0]
    differing = differing_settings(whole, summary["vary"]) or list(summary["vary"])
    names = {setting: setting_name(setting, summary["vary"]) for setting in differing}
    yield setting_effect_plot(whole, names, metric, unit)
    if idle := summary["no_effect"]:
        yield Paragraph(["Settings without effect: ", *comma_separated(idle), "."])
