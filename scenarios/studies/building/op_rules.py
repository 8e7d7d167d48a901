"""Rules of ``ops``, applied to what a job starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ....sim.errors import GraphError, ScenarioError
from ....sim.facts.graph import Graph
from ....sim.facts.op_rules import OpRule, RuleEffect, apply_op_rules, matching_rows
from ...config.scenario import Scenario

RULES = "rules"  # key of a graph's facts: the changes made by rules


def with_rules(graph: Graph, scenario: Scenario, job: str) -> Graph:
    """Graph of a job with the rules of ``ops``; its facts say what each of them changed.

    Raises
    ------
    ScenarioError
        A rule that fits no op, or cannot be: with its place.
    """
    rules = _rules_for_job(scenario, job)
    if not rules:
        return graph
    for i, rule in enumerate(rules):
        try:
            matching_rows(graph, rule.where)
        except GraphError as error:
            raise _rule_error_with_place(scenario, job, i, "where", error.message) from error
    try:
        found, effects = apply_op_rules(graph, rules)
    except GraphError as error:
        i = next(k for k, rule in enumerate(rules) if _rule_fails_in(graph, rule))
        raise _rule_error_with_place(scenario, job, i, "rank", error.message) from error
    return replace(found, facts={**found.facts, RULES: _rule_effects_to_dict(rules, effects)})


def changed_ops_by_rule(graphs: Mapping[str, Graph | None]) -> list[dict[str, object]]:
    """What rules changed in the graphs of all jobs; the job is named where there are several.

    Of a job that is a process nothing is known before it runs.
    """
    return [
        {"job": name, **told} if len(graphs) > 1 else told
        for name, graph in graphs.items()
        for told in _rule_effects_in(graph)
    ]


def _rule_effects_in(graph: Graph | None) -> list[dict[str, object]]:
    told: Any = [] if graph is None else graph.facts.get(RULES, [])
    return list(told)


class SubmissionRules:
    """Rules for a job that is a process: applied to each graph that it submits.

    Parameters
    ----------
    job : its name
    """

    def __init__(self, scenario: Scenario, job: str):
        self.scenario, self.job, self.rules = scenario, job, _rules_for_job(scenario, job)
        self.missed: dict[int, str] = {}  # reason why a rule matched no op so far, by rule index
        self.fitted: set[int] = set()

    def __call__(self, graph: Graph) -> Graph:
        """Graph with the rules that fit it."""
        fitting = []
        for i, rule in enumerate(self.rules):
            try:
                matching_rows(graph, rule.where)
            except GraphError as error:
                self.missed[i] = error.message
            else:
                self.fitted.add(i)
                fitting.append(rule)
        return apply_op_rules(graph, fitting)[0]

    def check(self) -> None:
        """Raise an error for a rule that fitted nothing in the whole run.

        Raises
        ------
        ScenarioError
            With its place.
        """
        for i in range(len(self.rules)):
            if i not in self.fitted:
                why = self.missed.get(i, "nothing was submitted")
                raise _rule_error_with_place(self.scenario, self.job, i, "where", why)


def _rule_fails_in(graph: Graph, rule: OpRule) -> bool:
    try:
        apply_op_rules(graph, [rule])
    except GraphError:
        return True
    return False


def _rules_for_job(scenario: Scenario, job: str) -> list[OpRule]:
    return [section.rule() for section in scenario.jobs[job].ops]


def _rule_error_with_place(
    scenario: Scenario, job: str, rule: int, key: str, why: str
) -> ScenarioError:
    """Error about a rule, with its place in the file."""
    head = "" if scenario.section("workload") is not None else f"jobs.{job}."
    path = f"{head}ops.{rule}.{key}"
    return ScenarioError(f"{scenario.message_prefix(path)}{path}: {why}")


def _rule_effects_to_dict(
    rules: Sequence[OpRule], effects: Sequence[RuleEffect]
) -> list[dict[str, object]]:
    """What each rule is and changed, as plain data; no share where no time was recorded."""
    return [
        {
            "where": rule.where.criteria(),
            **{key: value for key in ("time", "scale", "stream", "rank")
               if (value := getattr(rule, key)) is not None},
            **({"remove": True} if rule.remove else {}),
            "ops": effect.ops,
            "share": effect.share if effect.share == effect.share else None,
        }
        for rule, effect in zip(rules, effects, strict=True)
    ]  # fmt: skip
