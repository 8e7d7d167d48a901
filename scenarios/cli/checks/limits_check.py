"""The sixth check: memory for the ops of the largest variant, which takes reading the trace."""

from __future__ import annotations

from collections.abc import Iterator

from ....sim.errors import ScenarioError
from ...config.problems import InvalidScenarioError, Problem
from ...config.scenario import Scenario
from ...studies.run.plan import known_memory, require_run_fits_memory


def memory_limit_problems(scenario: Scenario) -> Iterator[Problem]:
    """More ops than fit into memory."""
    try:
        require_run_fits_memory(max(scenario.variants(), key=known_memory))
    except InvalidScenarioError as error:
        yield from error.problems
    except ScenarioError as error:
        yield Problem("limits", str(error), scenario.position_of(str(error)))
