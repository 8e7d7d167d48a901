"""What was expected of an error: which number a condition means, and what may be said of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ....sim.errors import ScenarioError
from ...config.scenario import Scenario
from .score import Score, verdict
from .whole_run import WHOLE


def expected(scenario: Scenario, told: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Each condition on an error, with its outcome."""
    found = []
    for e in scenario.expect:
        if not e.that.metric.startswith("hil."):
            continue
        name, outcome, bar, score = _judged(e.that.metric, e.that.statistic, e.that.limit, told)
        found.append(
            {
                "that": e.that.text,
                "otherwise": e.otherwise,
                "component": name,
                "outcome": outcome,
                "bar": bar,
                "value": score.value if score else None,
                "interval": score.interval if score else None,
            }
        )
    return found


def _judged(
    metric: str, statistic: str, limit: float, told: Mapping[str, Any]
) -> tuple[str, str, float, Score | None]:
    """Which number a condition means, and what may be said of it."""
    what = metric.removeprefix("hil.").removesuffix(".error")
    if what == WHOLE:
        whole = told["whole"]
        if whole is None:
            return what, "unresolved", limit, None
        score = Score(abs(whole["error"]), whole["interval"])
        return what, *verdict(score, limit, whole["spread"]), score
    name, table_of = _meant(what, told["components"])
    one = told["components"][name]
    errors = one["errors"] if table_of != "bandwidth" else one["bandwidth"]
    if one["emulated"] or not errors:
        return name, "unresolved", limit, None
    score = Score(**errors[statistic])
    return name, *verdict(score, limit, one["spread"]), score


def _meant(what: str, components: Mapping[str, Any]) -> tuple[str, str]:
    """A component by its name or kind, and which of its numbers.

    Raises
    ------
    ScenarioError
        No component that was swapped is meant.

    Examples
    --------
    >>> _meant("nic.transfer_time", {"node0.nic0": None}), _meant("node0.nic0", {"node0.nic0": 1})
    (('node0.nic0', 'time'), ('node0.nic0', 'time'))
    """
    for metric in ("bandwidth", "transfer_time", "op_time", "time", ""):
        stem = what.removesuffix(f".{metric}") if metric else what
        if metric and stem == what:
            continue
        for name in components:
            kind = name.rpartition(".")[2].rstrip("0123456789")
            if stem in (name, kind):
                return name, "bandwidth" if metric == "bandwidth" else "time"
    raise ScenarioError(
        f"expect: 'hil.{what}.error' means no component that is swapped; there is "
        f"{', '.join(components)}, with .time and .bandwidth, and hil.iteration_time.error"
    )
