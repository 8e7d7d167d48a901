"""Sentences on a sweep's ranking: whether the best point is certainly better than the next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..numbers import NONE, format_change
from ..texts.headline import metric_in_words
from .sweep_results import Summary, settings_text, sweep_goals

UNSURE, WITH = "cannot tell", " (90 % interval)"


def ranking_sentences(summary: Summary) -> list[str]:
    """Sentences on how certain the first place is; an empty list without a ranking."""
    ranking = summary.get("ranking", [])
    if len(ranking) < 2:
        return []
    best, second = (summary["points"][row["point"]] for row in ranking[:2])
    lead = ranking[1]["behind"]
    metric = metric_in_words(sweep_goals(summary)[0][1])
    where = settings_text(second, summary, compared_to=best)
    change = format_change(lead["change"])
    sentence = f"The next, with {where}, has {'the same' if change == NONE else change} {metric}"
    if lead["interval"] is None:
        why = " in a quick sweep" if summary.get("quick") else ""
        return [f"{sentence}; the interval of that difference is unknown{why}."]
    lines = [f"{sentence}, {interval_text(lead)}{'' if lead['sure'] else f': {UNSURE}'}."]
    alike = sum(not row["best"]["sure"] for row in ranking[1:])
    if alike:
        lines.append(f"Of the best {len(ranking)}, {alike} cannot be distinguished from the first.")
    return lines


def interval_text(difference: Mapping[str, Any]) -> str:
    """Text of the interval of a difference.

    >>> interval_text({"interval": [-0.01, 0.03]})
    '-1.0 % to +3.0 % (90 % interval)'
    >>> interval_text({"interval": [0.0, 0.0]})
    'no change (90 % interval)'
    """
    low, high = (format_change(end) for end in difference["interval"])
    return f"{low}{WITH}" if low == high else f"{low} to {high}{WITH}"
