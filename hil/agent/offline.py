"""Offline measuring: a work list read from a file, its recording written to a file."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from ...sim.errors import DriverFault
from ..measuring.measurement import measure
from ..measuring.work_list import WorkList
from .local_agent import in_agent_process


def record_work_list(path: Path, out: Path, allow: Sequence[str] = ()) -> Path:
    """Run a work list, each start in a new process; returns the path of the recording.

    Raises
    ------
    RecordingError
        It is no work list.
    DriverFault
        The driver is not allowed here, or does not work.
    """
    work = WorkList.read(path)
    if allow and work.driver not in allow:
        raise DriverFault("denied", f"this agent serves {', '.join(allow)}, not {work.driver!r}")
    recording = measure(work, lambda: in_agent_process(work.driver), _print_line)
    kept = recording.keep(out)
    _print_line(f"wrote {kept}: {len(recording.samples)} samples{recording.ended and ', partial: '}"
         f"{recording.ended}")  # fmt: skip
    for row in recording.failed:
        _print_line(f"failed: {row.signature} ({row.context}): {row.fault}")
    return kept


def _print_line(text: str) -> None:
    sys.stderr.write(text + "\n")
