"""The last check: every variant is built, so that a model says which ops it cannot answer.

A run builds them anyway, and asks the same before it simulates anything.
"""

from __future__ import annotations

from collections.abc import Iterator

from ....sim.errors import ForetraceError
from ...config.problems import InvalidScenarioError, Problem
from ...config.scenario import Scenario


def unanswerable_op_problems(scenario: Scenario) -> Iterator[Problem]:
    """Work that cannot be built or placed, and ops that a model cannot answer."""
    from ...studies.variants.variants import build_variants

    try:
        build_variants(scenario)
    except InvalidScenarioError as error:
        yield from error.problems
    except ForetraceError as error:
        yield Problem("unanswerable", str(error), scenario.position_of(str(error)))
