"""The report of a sweep: the front, what was tried, and what made no difference."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .front import effects, scatter
from .html import rendered
from .numbers import change, digits, told

Summary = Mapping[str, Any]
MOST_ROWS = 500
BEST_ROWS = 8
LEAST = 5e-4  # a relative change below it is none


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
    return [*lead(summary), *judged(summary), *idle(summary)]


def lead(summary: Summary) -> list[str]:
    """The answer: the best point, and how many others nothing beats."""
    counts, front = summary["counts"], best(summary)
    found = [_first(summary, front)]
    if len(metrics(summary)) > 1 and len(front) > 1:
        names = " against ".join(plainly(m) for _, m, _ in metrics(summary))
        found.append(f"{len(front)} of {counts['points']} points are on the front of {names}.")
    return found


def judged(summary: Summary) -> list[str]:
    """How many points do not count."""
    counts, found = summary["counts"], []
    if summary["expect"]:
        found.append(
            f"{counts['missed']} of {counts['points']} points miss what is expected of them."
        )
    if counts["failed"]:
        found.append(f"{counts['failed']} points failed and say nothing.")
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


def plainly(metric: str) -> str:
    """A metric in words.

    >>> plainly("iteration_time.p50")
    'iteration time p50'
    """
    return metric.replace("_", " ").replace(".", " ")


def moves(summary: Summary, metric: str) -> dict[str, float]:
    """Largest relative spread of a metric among points that differ in one setting only.

    A setting that never differs alone, as in a search, is left out.
    """
    found: dict[str, float] = {}
    for setting in summary["vary"]:
        alike: dict[str, list[float]] = {}
        for p in summary["points"]:
            if metric in p.get("values", {}):
                alike.setdefault(_others(p, setting), []).append(p["values"][metric])
        spread = [max(g) / min(g) - 1 for g in alike.values() if len(g) > 1 and min(g) > 0]
        if spread:
            found[setting] = max(spread)
    return found


def _others(point: Mapping[str, Any], setting: str) -> str:
    """All that a point sets beside one setting."""
    return repr([(k, v) for k, v in point["set"].items() if k != setting])


def next_steps(summary: Summary, file: str) -> list[tuple[str, str]]:
    """What to do with it, each with a command to type."""
    front, steps = best(summary), []
    if front:
        command = " ".join(["foretrace", "run", file, *_set(front[0]["set"])])
        steps.append(("See why the best point takes what it does:", command))
        steps += [(text, "") for text in _at_the_end(front[0], summary)]
        if metrics(summary)[0][1] not in front[0].get("intervals", {}):
            again = f"foretrace sweep {file} --set run.replicas=10"
            steps.append(("Ask how sure it is: no interval holds jitter yet.", again))
    elif summary["counts"]["failed"]:
        steps.append(("Mend what failed, below.", ""))
    else:
        steps.append(("Nothing meets what is expected: ask less, or vary more.", ""))
    return steps


def _set(settings: Mapping[str, Any]) -> list[str]:
    """Options that set what a point sets."""
    found = []
    for paths, value in settings.items():
        names = [path.strip() for path in paths.split(",")]
        values = value if isinstance(value, list) else [value] * len(names)
        found += [f"--set {shlex.quote(f'{n}={v}')}" for n, v in zip(names, values, strict=True)]
    return found


def _at_the_end(point: Mapping[str, Any], summary: Summary) -> list[str]:
    """Settings whose best value is the last that was tried, and alone the best."""
    found = []
    for paths, tried in summary["vary"].items():
        value = point["set"].get(paths)
        ends = tried[:: len(tried) - 1] if isinstance(tried, list) and len(tried) > 2 else []
        if value in ends and value not in (0, 1) and _alone(point, paths, summary):
            name = short(paths, summary["vary"])
            found.append(f"{name} = {value} is the end of what was tried: try beyond it.")
    return found


def _alone(point: Mapping[str, Any], paths: str, summary: Summary) -> bool:
    """Is any other value of a setting worse, all else the same."""
    _, metric, _ = metrics(summary)[0]
    own = point["values"][metric]
    same = [p for p in summary["points"] if _others(p, paths) == _others(point, paths)]
    others = [p["values"][metric] for p in same if p is not point and metric in p.get("values", {})]
    return all(abs(other / own - 1) >= LEAST for other in others)


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
        f"The {least} {plainly(metric)} of {counts['points']} points is "
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
    run : ``resolved``, ``command``, ``run`` and ``title``, as for a run; ``file`` of the scenario
    """
    path.write_text(page(summary, run), encoding="utf-8")


def page(summary: Summary, run: Mapping[str, str]) -> str:
    """The report as text."""
    rows = _rows(summary)
    return rendered(
        "sweep.html",
        {**summary, "points": summary["points"][:MOST_ROWS]},
        question=summary["question"],
        lead=lead(summary),
        said=_said(summary, run["file"]),
        head=[plainly(m) for _, m, _ in metrics(summary)],
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
        **{**run, "title": run.get("title") or summary["name"]},
    )


def _said(summary: Summary, file: str) -> list[tuple[str, list[tuple[str, str]]]]:
    """What was found, under the question that it answers."""
    found = {
        "what limits it": [(text, "") for text in (*limit(summary), *idle(summary))],
        "what is expected": [(text, "") for text in judged(summary)],
        "what to do next": next_steps(summary, file),
    }
    return [(name, told_) for name, told_ in found.items() if told_]


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
        ("interval", "jitter of the points' replicas alone, where there are ten or more"),
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
