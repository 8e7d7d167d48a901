"""The report of a sweep: the front, what was tried, and what made no difference."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from .front import effects, scatter
from .numbers import change, told

Summary = Mapping[str, Any]
MOST_ROWS = 500
BEST_ROWS = 8


def metrics(summary: Summary) -> list[tuple[str, str, str]]:
    """What is wanted: direction, metric, unit."""
    return [(way, o[way], o["unit"]) for o in summary["optimize"] for way in o if way != "unit"]


def best(summary: Summary) -> list[Mapping[str, Any]]:
    """The points that no other beats, the best in the first metric first."""
    way, metric, _ = metrics(summary)[0]
    found = [p for p in summary["points"] if p.get("front")]
    return sorted(found, key=lambda p: p["values"][metric] * (1 if way == "minimize" else -1))


def sentences(summary: Summary) -> list[str]:
    """What a reader should know first, a sentence each."""
    counts, front = summary["counts"], best(summary)
    found = [_first(summary, front)]
    if len(metrics(summary)) > 1 and len(front) > 1:
        names = " against ".join(m.replace("_", " ") for _, m, _ in metrics(summary))
        found.append(f"{len(front)} of {counts['points']} points are on the front of {names}.")
    missed = counts["missed"]
    if summary["expect"]:
        found.append(f"{missed} of {counts['points']} points miss what is expected of them.")
    if counts["failed"]:
        found.append(f"{counts['failed']} points failed and say nothing.")
    if summary["no_effect"]:
        found.append(f"No effect: {', '.join(summary['no_effect'])}.")
    return found


def _first(summary: Summary, front: list[Mapping[str, Any]]) -> str:
    counts = summary["counts"]
    if not front:
        why = "meets what is expected" if counts["failed"] < counts["points"] else "finished"
        return f"None of {counts['points']} points {why}."
    way, metric, unit = metrics(summary)[0]
    least = "smallest" if way == "minimize" else "largest"
    point = front[0]
    was = summary["base"].get("values", {}).get(metric)
    text = (
        f"The {least} {metric.replace('_', ' ')} of {counts['points']} points is "
        f"{told(point['values'][metric], unit)}, with {settings(point, summary)}"
    )
    if was:
        changed = change(point["values"][metric] / was - 1)
        text += f"; as described it is {told(was, unit)} ({changed})"
    return f"{text}."


def settings(point: Mapping[str, Any], summary: Summary) -> str:
    """What a point sets, in words."""
    return ", ".join(f"{short(k, summary['vary'])} = {v}" for k, v in point["set"].items())


def write_sweep(path: Path, summary: Summary, run: Mapping[str, str]) -> None:
    """Write the report of a sweep.

    Parameters
    ----------
    path : the file
    summary : as in ``summary.json``
    run : ``resolved``, ``command``, ``run`` and ``title``, as for a run
    """
    path.write_text(page(summary, run), encoding="utf-8")


def page(summary: Summary, run: Mapping[str, str]) -> str:
    """The report as text."""
    import jinja2
    from markupsafe import Markup

    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, keep_trailing_newline=True
    )
    folder = files(__package__) / "templates"
    template = environment.from_string((folder / "sweep.html").read_text(encoding="utf-8"))
    rows = _rows(summary)
    return template.render(
        style=Markup((folder / "report.css").read_text(encoding="utf-8")),
        question=summary["question"],
        answer=sentences(summary),
        head=[m.replace("_", " ") for _, m, _ in metrics(summary)],
        settings=list(summary["vary"]),
        shorts=[short(paths, summary["vary"]) for paths in summary["vary"]],
        best=[_cells(summary, p) for p in best(summary)[:BEST_ROWS]],
        base=_cells(summary, summary["base"]) if "values" in summary["base"] else None,
        trust=_trust(summary),
        front=_front(summary),
        effects=_effects(summary),
        no_effect=summary["no_effect"],
        rows=rows,
        left_out=len(summary["points"]) - len(rows),
        failures=failures(summary),
        data=json.dumps({**summary, "points": summary["points"][:MOST_ROWS]}).replace(
            "<", "\\u003c"
        ),
        **{**run, "title": run.get("title") or summary["name"]},
    )


def failures(summary: Summary) -> dict[str, int]:
    """What went wrong, and how often."""
    found: dict[str, int] = {}
    for p in summary["points"]:
        if "error" in p:
            found[p["error"]["message"]] = found.get(p["error"]["message"], 0) + 1
    return found


def short(paths: str, others: Any) -> str:
    """The last words of a setting that tell it from the others.

    >>> short("cluster.node.nic.bandwidth", ["cluster.node.nic.bandwidth", "cluster.nodes"])
    'bandwidth'
    """
    words = paths.partition(",")[0].split(".")
    for count in range(1, len(words)):
        end = ".".join(words[-count:])
        if sum(f".{p.partition(',')[0]}".endswith(f".{end}") for p in others) == 1:
            return end
    return paths


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
        "values": [told(values.get(m), u) if values else "" for _, m, u in metrics(summary)],
        "within": _within(summary, point),
        "change": changed,
        "missed": "; ".join(point.get("missed", ())),
        "front": point.get("front", False),
        "error": point.get("error", {}).get("message", ""),
    }


def _within(summary: Summary, point: Mapping[str, Any]) -> str:
    _, metric, unit = metrics(summary)[0]
    bounds = point.get("intervals", {}).get(metric)
    return " to ".join(told(b, unit) for b in bounds) if bounds else "unknown"


def _trust(summary: Summary) -> list[tuple[str, str]]:
    counts, method = summary["counts"], summary["method"]
    return [
        ("points", f"{counts['points']} different ones of {counts['asked']} asked for"),
        ("chosen by", method["sampler"]),
        ("seed", str(method["seed"])),
        ("failed", str(counts["failed"])),
        ("interval", "jitter of the points' replicas alone, where there are five or more"),
        ("hardware check", "none was made"),
    ]


def _front(summary: Summary) -> str:
    wanted = [(m, u) for _, m, u in metrics(summary)]
    if len(wanted) < 2:
        return ""
    return scatter(summary["points"], (wanted[0], wanted[1]), summary["base"])


def _effects(summary: Summary) -> str:
    whole = [p for p in summary["points"] if "error" not in p]
    _, metric, unit = metrics(summary)[0]
    return effects(whole, list(summary["vary"]), metric, unit) if whole else ""
