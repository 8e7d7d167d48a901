"""Section on the ranking of a sweep's best points: differences and their certainty."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..blocks import Block, Column, Line, Paragraph, Table, Tag
from ..numbers import format_change, format_quantity
from ..section import section
from ..texts.headline import metric_in_words
from .points import SweepShown
from .ranking_sentences import UNSURE, WITH, interval_text
from .sweep_results import (
    Summary,
    differing_settings,
    setting_name,
    sweep_goals,
    value_text,
)


@section("ranking", page="sweep", title="How certain the ranking is", order=5)
def ranking_table(sweep: SweepShown) -> Iterable[Block]:
    """Section with the best points, each with its difference to the one above and to the first."""
    summary = sweep.summary
    if not summary.get("ranking"):
        return
    yield Paragraph(
        ["The best points were run again with each part and each family of ops made slower and "
         "faster by its known error, equally in all points. So an error that is equal for two "
         "points does not separate them. Effects that the model lacks are in no interval."]
    )  # fmt: skip
    yield ranked_points_table(summary)


def ranked_points_table(summary: Summary) -> Table:
    """Table of the ranked points, with the settings that tell them apart."""
    _, metric, _ = sweep_goals(summary)[0]
    ranked = [summary["points"][row["point"]] for row in summary["ranking"]]
    shown = differing_settings(ranked, summary["vary"])
    columns = [
        Column(header=True),
        *(Column(setting_name(paths, summary["vary"])) for paths in shown),
        Column(metric_in_words(metric), number=True),
        Column("change to the one above", number=True),
        Column("90 % within", number=True, wraps=True),
        Column("change to the first", number=True),
        Column(),
    ]
    return Table(columns, [_row(summary, i, shown) for i in range(len(ranked))])


def _row(summary: Summary, number: int, shown: Sequence[str]) -> list[Line]:
    row = summary["ranking"][number]
    point = summary["points"][row["point"]]
    _, metric, unit = sweep_goals(summary)[0]
    cells: list[Line] = [str(number + 1)]
    cells += [value_text(point["set"].get(paths, "")) for paths in shown]
    cells.append(format_quantity(point["values"][metric], unit))
    if not number:
        return [*cells, "", "", "", ""]
    above = row["behind"]
    within = interval_text(above).removesuffix(WITH) if above["interval"] else "unknown"
    tag: Line = "" if above["sure"] else Tag(UNSURE)
    return [*cells, format_change(above["change"]), within,
            format_change(row["best"]["change"]), tag]  # fmt: skip
