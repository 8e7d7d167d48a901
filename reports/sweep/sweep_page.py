"""The report of a sweep: the front, what was tried, and what made no difference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..html import rendered
from ..numbers import change, digits, format_quantity
from .cost_ladder import HOURLY, beside, capacity, ladder, wanted
from .cost_ladder import rows as rungs
from .feasible_range import bounds
from .pareto import effects, scatter
from .pareto import ladder as ladder_figure
from .sweep_advice import next_steps
from .sweep_results import Summary, best, metrics, others, plainly, settings, short

MOST_ROWS = 500
BEST_ROWS = 8
SECTIONS = ("answer", "capacity", "pareto", "sensitivity", "points", "failures", "reproduce")


def sentences(summary: Summary) -> list[str]:
    """What a reader should know first, a sentence each."""
    return [*lead(summary), *capacity(summary), *judged(summary), *idle(summary)]


def lead(summary: Summary) -> list[str]:
    """The answer: the best point, how far its setting can go, how many others nothing beats."""
    counts, front = summary["counts"], best(summary)
    found = [_first(summary, front), *bounds(summary)]
    if len(metrics(summary)) > 1 and len(front) > 1:
        names = " against ".join(plainly(m) for _, m, _ in metrics(summary))
        found.append(f"{len(front)} of {counts['points']} points are on the front of {names}.")
    return found


def judged(summary: Summary) -> list[str]:
    """How many points do not count."""
    counts, found = summary["counts"], []
    if summary["expect"]:
        found.append(
            f"{counts['missed']} of {_many(counts['points'])} "
            f"miss{'es' * (counts['points'] == 1)} what is expected."
        )
    if counts["failed"]:
        found.append(f"{_many(counts['failed'])} failed, of which nothing is known.")
    return found


def idle(summary: Summary) -> list[str]:
    """Settings that made no difference."""
    return [f"No effect: {', '.join(summary['no_effect'])}."] if summary["no_effect"] else []


def limit(summary: Summary) -> list[str]:
    """What moves the first metric most, where only it differs; what moves it least."""
    _, metric, _ = metrics(summary)[0]
    moved = sorted(moves(summary, metric).items(), key=lambda item: -item[1])
    told_ = [f"{short(k, summary['vary'])} by up to {digits(100 * m)} %" for k, m in moved]
    return [f"What moves {plainly(metric)}: {', '.join(told_)}."] if told_ else []


def moves(summary: Summary, metric: str) -> dict[str, float]:
    """Largest relative spread of a metric among points that differ in one setting only.

    A setting that never differs alone, as in a search, is left out.
    """
    found: dict[str, float] = {}
    for setting in summary["vary"]:
        alike: dict[str, list[float]] = {}
        for p in summary["points"]:
            if metric in p.get("values", {}):
                alike.setdefault(others(p, setting), []).append(p["values"][metric])
        spread = [max(g) / min(g) - 1 for g in alike.values() if len(g) > 1 and min(g) > 0]
        if spread:
            found[setting] = max(spread)
    return found


def _many(count: int) -> str:
    """Points, counted.

    >>> _many(1), _many(12)
    ('1 point', '12 points')
    """
    return f"{count} point{'s' * (count != 1)}"


def _first(summary: Summary, front: list[Mapping[str, Any]]) -> str:
    counts = summary["counts"]
    if not front:
        why = "meets what is expected" if counts["failed"] < counts["points"] else "finished"
        return f"None of {_many(counts['points'])} {why}."
    way, metric, unit = metrics(summary)[0]
    least = "smallest" if way == "minimize" else "largest"
    point = front[0]
    was = summary["base"].get("values", {}).get(metric)
    text = (
        f"The {least} {plainly(metric)} of {_many(counts['points'])} is "
        f"{format_quantity(point['values'][metric], unit)}, with {settings(point, summary)}"
    )
    if was:
        text += f"; {_described(summary, was, point['values'][metric] / was - 1, unit)}"
    return f"{text}."


def _described(summary: Summary, was: float, by: float, unit: str) -> str:
    """What it is without any of it; no yardstick where that misses what is expected."""
    if missed := summary["base"]["missed"]:
        return f"as described it is {format_quantity(was, unit)}, but misses {'; '.join(missed)}"
    return f"as described it is {format_quantity(was, unit)} ({change(by)})"


def write_sweep(
    path: Path, summary: Summary, run: Mapping[str, str], sections: Sequence[str] = ()
) -> None:
    """Write the report of a sweep.

    Parameters
    ----------
    path : the file
    summary : as in ``summary.json``
    run : ``resolved``, ``command``, ``run`` and ``title``, as for a run; ``file`` of the scenario
    sections : what to show, in this order; all of :data:`SECTIONS` unless said
    """
    path.write_text(page(summary, run, sections), encoding="utf-8")


def page(summary: Summary, run: Mapping[str, str], sections: Sequence[str] = ()) -> str:
    """The report as text; the points, and what failed, are in any."""
    wanted_ = [*sections, *(s for s in ("points", "failures") if sections)] or SECTIONS
    rows = _rows(summary)
    return rendered(
        "sweep.html",
        {**summary, "points": summary["points"][:MOST_ROWS]},
        question=summary["question"],
        lead=lead(summary),
        said=_said(summary, run),
        head=[plainly(m) for _, m, _ in metrics(summary)],
        settings=list(summary["vary"]),
        shorts=[short(paths, summary["vary"]) for paths in summary["vary"]],
        best=[_cells(summary, p) for p in best(summary)[:BEST_ROWS]],
        base=_cells(summary, summary["base"]) if "values" in summary["base"] else None,
        trust=_trust(summary),
        front=_front(summary),
        capacity=rungs(summary),
        bought=[plainly(wanted(summary)[1]), *(name for name, _, _ in beside(summary))],
        ladder=_ladder(summary),
        effects=_effects(summary),
        no_effect=summary["no_effect"],
        rows=rows,
        left_out=len(summary["points"]) - len(rows),
        failures=failures(summary),
        sections=wanted_,
        **{**run, "title": run.get("title") or summary["name"]},
    )


def _said(summary: Summary, run: Mapping[str, str]) -> list[tuple[str, list[tuple[str, str]]]]:
    """What was found, under the question that it answers."""
    found = {
        "what limits it": [(text, "") for text in (*limit(summary), *idle(summary))],
        "what it costs": [(text, "") for text in capacity(summary)],
        "what is expected": [(text, "") for text in judged(summary)],
        "what to do next": next_steps(summary, run),
    }
    return [(name, told_) for name, told_ in found.items() if told_]


def failures(summary: Summary) -> dict[str, int]:
    """What went wrong, and how often."""
    found: dict[str, int] = {}
    for p in summary["points"]:
        if "error" in p:
            found[p["error"]["message"]] = found.get(p["error"]["message"], 0) + 1
    return found


def _rows(summary: Summary) -> list[dict[str, Any]]:
    """The front first, then the others, best first; those that failed last."""
    way, metric, _ = metrics(summary)[0]
    sign = 1 if way == "minimize" else -1
    whole = [p for p in summary["points"] if metric in p.get("values", {})]
    whole.sort(key=lambda p: (not p["front"], bool(p["missed"]), sign * p["values"][metric]))
    rest = [p for p in summary["points"] if metric not in p.get("values", {})]
    return [_cells(summary, p) for p in [*whole, *rest][:MOST_ROWS]]


def _cells(summary: Summary, point: Mapping[str, Any]) -> dict[str, Any]:
    values, base = point.get("values", {}), summary["base"].get("values", {})
    first = metrics(summary)[0][1]
    changed = ""
    if point["set"] and base.get(first) and first in values:
        changed = change(values[first] / base[first] - 1)
    return {
        "set": [str(point["set"].get(paths, "")) for paths in summary["vary"]],
        "values": [
            format_quantity(values.get(m), u) if values else "" for _, m, u in metrics(summary)
        ],
        "within": _within(summary, point),
        "change": changed,
        "missed": "; ".join(point.get("missed", ())),
        "front": point.get("front", False),
        "error": point.get("error", {}).get("message", ""),
    }


def _within(summary: Summary, point: Mapping[str, Any]) -> str:
    _, metric, unit = metrics(summary)[0]
    bounds = point.get("intervals", {}).get(metric)
    return " to ".join(format_quantity(b, unit) for b in bounds) if bounds else "unknown"


def _trust(summary: Summary) -> list[tuple[str, str]]:
    counts, method = summary["counts"], summary["method"]
    return [
        ("interval", _sure(summary)),
        ("points", f"{counts['points']} different ones of {counts['asked']} asked for"),
        ("chosen by", method["sampler"]),
        ("seed", str(method["seed"])),
        ("failed", str(counts["failed"])),
        ("hardware check", "none was made"),
    ]


def _sure(summary: Summary) -> str:
    """What is known of the error of the best point."""
    front = best(summary)
    bounds = _within(summary, front[0]) if front else "unknown"
    if bounds == "unknown":
        return "unknown: it takes ten replicas"
    return f"{bounds} for the best point: jitter of its replicas alone, no model's error"


def _front(summary: Summary) -> str:
    wanted = [(m, u) for _, m, u in metrics(summary)]
    if len(wanted) < 2:
        return ""
    return scatter(summary["points"], (wanted[0], wanted[1]), summary["base"])


def _ladder(summary: Summary) -> str:
    found = [r.point for r in ladder(summary)]
    if len(found) < 2:
        return ""
    _, metric, unit = wanted(summary)
    limits = [e["limit"] for e in summary["expect"] if e["metric"] == metric]
    return ladder_figure(summary["points"], found, ((HOURLY, "USD"), (metric, unit)), limits)


def _effects(summary: Summary) -> str:
    whole = [p for p in summary["points"] if "error" not in p]
    _, metric, unit = metrics(summary)[0]
    return effects(whole, list(summary["vary"]), metric, unit) if whole else ""
