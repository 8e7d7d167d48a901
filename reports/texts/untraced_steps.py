"""Sentence on untraced steps that were timed next to a trace, for ``plan`` and ``trace info``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..numbers import format_quantity


def untraced_sentence(facts: Mapping[str, Any]) -> str:
    """Sentence on how untraced steps change recorded times, or why not; "" without any.

    >>> starts = {"files": ["run/rank0.steps.csv"], "process_starts": 1, "typical": 0.1}
    >>> untraced_sentence(starts | {"times_multiplied_by": 0.94})
    'recorded times are multiplied by 0.94: a step of 1 process start takes 100 ms untraced (run/rank0.steps.csv)'
    >>> untraced_sentence({"files": ["run/steps.csv"], "problem": "no step in it is untraced"})
    'not used: no step in it is untraced (run/steps.csv)'
    """  # noqa: E501  a sentence is one line
    if not facts:
        return ""
    files = ", ".join(facts["files"])
    if "problem" in facts:
        return f"not used: {facts['problem']} ({files})"
    by, count = facts.get("times_multiplied_by"), facts["process_starts"]
    become = f"are multiplied by {by}" if by is not None else "become those of untraced steps"
    whose = f"{count} process start{'s' * (count != 1)}"
    takes = format_quantity(facts["typical"], "s")
    return f"recorded times {become}: a step of {whose} takes {takes} untraced ({files})"
