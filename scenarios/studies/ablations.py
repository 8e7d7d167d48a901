"""Ablations of a scenario, judged: headline in its band, gone without each piece, control flat."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..config.scenario import BASE, Scenario

if TYPE_CHECKING:
    from .answers import StudyAnswer

Points = Mapping[str, Mapping[str, Any]]


def judged_ablations(scenario: Scenario, points: Points, answer: StudyAnswer) -> dict[str, Any]:
    """Headline, switches and control of a scenario, each with its gain and whether it holds.

    A gain is how many times better the answer of one variant is than that of another.

    Returns
    -------
    Plain data: ``metric``, ``headline``, ``switches``, ``control`` (None where there is none); {}
    where the scenario has no ablations, or a variant that they name has not run.
    """
    asked, control = scenario.section("ablations"), scenario.section("control")
    if asked is None:
        return {}
    against = asked.headline.against
    pairs = [(BASE, against), *((switch.off, against) for switch in asked.switches)]
    pairs += [(control.of, control.against)] if control else []
    if any(name not in points for pair in pairs for name in pair):
        return {}
    values = {name: float(p["metrics"][answer.metric]["value"]) for name, p in points.items()}
    gains = [_gain(values[of], values[other], answer.better) for of, other in pairs]
    low, high = asked.headline.gain
    return {
        "metric": answer.metric,
        "headline": {
            "against": against,
            "gain": gains[0],
            "band": [low, high],
            "stated": asked.headline.stated,
            "met": low <= gains[0] <= high,
        },
        "switches": [
            {
                "what": switch.what,
                "off": switch.off,
                "gain": gain,
                "at_most": switch.at_most,
                "met": gain <= switch.at_most,
            }
            for switch, gain in zip(asked.switches, gains[1:], strict=False)
        ],
        "control": {
            "what": control.what,
            "of": control.of,
            "against": control.against,
            "gain": gains[-1],
            "within": control.within,
            "met": abs(gains[-1] - 1) <= control.within,
        }
        if control
        else None,
    }


def _gain(value: float, other: float, better: str) -> float:
    """How many times better one number is than another; 1 where both are the same.

    >>> _gain(2.0, 3.0, "lower"), _gain(2.0, 3.0, "higher"), _gain(0.0, 0.0, "lower")
    (1.5, 0.6666666666666666, 1.0)
    """
    if value == other:
        return 1.0
    best, worst = (other, value) if better == "lower" else (value, other)
    return best / worst if worst else float("inf")


def ablations_met(judged: Mapping[str, Any]) -> bool:
    """Whether all of it holds; True where there is nothing to judge."""
    if not judged:
        return True
    parts = [judged["headline"], *judged["switches"], judged["control"]]
    return all(part["met"] for part in parts if part is not None)
