"""``foretrace hil record``: measure a work list here, or check a recording from another machine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ....sim.errors import DriverFault, RecordingError, SimulationError
from ..terminal.common import Json, print_json, progress_printer
from .hil import hil

if TYPE_CHECKING:
    from ....hil.measuring.plan import RecordingPlan
    from ....hil.recording import Recording


@hil.command()
def record(
    work: Annotated[Path | None, typer.Argument(help="Work list or plan from 'hil plan'.")] = None,
    out: Annotated[Path, typer.Option("--out", help="Folder for the recording.")] = Path(),
    agent: Annotated[str, typer.Option(help="Name of an agent in your agents.yaml.")] = "",
    busy: Annotated[
        float, typer.Option(help="Cores that other programs may use; above it, measuring fails.")
    ] = -1.0,
    read: Annotated[
        Path | None, typer.Option(help="Recording or plan folder to check and describe.")
    ] = None,
    json: Json = False,
) -> None:
    """Measure a work list and save the recording. ``--read`` checks an existing recording."""
    if (work is None) == (read is None):
        raise typer.BadParameter("give a work list, or --read RECORDING")
    from ....hil.recording import read as read_recording

    path = read if work is None else _measure_work(work, out, agent, busy)
    if path is not None and path.is_dir():
        recording = _recording_of_folder(path)
    else:
        recording = read_recording(path or Path())
    told = _recording_facts(str(path), recording)
    if json:
        print_json(told)
    else:
        _print_recording_facts(told)
    if recording.ended:
        raise _shortfall_error(str(path), recording, new=work is not None)
    if recording.failed and work is not None:
        count, ops = len(recording.failed), told["ops"]
        raise DriverFault("broken", f"{count} ops failed, {ops} were measured, in {path}; see the "
                          "failures above, and record these ops again")  # fmt: skip


def _measure_work(work: Path, out: Path, agent: str, busy: float) -> Path:
    """Measure a work list or a plan; partial recordings are saved too."""
    from ....hil.connection import connect_driver
    from ....hil.measuring.plan import RecordingPlan, is_plan
    from ....hil.measuring.plan_run import run_plan
    from ....hil.measuring.work_list import WorkList
    from ....hil.measuring.work_recording import record_work

    if is_plan(work):
        opener = lambda name: lambda: connect_driver(name, agent)  # noqa: E731
        return run_plan(
            _with_busy(RecordingPlan.read(work), busy), out, opener, progress_printer(False)
        )
    asked = WorkList.read(work)
    asked = asked if busy < 0 else replace(asked, busy=busy)
    tell = progress_printer(quiet=False)
    return record_work(asked, lambda: connect_driver(asked.driver, agent), out, tell)


def _with_busy(plan: RecordingPlan, busy: float) -> RecordingPlan:
    """Copy of a plan that allows ``busy`` cores to be used by others; unchanged if negative."""
    if busy < 0:
        return plan
    pieces = (replace(p, work=replace(p.work, busy=busy)) for p in plan.pieces)
    return replace(plan, pieces=tuple(pieces))


def _recording_of_folder(folder: Path) -> Recording:
    """Recording made of the journals that a plan's folder has so far."""
    from ....hil.measuring.plan_journal import read_journals, recording_of_journals

    journals = read_journals(folder)
    if not journals:
        raise RecordingError(f"{folder}: has no journal of a plan; give the --out folder of a plan")
    return recording_of_journals(journals)


def _shortfall_error(
    path: str, recording: Recording, new: bool
) -> RecordingError | DriverFault | SimulationError:
    """Error for a partial recording; its type gives the exit code."""
    kept = f"; samples measured so far are in {path}"
    if not new:
        return RecordingError(f"{path}: is partial ({recording.ended}); record the rest")
    if (fault := recording.fault) is not None:
        return DriverFault(fault.kind, fault.message + kept)
    return SimulationError("unfinished", recording.ended + kept)


def _recording_facts(path: str, recording: Recording) -> dict[str, Any]:
    import numpy as np

    from ....hil.measuring.spread import difference_between_starts, samples_by_key

    apart = [
        v for v in difference_between_starts(recording.samples).values() if np.isfinite(v)
    ] or [np.nan]
    return {
        "file": path,
        "source": recording.source,
        "ops": len(samples_by_key(recording.samples)),
        "samples": len(recording.samples),
        "not_fitted": sum(not s.good for s in recording.samples),
        "starts": len({s.start for s in recording.samples}),
        "between_starts": float(np.median(apart)),
        "between_starts_p95": float(np.quantile(apart, 0.95)),
        "failed": [row._asdict() for row in recording.failed],
        "ended": recording.ended,
    }


def _print_recording_facts(facts: dict[str, Any]) -> None:
    typer.echo(f"{facts['file']}: {facts['source']}")
    typer.echo(
        f"{facts['ops']} ops, {facts['samples']} samples, {facts['not_fitted']} excluded from "
        f"fits, {facts['starts']} starts"
    )
    for row in facts["failed"]:
        typer.echo(f"failed: {row['signature']} ({row['context']}): {row['fault']}")
    if facts["starts"] > 1:
        typer.echo(
            f"two halves of the starts differ by {facts['between_starts']:.1%} (median), "
            f"{facts['between_starts_p95']:.1%} (p95)"
        )
