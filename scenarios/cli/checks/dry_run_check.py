"""The fifth check: the machines are built, and every name is looked up; no trace is read."""

from __future__ import annotations

from collections.abc import Iterator

from ...config.hil_settings import undeclared_driver_warnings
from ...config.problems import Problem
from ...config.scenario import Scenario
from ...studies.building.dry_run import unbuildable_variant_problems


def dry_run_problems(scenario: Scenario) -> Iterator[Problem]:
    """Machines that cannot be built, drivers nobody knows."""
    yield from unbuildable_variant_problems(scenario)
    yield from undeclared_driver_warnings(scenario)
