"""Measure a work list into a folder; samples are kept even if interrupted or killed."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from ...sim.errors import DriverFault
from ..driver import Driver
from .answer_log import AnswerLog, abandoned_logs, read_log
from .measurement import Measurement
from .work_list import WorkList

log = logging.getLogger(__name__)
Tell = Callable[[str], None]
KEY = "recording"  # of the logs in a folder, whichever work list they are of


def record_work(
    work: WorkList, opener: Callable[[], Driver], folder: Path, on_progress: Tell = log.info
) -> Path:
    """Measure a work list and write its recording into a folder; returns the path.

    Each batch is on disk before the next one begins. If a killed process left samples in the
    folder, they are made into a recording first.

    Parameters
    ----------
    opener : starts a driver, each time in a new process

    Raises
    ------
    DriverFault
        The device is missing, busy or fails before anything was measured.
    """
    _keep_abandoned(folder, on_progress)
    answers = AnswerLog(folder, KEY)
    under_way = Measurement(work, opener, on_progress)
    under_way.on_sample = lambda sample: answers.write_sample(
        work.driver, sample, replace(under_way.recording("killed"), samples=())
    )
    try:
        kept = under_way.run().write_into(folder)
    except KeyboardInterrupt:
        if under_way.samples:
            partial = under_way.recording("interrupted").write_into(folder)
            on_progress(f"samples measured so far are in {partial}")
        answers.remove()
        raise
    except DriverFault:  # before anything was measured
        answers.remove()
        raise
    answers.remove()
    return kept


def _keep_abandoned(folder: Path, on_progress: Tell) -> None:
    """Write recordings of the samples that killed processes left behind."""
    for path in abandoned_logs(folder, KEY):
        for recording in read_log(path)[1].values():
            kept = recording.write_into(folder)
            on_progress(f"samples that a killed process had measured are in {kept}")
