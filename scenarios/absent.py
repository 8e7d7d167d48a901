"""Files that a scenario names and that are not there; none of them is opened."""

from __future__ import annotations

from collections.abc import Iterator

from ..sim.errors import ScenarioError
from .problems import Problem, Spot
from .scenario import Scenario
from .workloads import paths

FILES = ("trace", "starts")  # settings of a workload that name files


def absent(scenario: Scenario) -> Iterator[Problem]:
    """Every name or pattern of a trace, in the scenario or a variant, that no file fits.

    Examples
    --------
    >>> from foretrace.scenarios.loader import load
    >>> [p.message for p in absent(load("first", set=["workload.trace=foretrace:ddp-gtp"]))][0]
    "workload.trace: no bundled trace 'foretrace:ddp-gtp'; did you mean 'foretrace:ddp-gpt'?"
    """
    told: set[str] = set()
    for one in scenario.variants():
        for key in FILES:
            name = getattr(one.workload, key, None)
            message = _missing(key, name) if isinstance(name, str) else ""
            if message and message not in told:
                told.add(message)
                where = one.place(f"workload.{key}")
                yield Problem("missing-file", message, _spot(one, where, key))


def _missing(key: str, name: str) -> str:
    """What is wrong with a name; "" for nothing."""
    try:
        return "" if paths(name) else f"no file fits '{name}'; correct the path"
    except ScenarioError as error:
        return str(error)


def _spot(scenario: Scenario, where: str, key: str) -> Spot:
    parts = where.rstrip(": ").rsplit(":", 2)
    if len(parts) < 3:
        return Spot(scenario.file, path=f"workload.{key}")
    return Spot(parts[0], int(parts[1]), int(parts[2]), path=f"workload.{key}")
