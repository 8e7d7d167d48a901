"""Offline measuring: reads a work list or plan from a file and writes its recording to a file."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from ...sim.errors import DriverFault, SimulationError
from ..measuring.plan import RecordingPlan
from ..measuring.plan_run import run_plan
from ..measuring.work_list import WorkList
from ..measuring.work_recording import record_work
from ..recording import read
from .local_agent import in_agent_process


def record_work_list(
    path: Path, out: Path, allow: Sequence[str] = (), load: Sequence[Path] = ()
) -> Path:
    """Measure a work list, with a new process for each start; returns the path of the recording.

    Parameters
    ----------
    allow : names of drivers that may be used; empty allows all
    load : files of the user's own drivers

    Raises
    ------
    RecordingError
        The file is not a work list.
    DriverFault
        The driver is not allowed here or does not work. Samples measured so far are kept.
    SimulationError
        The time limit was exceeded. Samples measured so far are kept.
    """
    work = WorkList.read(path)
    _require_allowed(work.driver, allow)
    kept = record_work(work, lambda: in_agent_process(work.driver, load), out, _print_line)
    recording = read(kept)
    _print_line(f"wrote {kept}: {len(recording.samples)} samples{recording.ended and ', partial: '}"
         f"{recording.ended}")  # fmt: skip
    for row in recording.failed:
        _print_line(f"failed: {row.signature} ({row.context}): {row.fault}")
    if recording.fault is not None:
        raise recording.fault
    if recording.ended:
        raise SimulationError("unfinished", f"{recording.ended}; what was measured is in {kept}")
    return kept


def record_plan(
    path: Path, out: Path, allow: Sequence[str] = (), load: Sequence[Path] = ()
) -> Path:
    """Measure the remaining pieces of a plan, with a new process for each start.

    Returns the path of the recording. For ``allow`` and ``load`` see ``record_work_list``.

    Raises
    ------
    RecordingError
        The file is not a plan, or the folder holds samples of another device.
    DriverFault
        The driver is not allowed here or does not work. Samples measured so far are kept.
    """
    plan = RecordingPlan.read(path)
    for name in {p.work.driver for p in plan.pieces}:
        _require_allowed(name, allow)
    kept = run_plan(plan, out, lambda name: lambda: in_agent_process(name, load), _print_line)
    _print_line(f"wrote {kept}")
    return kept


def _require_allowed(driver: str, allow: Sequence[str]) -> None:
    if allow and driver not in allow:
        raise DriverFault(
            "denied",
            f"this agent serves {', '.join(allow)}, not {driver!r}; start it with --allow {driver} "
            "too",
        )


def _print_line(text: str) -> None:
    sys.stderr.write(text + "\n")
