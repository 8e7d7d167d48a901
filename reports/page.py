"""One self-contained HTML file; its first screen answers the question."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from ..sim.metrics import step_edges, utilization
from ..sim.result import Result
from . import figures
from .answer import jitter, outcome, sentences
from .numbers import change, plus_minus, told

LEAD = 3  # sentences above the table; the others are below it, beside how far to trust it
TWO_STEPS = 2
SECTIONS = (
    "answer",
    "compare",
    "where_time_goes",
    "blame",
    "bottlenecks",
    "timeline",
    "assumptions",
    "metrics",
    "reproduce",
)  # of the report of a run, in this order
SWEEPS, CHECKS = "'foretrace sweep' writes it", "'foretrace hil check' writes it"
ELSEWHERE = {
    "pareto": SWEEPS, "sensitivity": SWEEPS, "capacity": SWEEPS,
    "accuracy": CHECKS, "error_by_size": CHECKS, "timeline_overlay": CHECKS, "drift": CHECKS,
}  # fmt: skip
Point = Mapping[str, Any]


def write_report(
    path: Path,
    summary: Mapping[str, Any],
    results: Mapping[str, Result],
    run: Mapping[str, str],
    sections: Sequence[str] = (),
) -> None:
    """Write the report of a study.

    Parameters
    ----------
    summary : as in ``summary.json``
    results : the run of each variant
    run : ``resolved`` (text of the resolved scenario), ``command``, ``run`` (its name), ``title``
    sections : what to show, in this order; all of :data:`SECTIONS` unless said
    """
    path.write_text(page(summary, results, run, sections), encoding="utf-8")


def page(
    summary: Mapping[str, Any],
    results: Mapping[str, Result],
    run: Mapping[str, str],
    sections: Sequence[str] = (),
) -> str:
    """The report as text."""
    import jinja2
    from markupsafe import Markup

    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, keep_trailing_newline=True
    )
    folder = files(__package__) / "templates"
    template = environment.from_string((folder / "report.html").read_text(encoding="utf-8"))
    points: Mapping[str, Point] = summary["points"]
    base = next(iter(points))
    chart, note = _timeline(results[base])
    return template.render(
        style=Markup((folder / "report.css").read_text(encoding="utf-8")),
        question=summary["question"],
        answer=sentences(summary),
        lead=min(LEAD, len(points)),
        names=list(points),
        variants=[_variant(n, p, n == base) for n, p in points.items()],
        trust=_trust(summary),
        boxes=figures.boxes(points),
        differences=_differences(points),
        activity=_activity(points),
        blame=figures.blame(points),
        faster=_faster(points),
        heat=_heat(results[base]),
        timeline=chart,
        timeline_note=note,
        sources=_sources(points[base]),
        facts=_facts(points[base]["facts"]),
        values=_values(summary["provenance"]["values"]),
        metrics=_metrics(points),
        data=_embedded(summary),
        sections=sections or SECTIONS,
        elsewhere=ELSEWHERE,
        **{**run, "title": run.get("title") or summary["name"]},
    )


def _embedded(summary: Mapping[str, Any]) -> str:
    """The summary as JSON that cannot end its script element."""
    return json.dumps(summary).replace("<", "\\u003c")


def _variant(name: str, point: Point, is_base: bool) -> dict[str, str]:
    value = point["metrics"]["iteration_time.p50"]
    bounds = value["interval"]
    missed = [e["that"] for e in point["expect"] if not e["met"]]
    return {
        "name": name,
        "value": told(value["value"], "s"),
        "within": " to ".join(told(b, "s") for b in bounds) if bounds else "unknown",
        "change": "" if is_base else change(point["change"]["value"]),
        "outcome": "base" if is_base else outcome(point),
        "missed": "; ".join(missed),
    }


def _trust(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    provenance = summary["provenance"]
    point = next(iter(summary["points"].values()))
    value = point["metrics"]["iteration_time.p50"]
    inputs = ", ".join(f"{n} {k}" for k, n in sorted(provenance["inputs"].items()))
    held = ", ".join(value["interval_of"]) or "nothing: no distribution is known"
    found = [
        ("calibration", provenance["calibration"]),
        ("interval", f"{plus_minus(value['value'], value['interval']) or 'unknown'}, holds {held}"),
        ("jitter", jitter(provenance["jitter"])),
        ("inputs", inputs or "the trace alone"),
        ("hardware check", "none was made"),
        ("replicas, seed", f"{provenance['replicas']}, {provenance['seed']}"),
    ]
    facts = point["facts"]
    if "gap_share" in facts:
        found.insert(
            4, ("gaps", f"{told(facts['gap_share'], '')} of the recorded time is unexplained")
        )
    return found


def _differences(points: Mapping[str, Point]) -> list[dict[str, str]]:
    return [
        {"variant": name, "path": path, "base": a, "value": b}
        for name, p in points.items()
        for path, (a, b) in p["settings"].items()
    ]


def _activity(points: Mapping[str, Point]) -> list[dict[str, Any]]:
    rows = []
    for box, colour in figures.COLOURS.items():
        cells = [
            told(p["activity"][box][which], "s")
            for p in points.values()
            for which in ("mean", "worst")
        ]
        rows.append({"box": box.replace("_", " "), "colour": colour, "cells": cells})
    return rows


def _faster(points: Mapping[str, Point]) -> list[dict[str, Any]]:
    groups = dict.fromkeys(c["group"] for p in points.values() for c in p["faster"])
    rows = []
    for group in groups:
        cells = []
        for p in points.values():
            found = next((c for c in p["faster"] if c["group"] == group), None)
            cells += [change(found["gain"]), change(found["bound"])] if found else ["", ""]
        rows.append({"group": group, "cells": cells})
    return rows


def _heat(result: Result) -> str:
    kinds = {c.kind for c in result.system.components}
    shares = {n: s.tolist() for n, s in utilization(result).items() if n not in kinds}
    return figures.heat(shares, result.makespan) if shares else ""


def _timeline(result: Result) -> tuple[str, str]:
    """The slowest and the median rank over the first two steps."""
    result = result.detail  # a timeline needs a row an op
    edges = step_edges(result)
    window = int(edges[0]), int(edges[min(TWO_STEPS, len(edges) - 1)])
    ended = result.columns.end >= 0
    last = np.zeros(int(result.ops.rank.max(initial=0)) + 1, np.int64)
    np.maximum.at(last, result.ops.rank[ended], result.columns.end[ended])
    order = np.argsort(last, kind="stable")
    ranks = sorted({int(order[-1]), int(order[len(order) // 2])})
    chart, least = figures.timeline(result, ranks, window)
    listed = " and ".join(map(str, ranks))
    steps = min(TWO_STEPS, len(edges) - 1)
    which = f"rank {listed}" if len(ranks) == 1 else f"ranks {listed} (the slowest and the median)"
    span = "The only step" if steps == 1 == len(edges) - 1 else f"The first {steps} steps"
    return chart, f"{span} of {which}; bars less than {told(least, 's')} apart are drawn as one."


def _sources(point: Point) -> list[dict[str, str]]:
    whole = sum(point["sources"].values()) or 1.0
    return [
        {"text": text, "time": told(t, "s"), "share": told(t / whole, "")}
        for text, t in point["sources"].items()
    ]


def _facts(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(name.replace("_", " "), _fact(name, v)) for name, v in facts.items()]


def _fact(name: str, value: Any) -> str:
    if name.endswith("share"):
        return told(value, "")
    return f"{value:,}" if isinstance(value, int) else str(value)


ORDER = ("assumed", "datasheet", "fitted", "measured")


def _values(values: list[Mapping[str, str]]) -> list[Mapping[str, str]]:
    """The least certain first."""
    return sorted(values, key=lambda v: (ORDER.index(v["kind"]), v["path"]))


def _metrics(points: Mapping[str, Point]) -> list[dict[str, Any]]:
    names = dict.fromkeys(m for p in points.values() for m in p["metrics"])
    kept = [m for m in names if "." not in m.removesuffix(".p50").removesuffix(".p95")
            .removesuffix(".mean").removesuffix(".utilization")]  # fmt: skip
    rows = []
    for name in kept:
        found = [p["metrics"].get(name) for p in points.values()]
        rows.append(
            {"name": name, "cells": [told(v["value"], v["unit"]) if v else "" for v in found]}
        )
    return rows
