"""Trade-offs of a sweep: value for money, the Pareto front, effects of settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..blocks import Block, Column, Line, Paragraph, Plot, Table, Tag, comma_separated
from ..section import section
from ..texts.headline import metric_in_words
from .cost_ladder import HOURLY, cost_ladder, first_goal_besides_cost, further_metrics, ladder_rows
from .pareto import cost_ladder_plot as ladder_figure
from .pareto import pareto_scatter, setting_effect_plot
from .points import SweepShown
from .sweep_results import Summary, differing_settings, setting_name, sweep_goals


@section("capacity", page="sweep", title="Value for money", order=20)
def cost_section(sweep: SweepShown) -> Iterable[Block]:
    """Points that are worth their price, as table and figure."""
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
    yield Table(columns, [_rung_row(r) for r in rungs], stacked=True)
    if (drawn := _ladder_plot(summary)) is not None:
        yield drawn


def _rung_row(rung: Mapping[str, Any]) -> list[Line]:
    point: Line = [rung["settings"]]
    if rung["unsure"]:
        unsure = Tag("cannot tell whether it meets the expectations", "cannot-tell")
        point = [rung["settings"], " ", unsure]
    gain: Line = [rung["gain"]]
    if rung["outcome"] and rung["outcome"] != "better":
        gain = [rung["gain"], " ", Tag(rung["outcome"], "cannot-tell")]
    return [
        point, rung["price"], rung["value"], rung["within"], gain, rung["buys"], *rung["more"],
    ]  # fmt: skip


def _ladder_plot(summary: Summary) -> Plot | None:
    found = [r.point for r in cost_ladder(summary)]
    if len(found) < 2:
        return None
    _, metric, unit = first_goal_besides_cost(summary)
    limits = [e["limit"] for e in summary["expect"] if e["metric"] == metric]
    return ladder_figure(summary["points"], found, ((HOURLY, "USD"), (metric, unit)), limits)


@section("pareto", page="sweep", title="Pareto front", order=30)
def pareto_section(sweep: SweepShown) -> Iterable[Block]:
    """The Pareto front between the first two goals."""
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
    """The first goal over each setting."""
    summary = sweep.summary
    whole = [p for p in summary["points"] if "error" not in p]
    if not whole:
        return
    _, metric, unit = sweep_goals(summary)[0]
    differing = differing_settings(whole, summary["vary"]) or list(summary["vary"])
    names = {setting: setting_name(setting, summary["vary"]) for setting in differing}
    yield setting_effect_plot(whole, names, metric, unit)
    if idle := summary["no_effect"]:
        yield Paragraph(
            ["No effect where only this setting differed: ", *comma_separated(idle), "."]
        )
