"""Check of processes before a run: construct each one, and look up the components it changes."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from ....sim.errors import ForetraceError, SimulationError
from ....sim.facts.system import System
from ....sim.run.process import Process
from ...config.problems import Problem, did_you_mean_text
from ...config.sections.processes import make_process

if TYPE_CHECKING:
    from .variant import Variant


def impossible_process_problems(point: Variant) -> Iterator[Problem]:
    """Problems of processes: invalid settings, and unknown or unchangeable components."""
    if point.graph is None:
        return  # made by its job, while it runs
    for number, named in enumerate(point.scenario.processes):
        try:
            _check_process(named.use, make_process(named, point.graph), point.simulation.system)
        except ForetraceError as error:
            text = error.message if isinstance(error, SimulationError) else str(error)
            where = point.scenario.spot(f"processes.{number}")
            yield Problem("impossible-process", text, where)


def _check_process(use: str, process: Process, system: System) -> None:
    for glob in getattr(process, "touches", None) or ():
        if not any(fnmatchcase(name, glob) for name in system.index):
            hint = did_you_mean_text(glob, list(system.index))
            raise SimulationError("action", f"{use}: no component matches '{glob}'{hint}")
    check = getattr(process, "check", None)
    if check is not None:
        check(system)
