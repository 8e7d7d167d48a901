"""Verdicts on the ablations of a scenario: the gain, each switched-off part, and the control."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ....sim.units import quantity
from ...config.scenario import BASE, Scenario

if TYPE_CHECKING:
    from ...config.sections.ablations import AblationsSection, ControlSection
    from ..variants.answers import StudyAnswer

Points = Mapping[str, Mapping[str, Any]]


def judged_ablations(scenario: Scenario, points: Points, answer: StudyAnswer) -> dict[str, Any]:
    """Headline, switches and control of a scenario, each with its value and verdict.

    A gain is how many times better the answer of one variant is than that of another. An error is
    the relative difference of an answer from its measured value.

    Returns
    -------
    Plain data: ``metric``, ``headline``, ``switches``, ``control`` (None for none); {} if the
    scenario has no ablations, or a variant that they name has not run.
    """
    asked, control = scenario.section("ablations"), scenario.section("control")
    if asked is None:
        return {}
    named = {switch.off for switch in asked.switches}
    named |= {asked.headline.against} if asked.headline.gain else {*asked.headline.measured}
    named |= {control.of, control.against} if control else set()
    if not {BASE, *named} <= {*points}:
        return {}
    values = {name: float(p["metrics"][answer.metric]["value"]) for name, p in points.items()}
    judge = _judged_gain if asked.headline.gain else _judged_errors
    return {
        "metric": answer.metric,
        **judge(asked, values, answer),
        "control": _judged_control(control, values, answer) if control else None,
    }


def _judged_gain(
    section: AblationsSection, values: Mapping[str, float], answer: StudyAnswer
) -> dict[str, Any]:
    """Gain against the baseline, and the remaining gain without each part."""
    headline = section.headline
    against, (low, high) = str(headline.against), headline.gain or ()
    gains = {name: _gain(value, values[against], answer.better) for name, value in values.items()}
    return {
        "headline": {
            "against": against,
            "gain": gains[BASE],
            "band": [low, high],
            "stated": headline.stated,
            "met": low <= gains[BASE] <= high,
        },
        "switches": [
            {
                "what": switch.what,
                "off": switch.off,
                "gain": gains[switch.off],
                "at_most": switch.at_most,
                "met": gains[switch.off] <= switch.at_most,
            }
            for switch in section.switches
        ],
    }


def _judged_errors(
    section: AblationsSection, values: Mapping[str, float], answer: StudyAnswer
) -> dict[str, Any]:
    """Errors against measured answers, and the errors without each part, which must be larger."""
    headline = section.headline
    within = float(headline.within or 0.0)
    measured = {name: quantity(text, answer.unit) for name, text in headline.measured.items()}
    errors = {name: values[name] / took - 1 for name, took in measured.items()}
    return {
        "headline": {
            "measured": [
                {"variant": name, "value": took, "unit": answer.unit, "error": errors[name]}
                for name, took in measured.items()
            ],
            "within": within,
            "stated": headline.stated,
            "met": all(abs(error) <= within for error in errors.values()),
        },
        "switches": [
            {
                "what": switch.what,
                "off": switch.off,
                "of": switch.of,
                "error": error,
                "met": abs(error) > within,
            }
            for switch in section.switches
            for error in [values[switch.off] / measured[switch.of] - 1]
        ],
    }


def _judged_control(
    control: ControlSection, values: Mapping[str, float], answer: StudyAnswer
) -> dict[str, Any]:
    gain = _gain(values[control.of], values[control.against], answer.better)
    return {
        "what": control.what,
        "of": control.of,
        "against": control.against,
        "gain": gain,
        "within": control.within,
        "met": abs(gain - 1) <= control.within,
    }


def _gain(value: float, other: float, better: str) -> float:
    """Factor by which one value is better than another; 1 if they are equal.

    >>> _gain(2.0, 3.0, "lower"), _gain(2.0, 3.0, "higher"), _gain(0.0, 0.0, "lower")
    (1.5, 0.6666666666666666, 1.0)
    """
    if value == other:
        return 1.0
    best, worst = (other, value) if better == "lower" else (value, other)
    return best / worst if worst else float("inf")


def ablations_met(judged: Mapping[str, Any]) -> bool:
    """True if all parts of the ablations hold, or there are none."""
    if not judged:
        return True
    parts = [judged["headline"], *judged["switches"], judged["control"]]
    return all(part["met"] for part in parts if part is not None)
