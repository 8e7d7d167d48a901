"""Dry run: build the machines and resolve all names, without reading traces or opening devices."""

from __future__ import annotations

from collections.abc import Iterator

from ....sim.errors import ForetraceError
from ...config.problems import Problem
from ...config.scenario import Scenario
from .price import price_per_second
from .system import build_backends, build_system


def unbuildable_variant_problems(scenario: Scenario) -> Iterator[Problem]:
    """Problems of building the machines of a scenario and its variants."""
    said = set()
    for one in scenario.variants():
        for message in _building_errors(one):
            if message not in said:
                said.add(message)
                yield Problem("machine", message, scenario.position_of(message))


def _building_errors(scenario: Scenario) -> Iterator[str]:
    try:
        price_per_second(scenario)
        build_backends(scenario, build_system(scenario))
    except ForetraceError as error:
        yield str(error)
