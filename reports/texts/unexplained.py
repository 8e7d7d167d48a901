"""Sentences on what a run could not explain, and what to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

ANYTHING = "anything"  # an entry about the complete explanation


def unexplained_sentences(summary: Mapping[str, Any]) -> list[str]:
    """One sentence for each cause: which parts of the explanation are missing, and of what.

    >>> missing = [{"variant": "base", "what": "blame", "why": "rows were not kept; keep them"}]
    >>> unexplained_sentences({"unexplained": missing})
    ['Blame of base is missing: rows were not kept; keep them.']
    >>> missing = [{"variant": "", "what": "anything", "why": "it ended; run it again"}]
    >>> unexplained_sentences({"unexplained": missing})
    ['The answer is not explained: it ended; run it again.']
    """
    by_cause: dict[str, list[Mapping[str, Any]]] = {}
    for one in summary.get("unexplained", ()):
        by_cause.setdefault(one["why"], []).append(one)
    return [f"{_what_is_missing(parts)}: {why.rstrip('.')}." for why, parts in by_cause.items()]


def is_unexplained(summary: Mapping[str, Any], what: str) -> bool:
    """True if a part of the explanation is missing, of any variant.

    >>> is_unexplained({}, "blame")
    False
    """
    return any(one["what"] in (what, ANYTHING) for one in summary.get("unexplained", ()))


def _what_is_missing(parts: Sequence[Mapping[str, Any]]) -> str:
    variants = list(dict.fromkeys(one["variant"] for one in parts if one["variant"]))
    whats = list(dict.fromkeys(one["what"] for one in parts))
    if ANYTHING in whats:
        who = _listed(variants)
        return f"{who or 'The answer'} {'are' if len(variants) > 1 else 'is'} not explained"
    of = f" of {_listed(variants)}" if variants else ""
    text = f"{_listed(whats)}{of} {'are' if len(whats) > 1 else 'is'} missing"
    return text[0].upper() + text[1:]


def _listed(names: Sequence[str]) -> str:
    """Names as a list in a sentence.

    >>> _listed(["a", "b", "c"])
    'a, b and c'
    """
    *others, last = names or [""]
    return f"{', '.join(others)} and {last}" if others else last
