"""Ranking of the best points, and how sure each place is: differences run again in pairs.

Each source of model error is taken to both its ends in all of them alike, as between variants: a
network that is predicted too quick is so for every plan.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...config.loader import with_overrides
from ...config.reading.tree import Plain
from ...config.sections.sweep import Objective
from ..building.system import build_system
from ..executor import point_map_function
from ..uncertainty import (
    VariantWithErrors,
    change_against_base,
    error_sources,
    run_with_model_errors,
)
from ..variant import Variant
from ..variants import build_variant, run_with_replicas
from ..workers.crew import Task
from .task import graphs_and_variation


def rank_points(points: Sequence[Task], wanted: Objective) -> list[dict[str, Any]]:
    """Differences of points from the one before and from the first, best first.

    Parameters
    ----------
    points : tasks of the best points, in their order
    wanted : what they are ranked by

    Returns
    -------
    list of dict
        A point each, but the first: ``behind`` the one before, and the ``best``; each a relative
        ``change`` of the metric with its ``interval``, which is None where nobody knows one, and
        whether it is ``sure``: nothing of the interval is on the other side of nothing.
    """
    built = [_variant(point, wanted) for point in points]
    errors = error_sources([one.scenario for one in built], built)
    with point_map_function() as given:
        tried = [_with_errors(one, errors, given) for one in built]
    return [
        {"behind": _difference(tried[i - 1], one), "best": _difference(tried[0], one)}
        for i, one in enumerate(tried)
        if i
    ]


def _variant(point: Task, wanted: Objective) -> Variant:
    """Variant of a point, whose answer is what it is ranked by."""
    set_: Mapping[str, Plain] = {**point["set"], "answer": wanted.to_dict()}
    scenario = with_overrides(point["scenario"], set_)
    made = build_system(scenario)
    return build_variant(scenario, graphs_and_variation(scenario, made, point["files"]), made)


def _with_errors(one: Variant, errors: Any, given: Callable[[Variant], Any]) -> VariantWithErrors:
    each = given(one)
    return run_with_model_errors(run_with_replicas(one, each), errors, each)


def _difference(before: VariantWithErrors, one: VariantWithErrors) -> dict[str, Any]:
    """Relative change from one point to another, with its interval."""
    found = change_against_base(before, one)
    bounds = found["interval"]
    sure = bounds is not None and not bounds[0] <= 0.0 <= bounds[1]
    return {"change": found["value"], "interval": bounds, "sure": sure}
