"""Advice after a sweep: next steps from the best point, and from what is uncertain."""

from __future__ import annotations

from collections.abc import Mapping

from ..texts.command_line import carry_scenario_options, with_option
from .sweep_results import (
    Found,
    Summary,
    front_points,
    other_settings_key,
    replicas_can_differ,
    set_options,
    sweep_goals,
    unique_suffix,
)

LEAST = 5e-4  # smaller relative changes count as none


def next_steps(summary: Summary, run: Mapping[str, str]) -> list[tuple[str, str]]:
    """Next steps after a sweep as (sentence, command).

    Parameters
    ----------
    summary : the sweep's summary
    run : ``file`` of the scenario, and the ``command`` that made the sweep
    """
    front, steps = front_points(summary), []
    if front:
        start = ["foretrace", "run", run["file"]]
        command = carry_scenario_options(
            run["command"], start, set_options(front[0]["set"], summary["vary"])
        )
        steps.append(("See what limits the best point:", command))
        steps += [(text, "") for text in _settings_at_range_end(front[0], summary)]
        unsure = sweep_goals(summary)[0][1] not in front[0].get("intervals", {})
        if unsure and not summary.get("ranking") and replicas_can_differ(summary):
            surer = with_option(run["command"], "--set", "run.replicas=10")
            steps.append(("Run replicas to get an interval that includes jitter:", surer))
    elif any(summary["counts"].get(k) for k in ("failed", "refused")):
        steps.append(("Correct the failed points listed below.", ""))
    else:
        steps.append(("No point meets the expectations: relax them, or vary more settings.", ""))
    return steps


def _settings_at_range_end(point: Found, summary: Summary) -> list[str]:
    """Sentences on settings whose best value is at the end of the tried range."""
    found = []
    for paths, tried in summary["vary"].items():
        if summary["method"]["name"] == "plans" and paths.startswith("workload."):
            continue  # the model and the machine end it
        value = point["set"].get(paths)
        ends = tried[:: len(tried) - 1] if isinstance(tried, list) and len(tried) > 2 else []
        if value in ends and value not in (0, 1) and _no_other_value_ties(point, paths, summary):
            name = unique_suffix(paths, summary["vary"])
            found.append(
                f"{name} = {value} is at the end of the tried values: try values beyond it."
            )
    return found


def _no_other_value_ties(point: Found, paths: str, summary: Summary) -> bool:
    """True if every other value of a setting, all else equal, gives a different first metric."""
    _, metric, _ = sweep_goals(summary)[0]
    own = point["values"][metric]
    same = [
        p
        for p in summary["points"]
        if other_settings_key(p, paths) == other_settings_key(point, paths)
    ]
    rest = [p["values"][metric] for p in same if p is not point and metric in p.get("values", {})]
    return all(abs(other - own) >= LEAST * abs(own) for other in rest)
