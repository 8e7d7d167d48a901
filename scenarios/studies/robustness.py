"""Robustness of an answer: effects of values, and break-even errors of parts.

Both by running again, which is why it is done only where ``run.defend`` asks for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ...sim.errors import ForetraceError
from .accuracy.break_even import break_even_errors
from .samples import headline_value
from .uncertainty import component_kind_of_setting, predicted_components_by_kind
from .variant import BuiltGraphs, Variant
from .variants import build_variant

if TYPE_CHECKING:
    from ...sim.system import System
    from ..config.scenario import Scenario
    from .map_function import MapFunction

UNSURE = ("assumed", "datasheet", "fitted")
OFF = (1.1, 1 / 1.1)  # the second where the first is no value, as of an efficiency of 1
AMOUNT = re.compile(r"(\d[\d.]*(?:[eE][+-]?\d+)?)(\s*\D.*)?")


def values_with_effects(
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
    own = build_variant(base.scenario, built)
    was = headline_value(own, own.run())
    unsure = unsure_values(values)
    found = each(lambda v: _effect_of_value(base.scenario, built, v, was), unsure)
    effects = dict(zip((v["path"] for v in unsure), found, strict=True))
    kinds = {
        kind: _components_of_kind(kind) for kind in predicted_components_by_kind(base.simulation)
    }
    return {
        "values": [{**v, "effect": effects.get(v["path"])} for v in values],
        "break_even": break_even_errors(made, kinds),
    }


def unsure_values(values: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Values that were not measured.

    >>> unsure_values([{"kind": "assumed"}, {"kind": "measured"}])
    [{'kind': 'assumed'}]
    """
    return [v for v in values if v["kind"] in UNSURE]


def _components_of_kind(kind: str) -> Any:
    def chosen(system: System) -> list[int]:
        return [i for i, part in enumerate(system.components) if part.kind == kind]

    return chosen


def _effect_of_value(
    scenario: Scenario, built: BuiltGraphs, value: dict[str, Any], was: float
) -> float | None:
    """Effect of 10 % of a value on the answer."""
    from ..config.loader import with_overrides

    path = value["path"]
    for text in values_ten_percent_off(value["value"]):
        try:
            other = with_overrides(scenario.resolved(), {path: text})
            one = build_variant(other, None if component_kind_of_setting(path) == "gpu" else built)
            return headline_value(one, one.run()) / was - 1
        except ForetraceError:
            continue  # no value of this setting
    return None


def values_ten_percent_off(text: str) -> Iterator[str]:
    """Texts of a value 10 % off; none for words and for zero.

    >>> tuple(list(values_ten_percent_off(text)) for text in ("20 GB/s", "ring", "0 s"))
    (['22 GB/s', '18.1818181818 GB/s'], [], [])
    """
    amount = AMOUNT.fullmatch(text)
    if amount and float(amount[1]):
        for factor in OFF:
            yield f"{float(amount[1]) * factor:.12g}{amount[2] or ''}"
