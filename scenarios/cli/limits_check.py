"""The last check: memory for the ops of the largest variant, which takes reading the trace."""

from __future__ import annotations

from collections.abc import Iterator

from ...sim.errors import ScenarioError
from ..config.problems import InvalidScenarioError, Problem, Spot
from ..config.scenario import Scenario
from ..studies.plan import guard, ops_of


def limits(scenario: Scenario) -> Iterator[Problem]:
    """More ops than fit into memory."""
    try:
        guard(scenario, 1, max(ops_of(variant) for variant in scenario.variants()))
    except InvalidScenarioError as error:
        yield from error.problems
    except ScenarioError as error:
        yield Problem("limits", str(error), Spot(scenario.file))
