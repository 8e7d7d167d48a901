"""Tests of an answer by ``run.defend``: which values and errors are tried, and how many runs."""

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
    """Approximate numbers of simulations of ``run.defend``: for values, and for model errors.

    The first counts simulations in which one unmeasured value is 10 % off. The second counts
    simulations in which the times of one kind of component are wrong; it is an upper bound, since
    larger errors are not tried once an error flips the answer.
    """
    base = variants[0]
    kinds = len(predicted_components_by_kind(base.simulation))
    flips = may_flip(base.scenario, base.answer, len(variants))
    return 1 + len(values_to_try(values)), len(variants) * (1 + MOST_TRIES * kinds) * flips


def values_to_try(values: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Unmeasured values that can be changed by 10 %.

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
    """The value changed by 10 % up and down, as text; empty for words and zero.

    >>> tuple(list(values_ten_percent_off(text)) for text in ("20 GB/s", "ring", "0 s"))
    (['22 GB/s', '18.1818181818 GB/s'], [], [])
    """
    amount = AMOUNT.fullmatch(text)
    if amount and float(amount[1]):
        for factor in OFF:
            yield f"{float(amount[1]) * factor:.12g}{amount[2] or ''}"


def may_flip(scenario: Scenario, answer: StudyAnswer, variants: int) -> bool:
    """True if an error could flip the answer, because there is a variant or a condition."""
    return variants > 1 or bool(deciding_conditions(scenario, answer))


def deciding_conditions(scenario: Scenario, answer: StudyAnswer) -> list[Condition]:
    """Conditions on the deciding metric."""
    return [e.that for e in scenario.expect if e.that.metric == answer.sample]
