"""One self-contained HTML file; its first screen answers the question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...sim.analysis.metrics import step_edges, utilization
from ...sim.result import Result
from ..command_line import command_line
from ..figures import schedule
from ..html import rendered
from ..numbers import NONE, change, digits, format_quantity, is_overall, plus_minus
from .advice import next_steps
from .answer import BLIND, TOKENS, doubts, expected, jitter, lead, limit, outcome, price
from .glossary import WORDS
from .robustness import break_even
from .work_ratio import times_the_work

LEAD = 4  # sentences above the table: those of more variants are its rows
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
    "words",
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
    points: Mapping[str, Point] = summary["points"]
    base = next(iter(points))
    chart, note = _timeline(results[base])
    return rendered(
        "report.html",
        summary,
        question=summary["question"],
        lead=lead(summary)[:LEAD],
        said=_said(summary, run["command"]),
        defend=command_line(run["command"], "--defend"),
        names=list(points),
        variants=[_variant(n, p, points[base]) for n, p in points.items()],
        trust=_trust(summary),
        boxes=schedule.boxes(points),
        differences=_differences(points),
        idle=_idle(points),
        activity=_activity(points),
        blame=schedule.blame(points),
        faster=_faster(points),
        heat=_heat(results[base]),
        timeline=chart,
        timeline_note=note,
        sources=_sources(points[base]),
        facts=_facts(points[base]["facts"]),
        values=_values(summary["provenance"]["values"]),
        no_effect=_no_effect(summary["provenance"]["values"]),
        tried="break_even" in summary["provenance"],
        metrics=_metrics(points),
        words=WORDS,
        priced=TOKENS in points[base]["metrics"],
        sections=sections or SECTIONS,
        elsewhere=ELSEWHERE,
        **{**run, "title": run.get("title") or summary["name"]},
    )


def _said(summary: Mapping[str, Any], command: str) -> list[tuple[str, list[tuple[str, str]]]]:
    """What was found, under the question that it answers."""
    found = {
        "what limits it": [(limit(summary), "")],
        "what is expected": [(text, "") for text in expected(summary)],
        "what to do next": next_steps(summary, command),
        "how sure": [(text, "") for text in doubts(summary)],
    }
    return [(name, told_) for name, told_ in found.items() if told_]


def _variant(name: str, point: Point, base: Point) -> dict[str, Any]:
    value, is_base = point["metrics"]["iteration_time.p50"], point is base
    bounds, change_bounds = value["interval"], point["change"]["interval"]
    return {
        "name": name,
        "value": format_quantity(value["value"], "s"),
        "within": " to ".join(format_quantity(b, "s") for b in bounds) if bounds else "unknown",
        "change": "" if is_base else change(point["change"]["value"]),
        "change_within": "" if is_base or not change_bounds else _between(change_bounds),
        "cost": price(point["metrics"]),
        "outcome": "base" if is_base else _outcome(point, base),
        "missed": [e["that"] for e in point["expect"] if not e["met"]],
    }


def _outcome(point: Point, base: Point) -> str:
    """A longer iteration that does more work is no worse, so that it is not called so."""
    work = times_the_work(point, base)
    return outcome(point) if work == 1.0 else f"{digits(work)}x work"


def _between(bounds: Sequence[float]) -> str:
    """The two ends of a change, where they read differently.

    >>> _between((-0.02, 0.01)), _between((0.0, 1e-9))
    ('-2.0 % to +1.0 %', '')
    """
    low, high = map(change, bounds)
    return f"{low} to {high}" if low != high else ""


def _trust(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What the answer rests on, as far as it is known."""
    provenance = summary["provenance"]
    point = next(iter(summary["points"].values()))
    value = point["metrics"]["iteration_time.p50"]
    inputs = ", ".join(f"{n} {k}" for k, n in sorted(provenance["inputs"].items()))
    held = " and ".join(value["interval_of"]) or "nothing: no distribution is known"
    gaps = point["facts"].get("gap_share")
    found = {
        "calibration": _calibration(provenance["calibration"]),
        "interval": f"{plus_minus(value['value'], value['interval']) or 'unknown'}, holds {held}",
        "jitter": jitter(provenance["jitter"]),
        "op times": _shares(point["sources"]),
        "gaps": ""
        if gaps is None
        else f"{format_quantity(gaps, '')} of the recorded time is unexplained",
        "inputs": inputs or "the trace alone",
        "break-even": break_even(provenance.get("break_even", ())),
        "hardware check": "none was made",
        "replicas, seed": f"{provenance['replicas']}, {provenance['seed']}",
    }
    return [(name, text) for name, text in found.items() if text]


def _calibration(text: str) -> str:
    """``blind`` in plain words."""
    if not text.startswith(BLIND):
        return text
    return f"{BLIND}: never compared with a measurement of it{text.removeprefix(BLIND)}"


def _shares(sources: Mapping[str, float]) -> str:
    """How much of the time of ops is from where: the first word of each source."""
    whole = sum(sources.values()) or 1.0
    kinds: dict[str, float] = {}
    for text, seconds in sources.items():
        kind = text.partition(":")[0]
        kinds[kind] = kinds.get(kind, 0.0) + seconds
    return ", ".join(
        f"{format_quantity(t / whole, '')} {kind}" for kind, t in kinds.items() if t > 0
    )


def _differences(points: Mapping[str, Point]) -> list[dict[str, str]]:
    return [
        {"variant": name, "path": path, "base": a, "value": b}
        for name, p in points.items()
        for path, (a, b) in p["settings"].items()
    ]


def _idle(points: Mapping[str, Point]) -> list[str]:
    """Settings of variants that change no metric at all, unless another variant's does."""
    base, *others = points.values()
    values = [{m: v["value"] for m, v in p["metrics"].items()} for p in (base, *others)]
    same = [p for p, own in zip(others, values[1:], strict=True) if own == values[0]]
    moved = {path for p in others if p not in same for path in p["settings"]}
    return [path for p in same for path in p["settings"] if path not in moved]


def _activity(points: Mapping[str, Point]) -> list[dict[str, Any]]:
    rows = []
    for box, colour in schedule.COLOURS.items():
        cells = [
            format_quantity(p["activity"][box][which], "s")
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
    return schedule.heat(shares, result.makespan) if shares else ""


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
    chart, least = schedule.timeline(result, ranks, window)
    listed = " and ".join(map(str, ranks))
    steps = min(TWO_STEPS, len(edges) - 1)
    which = f"rank {listed}" if len(ranks) == 1 else f"ranks {listed} (the slowest and the median)"
    span = "The only step" if steps == 1 == len(edges) - 1 else f"The first {steps} steps"
    return (
        chart,
        f"{span} of {which}; bars less than {format_quantity(least, 's')} apart are drawn as one.",
    )


def _sources(point: Point) -> list[dict[str, str]]:
    whole = sum(point["sources"].values()) or 1.0
    return [
        {"text": text, "time": format_quantity(t, "s"), "share": format_quantity(t / whole, "")}
        for text, t in point["sources"].items()
    ]


def _facts(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(name.replace("_", " "), _fact(name, v)) for name, v in facts.items()]


def _fact(name: str, value: Any) -> str:
    if name.endswith("share"):
        return format_quantity(value, "")
    return f"{value:,}" if isinstance(value, int) else str(value)


ORDER = ("assumed", "datasheet", "fitted", "measured")


def _values(values: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Those that change the answer most first; without trials, the least certain first."""
    ordered = sorted(
        values, key=lambda v: (-abs(v.get("effect") or 0.0), ORDER.index(v["kind"]), v["path"])
    )
    return [{**v, "effect": _effect(v)} for v in ordered]


def _effect(value: Mapping[str, Any]) -> str:
    """What it does if it is 10 % off; "" where that was not tried."""
    effect = value.get("effect")
    return "" if effect is None else change(effect)


def _no_effect(values: Sequence[Mapping[str, Any]]) -> list[str]:
    """Settings that change nothing if they are 10 % off."""
    return [v["path"] for v in values if v.get("effect") is not None and _effect(v) == NONE]


def _metrics(points: Mapping[str, Point]) -> list[dict[str, Any]]:
    names = dict.fromkeys(m for p in points.values() for m in p["metrics"])
    kept = [m for m in names if is_overall(m)]
    rows = []
    for name in kept:
        found = [p["metrics"].get(name) for p in points.values()]
        rows.append(
            {
                "name": name,
                "cells": [format_quantity(v["value"], v["unit"]) if v else "" for v in found],
            }
        )
    return rows
