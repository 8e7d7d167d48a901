"""Defence of an answer: which values and errors are tried, and how many runs that takes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .uncertainty import predicted_components_by_kind

if TYPE_CHECKING:
    from ...config.condition import Condition
    from ...config.scenario import Scenario
    from ..variants.answers import StudyAnswer
    from ..variants.variant import Variant

UNSURE = ("assumed", "datasheet", "fitted")
OFF = (1.1, 1 / 1.1)  # factors; the second if the first is not allowed, as for an efficiency of 1
AMOUNT = re.compile(r"(\d[\d.]*(?:[eE][+-]?\d+)?)(\s*\D.*)?")
TRIED = (0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 1.0)  # relative errors of a time, tried with both signs
MOST_TRIES = 2 * len(TRIED)  # tries for a component if no error flips the answer


def runs_that_defend(
    variants: Sequence[Variant], values: Sequence[Mapping[str, Any]]
) -> tuple[int, int]:
    """Runs of ``robustness.values_with_effects``, about: of values, and of break-even errors.

    Where an error flips the answer, that is narrowed, and larger ones are not tried.
    """
    base = variants[0]
    kinds = len(predicted_components_by_kind(base.simulation))
    flips = may_flip(base.scenario, base.answer, len(variants))
    return 1 + len(values_to_try(values)), len(variants) * (1 + MOST_TRIES * kinds) * flips


def values_to_try(values: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Values that were not measured and can be 10 % off.

    >>> values_to_try([{"kind": "assumed", "value": "ring"}, {"kind": "assumed", "value": "2 us"}])
    [{'kind': 'assumed', 'value': '2 us'}]
    """
    return [v for v in unmeasured_values(values) if any(values_ten_percent_off(v["value"]))]


def unmeasured_values(values: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Values that were not measured.

    >>> unmeasured_values([{"kind": "assumed"}, {"kind": "measured"}])
    [{'kind': 'assumed'}]
    """
    return [v for v in values if v["kind"] in UNSURE]


def values_ten_percent_off(text: str) -> Iterator[str]:
    """Texts of a value 10 % off; none for words and for zero.

    >>> tuple(list(values_ten_percent_off(text)) for text in ("20 GB/s", "ring", "0 s"))
    (['22 GB/s', '18.1818181818 GB/s'], [], [])
    """
    amount = AMOUNT.fullmatch(text)
    if amount and float(amount[1]):
        for factor in OFF:
            yield f"{float(amount[1]) * factor:.12g}{amount[2] or ''}"


def may_flip(scenario: Scenario, answer: StudyAnswer, variants: int) -> bool:
    """Whether there is an answer that an error could flip: a variant, or an expectation."""
    return variants > 1 or bool(deciding_conditions(scenario, answer))


def deciding_conditions(scenario: Scenario, answer: StudyAnswer) -> list[Condition]:
    """Conditions on the number that decides."""
    return [e.that for e in scenario.expect if e.that.metric == answer.sample]
