"""Verdict of an accuracy check in sentences: what passed, how large the error is, and its cause."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..numbers import format_quantity
from ..texts.headline import metric_subject, metric_verb, value_sentence
from .error_texts import bracketed_interval, format_error, format_signed

OUTCOMES = {"pass": "better", "fail": "worse", "unresolved": "cannot-tell"}
Checked = Mapping[str, Any]


def verdict_sentences(checked: Checked) -> list[str]:
    """Verdict sentences: what passed, the error of the whole run, and its main cause.

    Examples
    --------
    >>> verdict_sentences({"expect": [], "components": {}, "whole": None, "mixed_clocks": True})[-1]
    'Clocks are mixed: this is a demonstration, so the accuracy of the whole run is unknown.'
    """
    lines = [_verdict_text(checked["expect"])]
    whole = checked["whole"]
    if whole is None:
        return [
            *lines,
            "Clocks are mixed: this is a demonstration, so the accuracy of the whole run is "
            "unknown.",
        ]
    answer = checked["answer"]
    unit = answer["unit"]
    size = f"{format_error(whole['error'])}{bracketed_interval(whole['signed'])}"
    lines.append(
        f"With models alone {value_sentence(answer, whole['predicted'])}, "
        f"with {_component_names(checked)} real {format_quantity(whole['measured'], unit)}: "
        f"model error {size}."
    )
    if whole["real"]:
        real = whole["real"]
        lines.append(
            f"The real job took {format_quantity(real['value'], unit)}: composition error "
            f"{format_error(real['composition'])}, model against job {format_error(real['all'])}."
        )
    if len(whole["shares"]) > 1:
        most = max(whole["shares"], key=lambda s: abs(s["swap_in"]))
        lines.append(
            f"Most of it is from {most['component']}: its measured times alone change "
            f"{metric_subject(answer)} by {format_signed(most['swap_in'], unit)}."
        )
    if whole.get("coupled"):
        lines.append(
            f"With {_component_names(checked)} driving simulated time it {metric_verb(answer)} "
            f"{format_quantity(whole['coupled']['value'], unit)}: model error "
            f"{format_error(whole['coupled']['error'])}."
        )
    return lines


def _component_names(checked: Checked) -> str:
    names = list(checked["components"])
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _verdict_text(expect: list[Mapping[str, Any]]) -> str:
    if not expect:
        return "No expectation is set for the errors, so there is no verdict."
    counts = {o: sum(e["outcome"] == o for e in expect) for o in OUTCOMES}
    if counts["fail"]:
        return f"No: {counts['fail']} of {len(expect)} expectations failed."
    if counts["unresolved"]:
        return (
            f"Cannot tell: {counts['unresolved']} of {len(expect)} expectations are unresolved, "
            "because their intervals contain the limit or are unknown."
        )
    return f"Yes: all {len(expect)} expectations hold, with their intervals."
