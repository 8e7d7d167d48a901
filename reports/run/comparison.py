"""The report of a comparison: what was told differently, what came out differently, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..figures import schedule
from ..html import rendered
from ..numbers import change, format_quantity, is_overall
from .answer import outcome

LEAST = 5e-4  # a relative change below it is none
LEAD = 4
HEADLINE = "iteration_time.p50"
Row = Mapping[str, Any]


def write_compare(path: Path, rows: Sequence[Row], told: Mapping[str, Any]) -> None:
    """Write the report of a comparison.

    Parameters
    ----------
    rows : of each run, the first the base: ``name``, ``values`` and ``changes`` (by metric),
        ``interval`` (of the headline's change), ``settings``, ``activity``, ``why``,
        ``limit``, and ``see``, a command that shows it
    told : ``title``, ``command``, ``no_effect``, and ``units`` by metric
    """
    path.write_text(page(rows, told), encoding="utf-8")


def page(rows: Sequence[Row], told: Mapping[str, Any]) -> str:
    """The report as text."""
    names = _differing(rows)
    every = {m for r in rows for m in r["values"] if is_overall(m)}
    boxes = {r["name"]: {"activity": {b: {"mean": t} for b, t in r["activity"].items()}}
             for r in rows}  # fmt: skip
    return rendered(
        "compare.html",
        {"rows": rows, "no_effect": told["no_effect"]},
        title=told["title"],
        question="What differs, by how much, and why?",
        lead=[_lead(r, rows[0]) for r in rows[1 : LEAD + 1]],
        said=_said(rows),
        trust=_trust(rows),
        head=["run", "iteration p50", "change", "90 % within"],
        rows=[_row(r, r is rows[0]) for r in rows],
        boxes=schedule.boxes(boxes),
        differences=[
            {"run": r["name"], "path": path, "base": a, "value": b}
            for r in rows[1:]
            for path, (a, b) in r["settings"].items()
        ],
        metrics=[_metric(m, rows, told["units"]) for m in names],
        same=len(every) - len(names),
        no_effect=told["no_effect"],
        command=told["command"],
    )


def _differing(rows: Sequence[Row]) -> list[str]:
    """Metrics that differ in some run, those of kinds and of the whole first."""
    every = dict.fromkeys(m for r in rows[1:] for m in r["changes"] if is_overall(m))
    moved = [m for m in every if any(abs(r["changes"].get(m, 0.0)) >= LEAST for r in rows[1:])]
    return sorted(moved, key=lambda m: (m != HEADLINE, m.count("."), m))


def _judged(row: Row) -> str:
    return outcome({"change": {"value": row["changes"][HEADLINE], "interval": row["interval"]}})


def _lead(row: Row, base: Row) -> str:
    ratio = row["changes"][HEADLINE]
    words = {
        "better": f"{row['name']} is {-100 * ratio:.1f} % quicker than {base['name']}",
        "worse": f"{row['name']} is {100 * ratio:.1f} % slower than {base['name']}",
        "same": f"{row['name']} is as quick as {base['name']}",
        "cannot tell": f"{row['name']}: cannot tell, {change(ratio)} is within the interval",
    }
    was, is_ = (format_quantity(r["values"][HEADLINE], "s") for r in (base, row))
    return f"{words[_judged(row)]}: an iteration takes {is_}, there {was}."


def _said(rows: Sequence[Row]) -> list[tuple[str, list[tuple[str, str]]]]:
    """Why, and what to do next."""
    found = {
        "why": [(f"{r['name']}: {r['why']}.", "") for r in rows[1:] if r["why"]],
        "what limits it": [(f"{r['name']}: {r['limit']}.", "") for r in rows if r["limit"]],
        "what to do next": _next(rows),
    }
    return [(name, items) for name, items in found.items() if items]


def _next(rows: Sequence[Row]) -> list[tuple[str, str]]:
    """How to be surer of a difference, and what to decide by."""
    steps = []
    if any(r["interval"] is None for r in rows[1:]):
        steps.append(
            ("Nothing pairs these runs: put the changes into what_if of one scenario with replicas "
             "of 10 or more, and their difference has an interval.", "")
        )  # fmt: skip
    unsure = [r for r in rows[1:] if _judged(r) == "cannot tell"]
    steps += [(f"Measure what {r['name']} differs in: {', '.join(r['settings'])}.", "")
              for r in unsure]  # fmt: skip
    best = min(rows, key=lambda r: r["values"][HEADLINE])
    if not unsure and best is not rows[0]:
        steps.append((f"{best['name']} is the quickest; see what limits it:",
                      best["see"]))  # fmt: skip
    return steps


def _trust(rows: Sequence[Row]) -> list[tuple[str, str]]:
    held = {r["name"]: r["interval"] is not None for r in rows[1:]}
    paired = [name for name, good in held.items() if good]
    return [
        ("runs", str(len(rows))),
        ("paired", ", ".join(paired) or "none: their replicas are not of the same draws"),
        ("interval", "90 %, of the change" if paired else "unknown"),
        ("settings", f"{len({p for r in rows[1:] for p in r['settings']})} differ"),
    ]


def _row(row: Row, is_base: bool) -> dict[str, Any]:
    bounds = row["interval"]
    return {
        "cells": [
            row["name"],
            format_quantity(row["values"][HEADLINE], "s"),
            "" if is_base else change(row["changes"][HEADLINE]),
            "" if is_base else " to ".join(map(change, bounds)) if bounds else "unknown",
        ],
        "outcome": "base" if is_base else _judged(row),
    }


def _metric(name: str, rows: Sequence[Row], units: Mapping[str, str]) -> dict[str, Any]:
    cells = []
    for r in rows:
        changed = r["changes"].get(name, 0.0)
        shown = change(changed) if r is not rows[0] and abs(changed) >= LEAST else ""
        cells.append((format_quantity(r["values"].get(name), units[name]), shown))
    return {"name": name, "cells": cells}
