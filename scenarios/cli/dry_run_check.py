"""The fifth check: the machines are built, and every name is looked up; no trace is read."""

from __future__ import annotations

from collections.abc import Iterator

from ..config.hil_settings import undeclared_drivers
from ..config.problems import Problem
from ..config.reading.unsupported import unsupported
from ..config.scenario import Scenario
from ..studies.building.dry_run import unbuildable


def dry_run(scenario: Scenario) -> Iterator[Problem]:
    """Settings that nothing simulates, machines that cannot be built, drivers nobody knows."""
    yield from unsupported(scenario)
    yield from unbuildable(scenario)
    yield from undeclared_drivers(scenario)
