"""Execution of a recording plan, piece by piece; an interrupted plan continues where it stopped."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...sim.errors import DriverFault, SimulationError
from ..driver import Driver
from .measurement import Measurement
from .plan import PlanPiece, RecordingPlan
from .plan_journal import (
    WHOLE,
    Journal,
    PlanJournalWriter,
    journal_path,
    read_journals,
    recording_of_journals,
)
from .work_list import WorkList

log = logging.getLogger(__name__)
Opener = Callable[[], Driver]
Key = tuple[str, str]


@dataclass(frozen=True)
class Progress:
    """Progress of a recording plan: what is measured and what remains.

    Parameters
    ----------
    plan : the complete plan
    journals : journals by number of the process start
    """

    plan: RecordingPlan
    journals: Mapping[int, Journal]

    @property
    def failed(self) -> set[Key]:
        """Keys of ops that failed on the device; they are not requested again."""
        return {(row.signature, row.context) for j in self.journals.values() for row in j.failed}

    def remaining_work(self, piece: PlanPiece, number: int) -> WorkList | None:
        """Work list of the ops of a piece that are not yet measured in round ``number``.

        None if the piece is complete in that round.
        """
        mine = [j for j in self.journals.values() if _is_of(j, piece, number)]
        if any(j.seconds for j in mine):
            return None
        batches = Counter(s.key for j in mine for s in j.samples)
        left = tuple(
            r for r in piece.work.requests
            if r.key not in self.failed and batches[r.key] < piece.work.blocks
        )  # fmt: skip
        return replace(piece.work, requests=left) if left else None

    def remaining_pieces(self) -> Iterator[tuple[int, PlanPiece, WorkList]]:
        """Yield round, piece and remaining work of each piece that is not complete, in order."""
        for number in range(self.plan.rounds):
            for piece in self.plan.pieces:
                work = self.remaining_work(piece, number)
                if work is not None:
                    yield number, piece, work

    @property
    def seconds_left(self) -> float:
        """Estimated time to complete the plan, in s.

        It is the planned time of the remaining work, scaled by the ratio of actual to planned time
        so far.
        """
        planned = {p.name: p.seconds for p in self.plan.pieces}
        through = [j for j in self.journals.values() if j.seconds and j.head["piece"] in planned]
        whole = [j for j in through if j.head["of"] == 1.0]
        needed = sum(j.seconds for j in whole)
        told = sum(planned[j.head["piece"]] for j in whole)
        factor = needed / told if told else 1.0
        return factor * sum(
            p.seconds * len(work.requests) / len(p.work.requests)
            for _, p, work in self.remaining_pieces()
        )

    def status_line(self) -> str:
        """One line of text that reports the progress."""
        left = len(list(self.remaining_pieces()))
        every = self.plan.rounds * len(self.plan.pieces)
        return f"{every - left} of {every} pieces done, about {time_text(self.seconds_left)} left"


def run_plan(
    plan: RecordingPlan,
    folder: Path,
    opener: Callable[[str], Opener],
    on_progress: Callable[[str], None] = log.info,
) -> Path:
    """Measure the remaining work of a plan; returns the path of the recording in that folder.

    Every batch is on disk before the next one begins, so a plan may be stopped at any time and
    started again. If two processes run a plan in one folder, the second fails because the device is
    locked.

    Parameters
    ----------
    opener : returns, for a driver name, a function that starts this driver in a new process

    Raises
    ------
    DriverFault
        The device is missing, busy, or ended. Samples measured so far are kept.
    SimulationError
        A piece exceeded its time limit. The next start continues with it.
    """
    progress = Progress(plan, read_journals(folder))
    on_progress(progress.status_line())
    while (following := next(progress.remaining_pieces(), None)) is not None:
        number, piece, work = following
        on_progress(f"{piece.name}, round {number + 1} of {plan.rounds}: {len(work.requests)} ops")
        try:
            _measure_piece(progress, number, piece, work, folder, opener(work.driver))
        finally:
            progress = Progress(plan, read_journals(folder))
            write_recording(progress, folder)
        on_progress(progress.status_line())
    return folder / WHOLE


def write_recording(progress: Progress, folder: Path) -> Path | None:
    """Write all samples measured so far as one recording; returns None if there are none."""
    if not any(j.samples for j in progress.journals.values()):
        return None
    ended = progress.status_line() if next(progress.remaining_pieces(), None) else ""
    recording_of_journals(progress.journals, ended).write(folder / WHOLE)
    return folder / WHOLE


def _measure_piece(
    progress: Progress, number: int, piece: PlanPiece, work: WorkList, folder: Path, opener: Opener
) -> None:
    """Measure a piece in one process start and write its samples to a new journal."""
    begin = time.monotonic()
    writer: list[PlanJournalWriter] = []

    def journal(measurement: Measurement, share: float) -> PlanJournalWriter:
        """Writer of the journal; created with the first sample, when the device is known."""
        if not writer:
            start = _next_start(progress, folder)
            writer.append(
                PlanJournalWriter(folder, start, _head(measurement, piece, number, share))
            )
        return writer[0]

    share = len(work.requests) / len(piece.work.requests)
    under_way = Measurement(work, opener, log.info)
    under_way.on_sample = lambda sample: journal(under_way, share).write_sample(sample)
    try:
        recording = under_way.run()
        if recording.fault is not None:
            raise recording.fault
        if recording.ended:
            raise SimulationError(
                "unfinished", f"{piece.name}: {recording.ended}; start again to continue"
            )
        journal(under_way, share).write_end(list(recording.failed), time.monotonic() - begin)
    except DriverFault:
        if under_way.samples or not under_way.failed:
            raise
        failed = list(under_way.recording().failed)  # ops of all requests
        journal(under_way, 0.0).write_end(failed, time.monotonic() - begin)
    finally:
        for one in writer:
            one.close()


def _next_start(progress: Progress, folder: Path) -> int:
    """Number for the next process start: one that no journal has, not even an incomplete one."""
    start = max(progress.journals, default=-1) + 1
    while journal_path(folder, start).exists():
        start += 1
    return start


def _head(measurement: Measurement, piece: PlanPiece, number: int, share: float) -> dict[str, Any]:
    """Header line of a journal; ``share`` is the fraction of the piece's ops that it measures."""
    now = measurement.recording()
    told = {"driver": now.driver, "device": now.device, "host": now.host, "date": now.date}
    whose = {"piece": piece.name, "round": number, "of": share}
    return {**told, "versions": dict(now.versions), "spec": dict(now.spec), **whose}


def _is_of(journal: Journal, piece: PlanPiece, number: int) -> bool:
    return (journal.head["piece"], journal.head["round"]) == (piece.name, number)


def time_text(seconds: float) -> str:
    """Format a duration in minutes and hours.

    >>> time_text(50), time_text(3 * 60), time_text(6660)
    ('1 min', '3 min', '1 h 51 min')
    """
    hours, minutes = divmod(max(1, round(seconds / 60)), 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min"
