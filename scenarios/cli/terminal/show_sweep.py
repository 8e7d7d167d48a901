"""Result of a sweep in a terminal: a table of the best points."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ....reports.blocks import Column, Table
from ....reports.numbers import format_change, format_quantity
from ....reports.sweep.ranking import ranked_points_table
from ....reports.sweep.sweep_answer import answer_sentences, failure_counts
from ....reports.sweep.sweep_results import (
    front_points,
    setting_name,
    sweep_goals,
    value_text,
)
from ....reports.texts.headline import metric_in_words
from .common import print_sentences, print_table, terminal_table

ROWS = 12


def print_sweep_answer(summary: dict[str, Any], quiet: bool) -> None:
    """Print the answer in sentences, then the table of the best points."""
    console = print_sentences(answer_sentences(summary))
    if quiet:
        return
    console.print()
    ranked = "ranking" in summary
    table = ranked_points_table(summary) if ranked else best_points_table(summary)
    print_table(console, terminal_table(table))
    for message, count in failure_counts(summary).items():
        console.print(f"failed   {count} point{'s' * (count != 1)}: {message}", soft_wrap=True)


def best_points_table(summary: dict[str, Any]) -> Table:
    """Table of the Pareto front, or of the first points if there is none."""
    names, units = ([m[i] for m in sweep_goals(summary)] for i in (1, 2))
    columns = [Column(), *(Column(setting_name(p, summary["vary"])) for p in summary["vary"])]
    columns += [Column(head, number=True) for head in (*map(metric_in_words, names), "change")]
    base = summary["base"].get("values", {})
    shown = front_points(summary) or [p for p in summary["points"] if "error" not in p]
    points = [p for p in (summary["base"], *shown[:ROWS]) if "error" not in p]
    return Table(columns, [_point_row(p, summary["vary"], names, units, base) for p in points])


def _point_row(
    point: Mapping[str, Any], vary: Any, names: list[str], units: list[str], base: dict[str, float]
) -> list[str]:
    values = point["values"]
    was, is_ = base.get(names[0]), values.get(names[0])
    changed = format_change(is_ / was - 1) if point["set"] and was and is_ is not None else ""
    mark = "best" if point["front"] else "miss" if point["missed"] else ""
    settings = [value_text(point["set"].get(paths, "")) for paths in vary]
    cells = [format_quantity(values.get(m), u) for m, u in zip(names, units, strict=True)]
    first = mark if point["set"] else f"base {mark}".strip()
    return [first, *settings, *cells, changed]
