"""``foretrace compare``: differences of scenarios, variants or saved runs."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...sim.errors import ScenarioError
from ..studies.folders.writing import writing
from .app import MISSED, app
from .terminal.common import Json, Out, answer_console, command_line, print_json
from .terminal.faults import exit_if_any_fault

if TYPE_CHECKING:
    from ..config.scenario import Scenario
    from ..studies.explaining.comparison import Comparison, ComparisonRow
    from ..studies.run.run import Study


FEW = 3  # runs that a title names
SIGNS = {"+": "green", "-": "red", "~": "yellow"}  # of settings that differ


@app.command()
def compare(
    runs: Annotated[
        list[str], typer.Argument(help="Scenarios or saved runs; the first is the base.")
    ],
    fail_if: Annotated[
        list[str],
        typer.Option(
            "--fail-if",
            help="Exit with code 5 if this change occurs, such as 'iteration_time.p50 > +3 %'.",
        ),
    ] = [],  # noqa: B006  typer's form of a repeatable option
    md: Annotated[bool, typer.Option("--md", help="Print a Markdown table.")] = False,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Also write an HTML page to this file.")
    ] = None,
    beside: Annotated[
        str, typer.Option("--with", help="Variant to compare with; by default the base.")
    ] = "",
    out: Out = Path("runs"),
    quick: Annotated[
        bool, typer.Option("--quick", help="Skip the runs that explain the answer.")
    ] = False,
    json: Json = False,
) -> None:
    """Compare saved runs, or the variants of a scenario. A saved run is not run again."""
    from ..config.condition import read_change_condition
    from ..studies.explaining.comparison import compare as compared

    try:
        conditions = [read_change_condition(text) for text in fail_if]
    except ValueError as error:
        raise ScenarioError(f"--fail-if: {error}") from error
    given = [_quick_scenario(run, out) if quick else run for run in runs]
    found = compared(*given, out=str(out), beside=beside, simulate=_simulated)
    failed = found.missed(conditions)
    faults: list[dict[str, Any]] = []
    if output is not None:
        faults = _write_comparison_page(output, found, runs)
    if json:
        print_json({"rows": [_row_to_dict(r) for r in found.rows], "failed": failed,
                    "no_effect": list(found.no_effect)})  # fmt: skip
    else:
        if md:
            typer.echo(_comparison_markdown(found))
        else:
            _print_comparison(found)
        for line in failed:
            typer.echo(f"FAIL  {line}", err=True)
    exit_if_any_fault(faults)
    if failed:
        raise typer.Exit(MISSED)


def _quick_scenario(run: str, out: Path) -> str | Scenario:
    """Scenario loaded with ``run.quick``; for a saved run, its name."""
    from ..config.loader import load
    from ..studies.explaining.comparison import saved_run_path

    return run if saved_run_path(run, str(out)) else load(run, set=["run.quick=true"])


def _simulated(scenario: Scenario) -> Study:
    """Run a scenario with progress in the terminal; returns its study."""
    from ..studies.run.run import study
    from .terminal.progress import RunProgress

    with RunProgress(quiet=False) as progress:
        return study(scenario, progress.tell, counted=progress.count)


def _write_comparison_page(
    path: Path, comparison: Comparison, runs: list[str]
) -> list[dict[str, Any]]:
    """Write the comparison as an HTML page; returns what failed in it."""
    from ...reports.comparison.comparison_page import comparison_page
    from ...reports.section import FailedSection
    from ..studies.summaries.attempts import faults_of_page

    rows = [
        {
            **asdict(r),
            "why": comparison.why(r),
            "limit": comparison.limit(r),
            "see": _command_that_shows_run(r, runs),
        }
        for r in comparison.rows
    ]
    first, *others = (r.name for r in comparison.rows)
    which = ", ".join(others) if len(others) <= FEW else f"{len(others)} others"
    title = f"{which} compared with {first}"
    units = {metric: _unit_of_metric(metric) for r in comparison.rows for metric in r.values}
    told = {"title": title, "command": command_line(), "no_effect": list(comparison.no_effect),
            "units": units, "answer": comparison.answer}  # fmt: skip
    failed: list[FailedSection] = []
    page = comparison_page(rows, told, failed)
    with writing(path, "-o"):
        path.write_text(page, encoding="utf-8")
    return faults_of_page(failed)


def _command_that_shows_run(row: ComparisonRow, runs: list[str]) -> str:
    """Command that runs one of the compared variants; "" when several runs are compared."""
    if len(runs) == 1:
        return shlex.join(["foretrace", "run", runs[0], "--variant", row.name])
    return ""


def _unit_of_metric(metric: str) -> str:
    """Unit of a metric; "" for a metric that a process emitted."""
    from ..config.metrics import parse_metric

    try:
        return parse_metric(metric)[0].unit
    except ValueError:
        return ""


def _row_to_dict(row: ComparisonRow) -> dict[str, Any]:
    return {
        "name": row.name,
        **{k: v for m, v in row.values.items() for k, v in _metric_with_change(row, m, v)},
        "interval": row.interval,
        "settings": row.settings,
    }


def _metric_with_change(row: ComparisonRow, metric: str, value: float) -> list[tuple[str, float]]:
    changed = [(f"{metric} change", row.changes[metric])] if metric in row.changes else []
    return [(metric, value), *changed]


def _table_cells(comparison: Comparison) -> list[list[str]]:
    """Table with one row per run: headline, then other differing metrics, each with its change."""
    from ...reports.texts.headline import metric_in_words

    heads = [metric_in_words(m) for m in comparison.metrics]
    table = [["run", heads[0], "change", *heads[1:]]]
    return [
        *table,
        *([row.name, *_formatted_metric_values(comparison, row)] for row in comparison.rows),
    ]


def _formatted_metric_values(comparison: Comparison, row: ComparisonRow) -> list[str]:
    from ...reports.numbers import format_quantity, format_signed_share
    from ..studies.explaining.comparison import LEAST

    cells = []
    for metric in comparison.metrics:
        value, changed = row.values.get(metric), row.changes.get(metric, 0.0)
        cells.append(format_quantity(value, _unit_of_metric(metric)))
        if metric == comparison.metrics[0]:
            cells.append("" if row is comparison.rows[0] else _format_change(changed, row.interval))
        elif abs(changed) >= LEAST:
            cells[-1] += f" ({format_signed_share(changed)})"
    return cells


def _format_change(changed: float, interval: tuple[float, float] | None) -> str:
    from ...reports import numbers

    text = numbers.format_change(changed)
    if not interval:
        return text
    low, high = map(numbers.format_signed_share, interval)
    return f"{text} ({low} to {high})"


def _print_comparison(comparison: Comparison) -> None:
    """Print the table, and the differing settings in colours."""
    console = answer_console()
    for line in _comparison_text(comparison).splitlines():
        sign = line.strip()[:1] if line.startswith("  ") else ""
        console.print(line, soft_wrap=True, style=SIGNS.get(sign, ""))


def _comparison_text(comparison: Comparison) -> str:
    cells = _table_cells(comparison)
    widths = [max(len(r[i]) for r in cells) for i in range(len(cells[0]))]
    lines = ["  ".join(c.ljust(w) for c, w in zip(r, widths, strict=True)).rstrip() for r in cells]
    return "\n".join([*lines, "", *_comparison_notes(comparison)]).rstrip()


def _comparison_notes(comparison: Comparison) -> list[str]:
    """Differing settings of each run, the cause of the difference, and settings without effect."""
    lines = []
    for row in comparison.rows[1:]:
        lines += [f"{row.name}:"] * bool(row.settings)
        lines += [_setting_line(path, *pair) for path, pair in row.settings.items()]
        if why := comparison.why(row):
            lines.append(f"{row.name}: why: {why}")
    if comparison.no_effect:
        lines.append(f"no effect: {', '.join(comparison.no_effect)}")
    return lines


def _setting_line(path: str, was: str, is_: str) -> str:
    """Line about a setting that was changed, added or removed.

    >>> _setting_line("a.b", "1", "2"), _setting_line("a.c", "", "3"), _setting_line("d", "4", "")
    ('  ~ a.b: 1 -> 2', '  + a.c: 3', '  - d: 4')
    """
    if not was or not is_:
        return f"  {'-' if was else '+'} {path}: {was or is_}"
    return f"  ~ {path}: {was} -> {is_}"


def _comparison_markdown(comparison: Comparison) -> str:
    head, *body = _table_cells(comparison)
    rows = ["| " + " | ".join(line) + " |" for line in (head, ["---"] * len(head), *body)]
    return "\n".join(
        [*rows, "", *(_bulleted(line) for line in _comparison_notes(comparison))]
    ).rstrip()


def _bulleted(line: str) -> str:
    """Note as a Markdown list item; a setting as an item of a nested list."""
    return f"  - `{line.strip()}`" if line.startswith("  ") else f"- {line}"
