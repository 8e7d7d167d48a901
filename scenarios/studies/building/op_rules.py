"""Rules of ``ops``, applied to the graphs of a job."""

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
    """Graph of a job after applying the rules of ``ops``; its facts list the changes of each rule.

    Raises
    ------
    ScenarioError
        A rule matches no op or cannot be applied; the message has its file position.
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
    """Changes made by rules in the graphs of all jobs, as plain data.

    The job is named if there are several. A job that is a process has no entry, since its ops are
    unknown before the run.
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
    """Rules for a job that is a process, applied to each graph that it submits.

    Parameters
    ----------
    job : name of the job
    """

    def __init__(self, scenario: Scenario, job: str):
        self.scenario, self.job, self.rules = scenario, job, _rules_for_job(scenario, job)
        self.missed: dict[int, str] = {}  # reason why a rule matched no op so far, by rule index
        self.fitted: set[int] = set()

    def __call__(self, graph: Graph) -> Graph:
        """Apply the rules that match the graph."""
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
        """Raise an error for a rule that matched no op in the complete run.

        Raises
        ------
        ScenarioError
            The message has the file position of the rule.
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
    """Error about a rule, with its file position."""
    head = "" if scenario.section("workload") is not None else f"jobs.{job}."
    path = f"{head}ops.{rule}.{key}"
    return ScenarioError(f"{scenario.message_prefix(path)}{path}: {why}")


def _rule_effects_to_dict(
    rules: Sequence[OpRule], effects: Sequence[RuleEffect]
) -> list[dict[str, object]]:
    """Each rule and its effect as plain data; the time share is None without recorded times."""
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
