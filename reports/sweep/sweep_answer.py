"""The answer of a sweep in sentences: the best point, what it costs, what made no difference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..headline import plainly
from ..numbers import change, digits, format_quantity
from .cost_ladder import capacity
from .feasible_range import bounds
from .sweep_results import Summary, best, metrics, others, settings, short


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


def failures(summary: Summary) -> dict[str, int]:
    """What went wrong, and how often."""
    found: dict[str, int] = {}
    for p in summary["points"]:
        if "error" in p:
            found[p["error"]["message"]] = found.get(p["error"]["message"], 0) + 1
    return found
