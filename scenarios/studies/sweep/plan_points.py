"""Points of a search over parallel plans: every plan at every combination of settings."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from ....sim.errors import ScenarioError
from ...config.loader import with_overrides
from ...config.scenario import Scenario
from ...config.sections.sweep import MOST, Sweep, settings_of_value, split_paths
from ..building.jobs import workloads_of
from .method import grid_points
from .task import Settings

HEAD = "workload."


def plan_points(scenario: Scenario) -> list[Settings]:
    """Every parallel plan of the only workload, at every combination of the varied settings.

    Workload settings in ``vary`` are taken from there, not from the plan.

    Raises
    ------
    ScenarioError
        There are several jobs, no possible plan, or too many plans.
    """
    section: Sweep = scenario.section("sweep")
    if scenario.section("workload") is None:
        raise ScenarioError("sweep.method: 'plans' needs a single workload, and there are jobs; "
                            "write grid, and vary their settings")  # fmt: skip
    paths = [path for paths in section.vary for path in split_paths(paths)]
    kept = [path.removeprefix(HEAD) for path in paths if path.startswith(HEAD)]
    found = [
        {**point, **{f"{HEAD}{name}": value for name, value in plan.items()}}
        for point in grid_points(section.vary)
        for plan in _plans_at(scenario, point, kept)
    ]
    if not found:
        raise ScenarioError(
            f"sweep.method: no parallel plan of a {scenario.jobs['main'].workload.type} workload "
            "fits the batch and the GPUs; change workload.batch or cluster.nodes, or write grid"
        )
    if len(found) > (most := section.points or MOST):
        raise ScenarioError(
            f"sweep.points: there are {len(found)} plans, more than {most}; fix settings of the "
            "workload under vary, or give them fewer values"
        )
    return found


def _plans_at(
    scenario: Scenario, point: Settings, fixed_settings: Collection[str]
) -> Iterator[Mapping[str, Any]]:
    set_ = {
        k: v for paths, value in point.items() for k, v in settings_of_value(paths, value).items()
    }
    one = with_overrides(scenario.resolved(), set_) if set_ else scenario
    (workload,) = workloads_of(one).values()
    each = [p.count for m in one.cluster.machines() for _ in range(m.count)
            if (p := m.node.part("gpu")) is not None]  # fmt: skip
    yield from workload.plans(sum(each), min(each, default=1), fixed_settings)


def wanted_points(scenario: Scenario) -> int:
    """Number of points of a sweep."""
    section: Sweep = scenario.section("sweep")
    return len(plan_points(scenario)) if section.method == "plans" else section.wanted
