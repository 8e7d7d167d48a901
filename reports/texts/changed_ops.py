"""Sentences on the rules in ``ops``: how many ops each changed, and their share of the time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..numbers import format_quantity, three_digits

BASE = "base"


def changed_ops_sentences(summary: Mapping[str, Any]) -> Iterator[str]:
    """Sentences on the rules of each variant, without those inherited from the base."""
    base = summary["points"].get(BASE, {}).get("rules", [])
    for name, point in summary["points"].items():
        for rule in point.get("rules", []):
            if name == BASE or rule not in base:
                yield f"{'As described' if name == BASE else name}: {rule_text(rule)}."


def rule_text(rule: Mapping[str, Any]) -> str:
    """Text of a rule, and of what it changed.

    >>> rule_text({"where": {"name": "mm*"}, "scale": 0.5, "ops": 1200, "share": 0.25})
    "1,200 ops (name 'mm*') take 0.5 times as long; they were 25 % of the recorded time"
    """
    one = rule["ops"] == 1
    where = ", ".join(f"{key} '{pattern}'" for key, pattern in rule["where"].items())
    says = []
    if "time" in rule:
        says.append(f"take{'s' * one} {format_quantity(rule['time'], 's')}{' each' * (not one)}")
    if "scale" in rule:
        says.append(f"take{'s' * one} {three_digits(rule['scale'])} times as long")
    goes = [f"{key} {rule[key]}" for key in ("rank", "stream") if key in rule]
    if goes:
        says.append(f"{'is' if one else 'are'} on {', '.join(goes)}")
    if "remove" in rule:
        says.append(f"{'is' if one else 'are'} left out")
    share = rule["share"]
    was = "" if share is None else (
        f"; {'it was' if one else 'they were'} {format_quantity(share, '')} of the recorded time"
    )  # fmt: skip
    job = f" of job {rule['job']}" if rule.get("job") else ""
    return f"{rule['ops']:,} op{'s' * (not one)}{job} ({where}) {' and '.join(says)}{was}"
