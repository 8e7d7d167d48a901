"""Ranking of the best points, with an interval for each difference, from paired runs.

Each source of model error is set to both ends of its interval in all points at once, as between
variants: a network that is predicted too fast is so for every plan.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...config.sections.sweep import Objective
from ..confidence.uncertainty import (
    VariantWithErrors,
    change_against_base,
    error_sources,
    run_with_model_errors,
)
from ..variants.executor import point_map_function
from ..variants.variant import Variant
from ..variants.variants import run_with_replicas
from ..workers.worker_pool import Task
from .task import variant_of_point


def rank_points(points: Sequence[Task], objective: Objective) -> list[dict[str, Any]]:
    """Differences of each ranked point from the one before it and from the best one.

    Parameters
    ----------
    points : tasks of the best points, in their order
    objective : objective by which the points are ranked

    Returns
    -------
    list of dict
        One entry per point except the first: ``behind`` (the one before) and ``best``, each with
        the relative ``change`` of the metric, its ``interval`` (None if unknown), and ``sure``:
        True if the interval excludes zero.
    """
    built = [variant_of_point(point, {"answer": objective.to_dict()}) for point in points]
    errors = error_sources([one.scenario for one in built], built)
    with point_map_function() as given:
        tried = [_with_errors(one, errors, given) for one in built]
    return [
        {"behind": _difference(tried[i - 1], one), "best": _difference(tried[0], one)}
        for i, one in enumerate(tried)
        if i
    ]


def _with_errors(
    variant: Variant, errors: Any, executor: Callable[[Variant], Any]
) -> VariantWithErrors:
    each = executor(variant)
    return run_with_model_errors(run_with_replicas(variant, each), errors, each)


def _difference(before: VariantWithErrors, after: VariantWithErrors) -> dict[str, Any]:
    """Relative change from one point to another, with its interval."""
    found = change_against_base(before, after)
    bounds = found["interval"]
    sure = bounds is not None and not bounds[0] <= 0.0 <= bounds[1]
    return {"change": found["value"], "interval": bounds, "sure": sure}
