"""Check of processes before a run: construct each one, and look up the components it changes."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from ....sim.errors import ForetraceError, SimulationError
from ....sim.facts.system import System
from ....sim.run.process import Process
from ...config.hil_settings import devices_drive_run
from ...config.problems import Problem, did_you_mean_text
from ...config.sections.processes import make_process
from ..building.system import components_down_at_start

if TYPE_CHECKING:
    from .variant import Variant


def impossible_process_problems(point: Variant) -> Iterator[Problem]:
    """Problems of processes: invalid settings, and unknown or unchangeable components."""
    keep = point.scenario.run.keep
    if keep in ("ranks", "none") and _is_steered(point):
        message = (
            f"run.keep '{keep}' stores no rows to explain the answer, and this run cannot be "
            "repeated for them (it has several jobs, a job that holds memory, a process, a device "
            "or a failed component); write keep: ops"
        )
        yield Problem("not-kept", message, point.scenario.spot("run.keep"))
    if point.graph is None:
        return  # made by its job, while it runs
    for number, named in enumerate(point.scenario.processes):
        try:
            _check_process(named.use, make_process(named, point.graph), point.simulation.system)
        except ForetraceError as error:
            text = error.message if isinstance(error, SimulationError) else str(error)
            where = point.scenario.spot(f"processes.{number}")
            yield Problem("impossible-process", text, where)


def _is_steered(point: Variant) -> bool:
    scenario = point.scenario
    if point.graph is None or scenario.processes or devices_drive_run(scenario):
        return True
    return bool(components_down_at_start(scenario, point.simulation.system))


def _check_process(use: str, process: Process, system: System) -> None:
    for glob in getattr(process, "touches", ()):
        if not any(fnmatchcase(name, glob) for name in system.index):
            hint = did_you_mean_text(glob, list(system.index))
            raise SimulationError("action", f"{use}: no component matches '{glob}'{hint}")
    check = getattr(process, "check", None)
    if check is not None:
        check(system)
