"""Explanation of a name in a scenario or a saved run, with its utilization there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ....reports.numbers import format_change, format_quantity, format_share
from ....sim.errors import ScenarioError
from ...config.explanation import Explanation, explain
from ...config.loader import load
from ..building.system import build_system
from .part_explanation import explain_part, near_part_text, parts_named, source_text

if TYPE_CHECKING:
    from ....sim.facts.system import System
    from ...config.scenario import Scenario

Points = Mapping[str, Mapping[str, Any]]
NO_POINTS: Points = MappingProxyType({})


def scenario_and_points(on: str) -> tuple[Scenario, Points]:
    """Scenario, and the summary of each variant if ``on`` is a run folder.

    Raises
    ------
    ScenarioError
        It is neither a scenario nor a run.
    """
    if not Path(on).is_dir():
        return load(on), NO_POINTS
    from ..folders.saved_runs import newest_or_named_run
    from ..run.run_folder import load_summary

    folder = newest_or_named_run(on, Path(on).resolve().parent)
    points = load_summary(folder).get("points")
    return load(folder / "resolved.yaml"), points if isinstance(points, dict) else NO_POINTS


def explain_on(name: str, scenario: Scenario, points: Points = NO_POINTS) -> Explanation:
    """Explanation of a component, variant, setting or other name, in a given scenario.

    Parameters
    ----------
    points : summary of each variant of a run

    Raises
    ------
    ScenarioError
        The name is unknown; the message suggests the nearest one.

    Examples
    --------
    >>> explain_on("half", load("thin-spine")).below
    {'cluster.fabric.oversubscription': '1.0 -> 2'}
    """
    base = build_system(scenario)
    if (part := explain_part(name, scenario, base)) is not None:
        return _with_use(part, points, base)
    for variant in scenario.others:
        system = build_system(variant)
        if (part := explain_part(name, variant, system)) is not None:
            only = {"only in": variant.variant, **part.facts}
            own = {k: v for k, v in points.items() if k == variant.variant}
            return _with_use(replace(part, facts=only), own, system)
    if (told := _explain_variant_or_job(name, scenario, points)) is not None:
        return told
    if (told := _explain_error(name, points)) is not None:
        return told
    if near := near_part_text(name, base, alike=True):
        raise ScenarioError(f"explain: nothing in this scenario has the name '{name}'; {near}")
    try:
        return _with_value(explain(name), scenario)
    except ScenarioError as error:
        if near := near_part_text(name, base):
            raise ScenarioError(
                f"explain: nothing in this scenario has the name '{name}'; {near}"
            ) from error
        raise


def _with_use(explanation: Explanation, points: Points, system: System) -> Explanation:
    """Explanation of components, with their utilization and critical path time in each variant."""
    if not points:
        return explanation
    names = [system.components[i].name for i in parts_named(explanation.name, system)]
    if names[0] == explanation.name:
        names = names[:1]  # its subcomponents have their own utilization
    busy = {variant: _busy_text(names, point) for variant, point in points.items()}
    path = {variant: _blame_text(names, point) for variant, point in points.items()}
    more = {"busy": _by_variant(busy), "critical path": _by_variant(path)}
    return replace(explanation, facts={**explanation.facts, **more})


def _by_variant(texts: Mapping[str, str]) -> str:
    """Texts by variant; a single text if all are equal."""
    same = set(texts.values())
    return same.pop() if len(same) == 1 else "; ".join(f"{k}: {v}" for k, v in texts.items())


def _busy_text(names: list[str], point: Mapping[str, Any]) -> str:
    """Utilization of a component in a variant; for several components, of the busiest one."""
    metrics = point["metrics"]
    if not any(".utilization" in name for name in metrics):
        return "not stored (set run.keep: ops)"
    shares = {n: metrics[f"{n}.utilization.mean"]["value"] for n in names
              if f"{n}.utilization.mean" in metrics}  # fmt: skip
    if not shares:
        return "idle"
    most = max(shares, key=shares.__getitem__)
    peak = metrics[f"{most}.utilization.max"]["value"]
    told = f"{format_share(shares[most])} on average, {format_share(peak)} in its busiest hundredth"
    return told if len(names) == 1 else f"{most} most, {told}"


def _blame_text(names: list[str], point: Mapping[str, Any]) -> str:
    """Time of the critical path that components take in a variant, and its fraction, as text."""
    blame: Mapping[str, float] = point["blame"]
    took, whole = sum(blame.get(name, 0.0) for name in names), sum(blame.values())
    if not took:
        return "not on it"
    return f"{format_quantity(took, 's')}, {format_share(took / whole)} of it"


def _explain_variant_or_job(name: str, scenario: Scenario, points: Points) -> Explanation | None:
    """Explanation of a variant by its changed settings, or of a job; None for other names."""
    from ..run.run import setting_differences

    variant = next((v for v in scenario.others if v.variant == name), None)
    if variant is not None:
        found = setting_differences(scenario, variant)
        facts = {}
        if name in points:
            facts["change"] = format_change(points[name]["change"]["value"])
        below = {
            path: f"{was or 'unset'} -> {now or 'unset'}" for path, (was, now) in found.items()
        }
        return Explanation(name, "A variant of what_if, with its changed settings.", facts, below)
    if name in scenario.jobs and scenario.section("jobs"):
        workload = scenario.jobs[name].workload.type
        return Explanation(name, "One of several jobs.", {"workload": workload})
    return None


def _explain_error(name: str, points: Points) -> Explanation | None:
    """Explanation of an op family that widens the interval of the answer; None for other names."""
    found = {
        variant: f"{format_change(one['low'])} to {format_change(one['high'])}"
        for variant, point in points.items()
        for one in point.get("errors", ())
        if one["source"] == f"family {name}"
    }
    if not found:
        return None
    what = "A family of ops, and how far its error interval moves the answer."
    return Explanation(name, what, {"interval": _by_variant(found)})


def _with_value(explanation: Explanation, scenario: Scenario) -> Explanation:
    """Explanation of a setting with its value in the scenario."""
    origin = scenario.origins.get(explanation.name)
    if origin is None:
        return explanation
    return replace(
        explanation, facts={**explanation.facts, "here": f"{origin.text} ({source_text(origin)})"}
    )
