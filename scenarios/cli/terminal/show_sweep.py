"""A sweep in a terminal: the best points in a table, and what they were chosen from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ....reports.numbers import format_change, format_quantity
from ....reports.sweep.ranking_sentences import UNSURE, WITH, interval_text
from ....reports.sweep.sweep_answer import answer_sentences, failure_counts
from ....reports.sweep.sweep_results import (
    differing_settings,
    front_points,
    setting_name,
    sweep_goals,
    value_text,
)
from ....reports.texts.headline import metric_in_words
from .common import print_sentences, print_table

ROWS = 12


def print_sweep_answer(summary: dict[str, Any], quiet: bool) -> None:
    """The answer in sentences, then the points that nothing beats."""
    console = print_sentences(answer_sentences(summary))
    if quiet:
        return
    console.print()
    table = ranking_table(summary) if "ranking" in summary else best_points_table(summary)
    print_table(console, table)
    for message, count in failure_counts(summary).items():
        console.print(f"failed   {count} point{'s' * (count != 1)}: {message}", soft_wrap=True)


def best_points_table(summary: dict[str, Any]) -> Any:
    """Table of the Pareto front, or of the first points where there is none."""
    from rich.table import Table

    names, units = ([m[i] for m in sweep_goals(summary)] for i in (1, 2))
    made = Table(box=None, pad_edge=False)
    made.add_column("", no_wrap=True)
    for paths in summary["vary"]:
        made.add_column(setting_name(paths, summary["vary"]), no_wrap=True)
    for metric in names:
        made.add_column(metric_in_words(metric), justify="right", no_wrap=True)
    made.add_column("change", justify="right", no_wrap=True)
    base = summary["base"].get("values", {})
    shown = front_points(summary) or [p for p in summary["points"] if "error" not in p]
    for p in [summary["base"], *shown[:ROWS]]:
        if "error" not in p:
            made.add_row(*_point_row(p, summary["vary"], names, units, base))
    return made


def ranking_table(summary: dict[str, Any]) -> Any:
    """Table of the ranked points, with the settings that tell them apart."""
    from rich.table import Table

    _, metric, unit = sweep_goals(summary)[0]
    rows = [(summary["points"][r["point"]], r) for r in summary["ranking"]]
    paths = differing_settings([point for point, _ in rows], summary["vary"])
    made = Table(box=None, pad_edge=False)
    made.add_column("", no_wrap=True)
    for path in paths:
        made.add_column(setting_name(path, summary["vary"]), no_wrap=True)
    for header in (metric_in_words(metric), "to the one above", "90 % within"):
        made.add_column(header, justify="right", no_wrap=True)
    for number, (point, row) in enumerate(rows, 1):
        settings = [value_text(point["set"].get(path, "")) for path in paths]
        value = format_quantity(point["values"][metric], unit)
        made.add_row(str(number), *settings, value, *_difference_cells(row))
    return made


def _difference_cells(row: Mapping[str, Any]) -> tuple[str, str]:
    """Difference from the point above, and its interval; of the first none."""
    if "behind" not in row:
        return "", ""
    told = row["behind"]
    if told["interval"] is None:
        return format_change(told["change"]), "unknown"
    within = interval_text(told).removesuffix(WITH)
    return format_change(told["change"]), within if told["sure"] else f"{within}: {UNSURE}"


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
