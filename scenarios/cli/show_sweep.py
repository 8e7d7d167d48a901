"""A sweep in a terminal: the best points in a table, and what they were chosen from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...reports.numbers import format_change, format_quantity
from ...reports.sweep.sweep_answer import answer_sentences, failure_counts
from ...reports.sweep.sweep_results import front_points, setting_name, sweep_goals
from .common import print_sentences

ROWS = 12


def print_sweep_answer(summary: dict[str, Any], quiet: bool) -> None:
    """The answer in sentences, then the points that nothing beats."""
    console = print_sentences(answer_sentences(summary))
    if quiet:
        return
    console.print()
    console.print(best_points_table(summary))
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
        made.add_column(metric.replace("_", " "), justify="right", no_wrap=True)
    made.add_column("change", justify="right", no_wrap=True)
    base = summary["base"].get("values", {})
    shown = front_points(summary) or [p for p in summary["points"] if "error" not in p]
    for p in [summary["base"], *shown[:ROWS]]:
        if "error" not in p:
            made.add_row(*_point_row(p, summary["vary"], names, units, base))
    return made


def _point_row(
    point: Mapping[str, Any], vary: Any, names: list[str], units: list[str], base: dict[str, float]
) -> list[str]:
    values = point["values"]
    was, is_ = base.get(names[0]), values.get(names[0])
    changed = format_change(is_ / was - 1) if point["set"] and was and is_ is not None else ""
    mark = "best" if point["front"] else "miss" if point["missed"] else ""
    settings = [str(point["set"].get(paths, "")) for paths in vary]
    cells = [format_quantity(values.get(m), u) for m, u in zip(names, units, strict=True)]
    first = mark if point["set"] else f"base {mark}".strip()
    return [first, *settings, *cells, changed]
