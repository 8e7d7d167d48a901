"""``foretrace compare``: scenarios, variants or saved runs; only what differs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ...sim.errors import ScenarioError
from .app import MISSED, app
from .common import Json, print_json, teller


@app.command()
def compare(
    runs: Annotated[
        list[str], typer.Argument(help="Scenarios or run folders; the first is the base.")
    ],
    fail_if: Annotated[
        list[str], typer.Option("--fail-if", help="Such as 'iteration_time.p50 > +3 %'.")
    ] = [],  # noqa: B006  typer's form of a repeatable option
    md: Annotated[bool, typer.Option("--md", help="A Markdown table.")] = False,
    json: Json = False,
) -> None:
    """Compare runs with the first of them, or the variants of one scenario."""
    from ..expect import change

    try:
        conditions = [change(text) for text in fail_if]
    except ValueError as error:
        raise ScenarioError(f"--fail-if: {error}") from error
    points = [p for name in runs for p in _points(name, len(runs) == 1)]
    rows = [_row(points[0], p) for p in points]
    if len(runs) > 1:
        told = [_settings(name) for name in runs]
        for row, settings in zip(rows, told, strict=True):
            row["settings"] = _differing(told[0], settings)
    failed = [
        f"{name}: {c.text}"
        for (name, point) in points[1:]
        for c in conditions
        if c.holds(_change(points[0][1], point, c.name))
    ]
    if json:
        print_json({"rows": rows, "failed": failed})
    else:
        typer.echo(_markdown(rows) if md else _text(rows))
        for line in failed:
            typer.echo(f"FAIL  {line}", err=True)
    if failed:
        raise typer.Exit(MISSED)


Named = tuple[str, dict[str, Any]]


def _points(name: str, variants: bool) -> list[Named]:
    """The points of a saved run or of a scenario; all variants where it stands alone."""
    from ..folder import load_summary

    path = Path(name)
    if path.is_dir() or path.suffix == ".json":
        summary = load_summary(path)
    else:
        from ..loader import load
        from ..study import study

        summary = study(load(name), teller(False)).summary.plain()
    found = list(summary["points"].items())
    if variants:
        return found
    return [(summary["name"], found[0][1])]


APART = ("name", "question", "report", "what_if", "expect", "catalog")  # of no one number


def _settings(name: str) -> dict[str, str]:
    """All that the base of a saved run or of a scenario was told, by dotted path."""
    from ..document import read
    from ..loader import load
    from ..scenario import flat
    from ..tree import plain

    path = Path(name)
    if path.is_dir() or path.suffix == ".json":
        kept = (path if path.is_dir() else path.parent) / "resolved.yaml"
        told = plain(read(kept, str(kept)))
    else:
        told = load(name).resolved()
    told = {k: v for k, v in told.items() if k not in APART}
    return {setting: str(value) for setting, value in flat(told).items()}


def _differing(base: dict[str, str], of: dict[str, str]) -> dict[str, tuple[str, str]]:
    """What two runs were told differently; "" where one was told nothing.

    >>> _differing({"a": "1", "b": "2"}, {"a": "1", "b": "3", "c": "4"})
    {'b': ('2', '3'), 'c': ('', '4')}
    """
    paths = [p for p in {**base, **of} if base.get(p) != of.get(p)]
    return {p: (base.get(p, ""), of.get(p, "")) for p in paths}


def _change(base: dict[str, Any], point: dict[str, Any], metric: str) -> float:
    """Relative change of one metric.

    Raises
    ------
    ScenarioError
        One of the two lacks it.
    """
    for side in (base, point):
        if metric not in side["metrics"]:
            raise ScenarioError(f"{metric}: a run has no such metric; it has "
                                f"{', '.join(list(side['metrics'])[:8])} …")  # fmt: skip
    was, is_ = (s["metrics"][metric]["value"] for s in (base, point))
    return float(is_ / was - 1) if was else float("nan")


COLUMNS = ("iteration_time.p50", "exposed_communication.mean", "makespan")


def _row(base: Named, of: Named) -> dict[str, Any]:
    """One point: its values, and its changes against the base."""
    row: dict[str, Any] = {"name": of[0]}
    for metric in COLUMNS:
        if metric in of[1]["metrics"] and metric in base[1]["metrics"]:
            row[metric] = of[1]["metrics"][metric]["value"]
            row[f"{metric} change"] = 0.0 if of is base else _change(base[1], of[1], metric)
    row["settings"] = of[1].get("settings", {})
    return row


def _cells(rows: list[dict[str, Any]]) -> list[list[str]]:
    from ...reports.numbers import told

    table = [["run", "iteration p50", "change", "exposed comm.", "makespan", "differs in"]]
    for row in rows:
        differs = "; ".join(
            f"{p}: {b or 'unsaid'} -> {c or 'unsaid'}" for p, (b, c) in row["settings"].items()
        )
        changed = row.get("iteration_time.p50 change")
        table.append(
            [
                row["name"],
                told(row["iteration_time.p50"], "s") if "iteration_time.p50" in row else "",
                f"{changed:+.1%}" if changed else "",
                told(row.get("exposed_communication.mean", 0.0), "s"),
                told(row.get("makespan", 0.0), "s"),
                differs,
            ]
        )
    return table


def _text(rows: list[dict[str, Any]]) -> str:
    cells = _cells(rows)
    widths = [max(len(r[i]) for r in cells) for i in range(len(cells[0]))]
    lines = ["  ".join(c.ljust(w) for c, w in zip(r, widths, strict=True)).rstrip() for r in cells]
    return "\n".join(lines)


def _markdown(rows: list[dict[str, Any]]) -> str:
    head, *body = _cells(rows)
    lines = [head, ["---"] * len(head), *body]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
