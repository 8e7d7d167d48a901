"""Answer sentences of a sweep: the best point, its cost, and settings without effect."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from ..numbers import format_change, format_quantity, three_digits
from ..texts.headline import metric_in_words
from .cost_ladder import cost_sentences
from .feasible_range import feasible_range_text
from .ranking_sentences import ranking_sentences
from .sweep_results import (
    Summary,
    front_points,
    other_settings_key,
    setting_name,
    settings_text,
    sweep_goals,
)


def answer_sentences(summary: Summary) -> list[str]:
    """Answer sentences of a sweep, most important first."""
    return [
        *lead_sentences(summary),
        *cost_sentences(summary),
        *rejected_points_text(summary),
        *settings_without_effect(summary),
    ]


def lead_sentences(summary: Summary) -> list[str]:
    """Leading sentences: the best point, the feasible range, and the size of the Pareto front."""
    counts, front = summary["counts"], front_points(summary)
    lines = [
        _front_sentence(summary, front),
        *ranking_sentences(summary),
        *feasible_range_text(summary),
    ]
    if len(sweep_goals(summary)) > 1 and len(front) > 1:
        names = " against ".join(metric_in_words(m) for _, m, _ in sweep_goals(summary))
        lines.append(f"{len(front)} of {counts['points']} points are on the front of {names}.")
    return lines


def rejected_points_text(summary: Summary) -> list[str]:
    """Sentences with the number of points that failed, are refused or miss expectations."""
    counts, lines = summary["counts"], []
    if summary["expect"]:
        lines.append(
            f"{counts['missed']} of {_points_in_words(counts['points'])} "
            f"miss{'es' * (counts['points'] == 1)} the expectations."
        )
    if counts["failed"]:
        lines.append(f"{_points_in_words(counts['failed'])} failed and have no result.")
    if refused := counts.get("refused"):
        whys = ", ".join(f"{n} {why}" for why, n in refusal_counts(summary).items())
        lines.append(
            f"{_points_in_words(refused)} of {counts['points']} {'is' if refused == 1 else 'are'} "
            f"refused: {whys}; the page says what would work."
        )
    return lines


def settings_without_effect(summary: Summary) -> list[str]:
    """Sentence that lists the settings without effect; an empty list if there are none."""
    return [f"No effect: {', '.join(summary['no_effect'])}."] if summary["no_effect"] else []


def most_and_least_effect(summary: Summary) -> list[str]:
    """Sentence that lists settings by their effect on the first metric, all else equal."""
    _, metric, _ = sweep_goals(summary)[0]
    moved = sorted(largest_change_by_setting(summary, metric).items(), key=lambda item: -item[1])
    effects = [
        f"{setting_name(k, summary['vary'])} by up to {three_digits(100 * m)} %" for k, m in moved
    ]
    return (
        [f"Settings that change {metric_in_words(metric)}: {', '.join(effects)}."]
        if effects
        else []
    )


def largest_change_by_setting(summary: Summary, metric: str) -> dict[str, float]:
    """Largest relative change of a metric by setting, among points that differ in it alone.

    A setting that never differs alone, as in a random search, is left out.
    """
    largest: dict[str, float] = {}
    for setting in summary["vary"]:
        alike: dict[str, list[float]] = {}
        for p in summary["points"]:
            if metric in p.get("values", {}):
                alike.setdefault(other_settings_key(p, setting), []).append(p["values"][metric])
        spread = [max(g) / min(g) - 1 for g in alike.values() if len(g) > 1 and min(g) > 0]
        if spread:
            largest[setting] = max(spread)
    return largest


def _points_in_words(count: int) -> str:
    """Number of points as text, with the noun in singular or plural.

    >>> _points_in_words(1), _points_in_words(12)
    ('1 point', '12 points')
    """
    return f"{count} point{'s' * (count != 1)}"


def _front_sentence(summary: Summary, front: list[Mapping[str, Any]]) -> str:
    counts = summary["counts"]
    if not front:
        why = "meets the expectations" if counts["failed"] < counts["points"] else "finished"
        return f"None of {_points_in_words(counts['points'])} {why}."
    way, metric, unit = sweep_goals(summary)[0]
    least = "smallest" if way == "minimize" else "largest"
    point = front[0]
    was = summary["base"].get("values", {}).get(metric)
    text = (
        f"The {least} {metric_in_words(metric)} of {_points_in_words(counts['points'])} is "
        f"{format_quantity(point['values'][metric], unit)}, with {settings_text(point, summary)}"
    )
    if was:
        text += f"; {_change_described(summary, was, point['values'][metric] / was - 1, unit)}"
    return f"{text}."


def _change_described(summary: Summary, base_value: float, change: float, unit: str) -> str:
    """Text of the base scenario's value, and of the change to it or the expectations it misses."""
    if missed := summary["base"]["missed"]:
        value = format_quantity(base_value, unit)
        return f"as described it is {value}, but misses {'; '.join(missed)}"
    return f"as described it is {format_quantity(base_value, unit)} ({format_change(change)})"


def is_refused_plan(point: Mapping[str, Any]) -> bool:
    """True if a point is a parallel plan that breaks a rule or does not fit into memory."""
    return bool(point.get("error", {}).get("kind") == "PlanError")


def refusal_counts(summary: Summary) -> dict[str, int]:
    """Number of refused plans by reason, most frequent first.

    >>> text = "workload: does not fit: a rank of stage 0 needs 90 GiB (optimizer 60, weights 30)"
    >>> refusal_counts({"points": [{"error": {"kind": "PlanError", "message": text}}]})
    {'do not fit (most of it optimizer)': 1}
    """
    found = Counter(
        _refusal_in_words(p["error"]["message"]) for p in summary["points"] if is_refused_plan(p)
    )
    return dict(found.most_common())


def _refusal_in_words(message: str) -> str:
    """Reason why a plan is refused: the largest part of its memory, or the rule that it breaks."""
    largest = re.search(r"does not fit: [^(]*\(([a-z ]+) [\d.]", message)
    if largest:
        return f"do not fit (most of it {largest[1]})"
    return f"break a rule of {message.partition(':')[0]}"


def failure_counts(summary: Summary) -> dict[str, int]:
    """Number of failed points by reason, without refused plans."""
    counts: dict[str, int] = {}
    for p in summary["points"]:
        if "error" in p and not is_refused_plan(p):
            counts[p["error"]["message"]] = counts.get(p["error"]["message"], 0) + 1
    return counts
