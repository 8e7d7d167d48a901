"""Robustness of an answer: effects of values, and break-even errors of parts.

Both by running again, which is why it is done only where ``run.defend`` asks for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ...sim.errors import ForetraceError
from .accuracy.break_even import break_even
from .samples import headline
from .uncertainty import kind_of, predicted
from .variant import Built, Variant
from .variants import point

if TYPE_CHECKING:
    from ...sim.system import System
    from ..config.scenario import Scenario
    from .map_function import MapFunction

UNSURE = ("assumed", "datasheet", "fitted")
OFF = (1.1, 1 / 1.1)  # the second where the first is no value, as of an efficiency of 1
AMOUNT = re.compile(r"(\d[\d.]*(?:[eE][+-]?\d+)?)(\s*\D.*)?")


def defended(
    made: Sequence[Variant], values: Sequence[dict[str, Any]], each: MapFunction
) -> dict[str, Any]:
    """The values with their effects, and the break-even error of each kind of part.

    Parameters
    ----------
    made : of all variants, the base first
    values : of the provenance; those that were not measured get an ``effect``, the relative change
        of the answer as described if they are 10 % off; None where that means nothing
    """
    base = made[0]
    built = base.built
    own = point(base.scenario, built)
    was = headline(own, own.run())
    unsure = [v for v in values if v["kind"] in UNSURE]
    found = each(lambda v: _effect_of_value(base.scenario, built, v, was), unsure)
    effects = dict(zip((v["path"] for v in unsure), found, strict=True))
    kinds = {kind: _components_of_kind(kind) for kind in predicted(base.simulation)}
    return {
        "values": [{**v, "effect": effects.get(v["path"])} for v in values],
        "break_even": break_even(made, kinds),
    }


def _components_of_kind(kind: str) -> Any:
    def chosen(system: System) -> list[int]:
        return [i for i, part in enumerate(system.components) if part.kind == kind]

    return chosen


def _effect_of_value(
    scenario: Scenario, built: Built, value: dict[str, Any], was: float
) -> float | None:
    """Effect of 10 % of a value on the answer."""
    from ..config.loader import with_overrides

    path = value["path"]
    for text in off(value["value"]):
        try:
            other = with_overrides(scenario.resolved(), {path: text})
            one = point(other, None if kind_of(path) == "gpu" else built)
            return headline(one, one.run()) / was - 1
        except ForetraceError:
            continue  # no value of this setting
    return None


def off(text: str) -> Iterator[str]:
    """Texts of a value 10 % off; none for words and for zero.

    >>> list(off("20 GB/s")), list(off("ring")), list(off("0 s"))
    (['22 GB/s', '18.1818181818 GB/s'], [], [])
    """
    amount = AMOUNT.fullmatch(text)
    if amount and float(amount[1]):
        for factor in OFF:
            yield f"{float(amount[1]) * factor:.12g}{amount[2] or ''}"
