"""Verdicts of conditions on errors: which error a condition refers to, and whether it holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ....sim.errors import ScenarioError
from ...config.condition import Condition
from ...config.scenario import Scenario
from ..variants.answers import StudyAnswer
from .score import ErrorStatistic, accuracy_verdict


def condition_outcomes(
    scenario: Scenario, answer: StudyAnswer, errors: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Outcome of each ``expect`` condition on an error of ``hil check``, as plain data.

    Parameters
    ----------
    answer : deciding metric; a condition on its error (``hil.iteration_time.error``) refers to the
        complete run
    errors : ``accuracy.json``'s errors: per component (``components``), and of the complete run
        (``whole``)
    """
    rows = []
    for e in scenario.expect:
        if not e.that.metric.startswith("hil."):
            continue
        name, outcome, bar, score = _judge_condition(e.that, answer, errors)
        rows.append(
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
    return rows


def _judge_condition(
    that: Condition, answer: StudyAnswer, errors: Mapping[str, Any]
) -> tuple[str, str, float, ErrorStatistic | None]:
    """Component name, outcome, limit and score of a condition."""
    what = that.metric.removeprefix("hil.").removesuffix(".error")
    if what == answer.sample:
        whole = errors["whole"]
        if whole is None:
            return what, "unresolved", that.limit, None
        score = ErrorStatistic(abs(whole["error"]), whole["interval"])
        return what, *accuracy_verdict(score, that.limit, whole["spread"]), score
    components = errors["components"]
    name, quantity = _component_and_quantity(what, components, answer)
    one = components[name]
    by_statistic = one["errors"] if quantity != "bandwidth" else one["bandwidth"]
    if one["emulated"] or not by_statistic:
        return name, "unresolved", that.limit, None
    score = ErrorStatistic(**by_statistic[that.statistic])
    return name, *accuracy_verdict(score, that.limit, one["spread"]), score


def _component_and_quantity(
    what: str, components: Mapping[str, Any], answer: StudyAnswer
) -> tuple[str, str]:
    """Component that a condition refers to, and its quantity: ``time`` or ``bandwidth``.

    Raises
    ------
    ScenarioError
        The condition matches no swapped component.

    Examples
    --------
    >>> from ..variants.answers import usual_trace_answer
    >>> _component_and_quantity("nic.transfer_time", {"node0.nic0": None}, usual_trace_answer())
    ('node0.nic0', 'time')
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
        f"expect: 'hil.{what}.error' matches no swapped component; write one of "
        f"{', '.join(components)}, with .time or .bandwidth, or hil.{answer.sample}.error"
    )
