"""Texts on the results of ``--defend``: effects of unmeasured values, and break-even errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..numbers import NONE, format_change, three_digits
from .headline import metric_subject


def robustness_sentences(summary: Mapping[str, Any]) -> list[str]:
    """Sentences on ``--defend``: the value with the largest effect, and break-even errors."""
    provenance = summary["provenance"]
    if "break_even" not in provenance:
        return []
    what = metric_subject(summary["answer"])
    tried = [v for v in provenance["values"] if v.get("effect") is not None]
    worst = max(tried, key=lambda v: abs(v["effect"]), default=None)
    if worst is None:
        sentence = "There is no unmeasured value to try 10 % off"
    elif format_change(worst["effect"]) == NONE:
        sentence = f"None of {len(tried)} unmeasured values tried changes {what} if it is 10 % off"
    else:
        sentence = (
            f"Of {len(tried)} unmeasured values tried, {worst['path']} matters most: 10 % off, "
            f"{what} changes by {format_change(worst['effect'])}"
        )
    flips = break_even_text(provenance["break_even"])
    return [f"{sentence}.", *([f"The answer {flips}."] if flips else [])]


def break_even_text(errors: Sequence[Mapping[str, Any]]) -> str:
    """Text on each component kind's error that flips the answer; "" without ``--defend``.

    >>> break_even_text([{"component": "nic", "answer": True, "error": None},
    ...             {"component": "gpu", "answer": True, "error": -0.2}])
    'holds if nic is half or twice as fast; flips if gpu ops take 20 % less than predicted'
    >>> break_even_text([{"component": "nic", "answer": False, "error": None}])
    'cannot flip: there is no variant to choose, and no expectation for the time'
    """
    if not errors:
        return ""
    if not all(e["answer"] for e in errors):
        return "cannot flip: there is no variant to choose, and no expectation for the time"
    firm = [e["component"] for e in errors if e["error"] is None]
    clauses = (
        [f"holds if {', '.join(firm)} {'is' if len(firm) == 1 else 'are'} half or twice as fast"]
        if firm
        else []
    )
    for e in errors:
        if e["error"] is not None:
            way, size = "less" if e["error"] < 0 else "more", three_digits(100 * abs(e["error"]))
            clauses.append(f"flips if {e['component']} ops take {size} % {way} than predicted")
    return "; ".join(clauses)
