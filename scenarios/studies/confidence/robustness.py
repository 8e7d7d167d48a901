"""Robustness of an answer: effects of unmeasured values, and break-even errors of parts.

Both need many runs, so they are computed for ``run.defend`` only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ....sim.errors import ForetraceError
from ..variants.samples import answer_of_run
from ..variants.variant import BuiltGraphs, Variant
from ..variants.variants import build_variant
from .break_even import break_even_errors
from .defence import values_ten_percent_off, values_to_try
from .uncertainty import component_kind_of_setting, predicted_components_by_kind

if TYPE_CHECKING:
    from ....sim.facts.system import System
    from ...config.scenario import Scenario
    from ..variants.map_function import MapFunction


def values_with_effects(
    variants: Sequence[Variant],
    values: Sequence[dict[str, Any]],
    map_runs: MapFunction,
    report_runs_left: Callable[[int], None] = lambda runs: None,
) -> dict[str, Any]:
    """Values with their effect on the answer, and the break-even error of each kind of part.

    Parameters
    ----------
    variants : all variants, base first
    values : values of the provenance; an unmeasured one gets an ``effect``: the relative change
        of the answer if the value is 10 % off, None if this is not possible
    map_runs : map function over the runs
    report_runs_left : called with the approximate number of remaining runs
    """
    base = variants[0]
    built = base.built
    (was,) = map_runs(answer_of_run, (build_variant(base.scenario, built),))
    unsure = values_to_try(values)
    found = map_runs(lambda v: _effect_of_value(base.scenario, built, v, was), unsure)
    effects = dict(zip((v["path"] for v in unsure), found, strict=True))
    kinds = {
        kind: _components_of_kind(kind) for kind in predicted_components_by_kind(base.simulation)
    }
    return {
        "values": [{**v, "effect": effects.get(v["path"])} for v in values],
        "break_even": break_even_errors(variants, kinds, map_runs, report_runs_left),
    }


def _components_of_kind(kind: str) -> Any:
    def chosen(system: System) -> list[int]:
        return [i for i, part in enumerate(system.components) if part.kind == kind]

    return chosen


def _effect_of_value(
    scenario: Scenario, built: BuiltGraphs, value: Mapping[str, Any], was: float
) -> float | None:
    """Relative change of the answer if a value is 10 % off; None if this is not possible."""
    from ...config.loader import with_overrides

    path = value["path"]
    for text in values_ten_percent_off(value["value"]):
        try:
            other = with_overrides(scenario.resolved(), {path: text})
            one = build_variant(other, None if component_kind_of_setting(path) == "gpu" else built)
            return answer_of_run(one) / was - 1
        except ForetraceError:
            continue  # the setting does not allow this value
    return None
