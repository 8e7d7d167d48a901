"""Measurements of devices from a run or check that ended early, saved in their own folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path

from ....hil.coupling.journal import JournalEntry, entry_of_json, write_journal
from ....hil.measuring.answer_log import AnswerLog, abandoned_logs, name_file_in_errors, read_log
from ....hil.recording import SUFFIX, Recording
from ....hil.sample import Sample
from ....sim.errors import ForetraceError
from ...config.hil_settings import journal_file_name
from ...config.scenario import Scenario
from ..building.coupled_machine import CoupledDevices
from .output_folder import KEY, replaced_folder, write_scenario

Tell = Callable[[str], None]
Told = Callable[[str], Recording]
KILLED = "killed"


@dataclass
class PartialAnswers:
    """Measurements of devices that a run or check has made so far.

    Parameters
    ----------
    driven : devices that drive a run, by variant
    measured : by component, a function that takes the reason why measuring ended and returns the
        recording
    log : log on disk, which survives a kill of the process; None to keep no log
    """

    driven: dict[str, CoupledDevices] = field(default_factory=dict)
    measured: dict[str, Told] = field(default_factory=dict)

    log: AnswerLog | None = None

    def record_driving_devices(self, variant: str, devices: CoupledDevices) -> None:
        """Register the devices that drive a variant, so that their measurements are saved."""
        self.driven[variant] = devices
        if self.log is not None:
            self.log.append({"variant": variant})
            for writer in devices.writers.values():
                writer.on_entry = partial(_log_entry, self.log, variant)

    def record_measurement(
        self, component: str, recording_so_far: Told
    ) -> Callable[[Sample], None]:
        """Register a component to measure; returns a function to call with each new sample.

        Parameters
        ----------
        recording_so_far : function from the reason why measuring ended to the recording
        """
        self.measured[component] = recording_so_far

        def noted(sample: Sample) -> None:
            if self.log is not None:
                self.log.write_sample(
                    component, sample, replace(recording_so_far(KILLED), samples=())
                )

        return noted

    def save(self, scenario: Scenario, out: Path, why: str) -> Path | None:
        """Write measurements to ``OUT/NAME/partial-KEY``; returns the folder, None for none."""
        journals = {v: d.journal for v, d in self.driven.items() if d.journal}
        recordings = {c: r for c, told in self.measured.items() if (r := told(why)).samples}
        return _save_answers(scenario, out, journals, recordings)


def _log_entry(log: AnswerLog, variant: str, entry: JournalEntry) -> None:
    log.append({"variant": variant, "entry": asdict(entry)})


def _read_answers(path: Path) -> tuple[dict[str, list[JournalEntry]], dict[str, Recording]]:
    """Journals by variant, each from its latest start on, and recordings by component."""
    lines, recordings = read_log(path)
    journals: dict[str, list[JournalEntry]] = {}
    with name_file_in_errors(path):
        for told in lines:
            if "entry" in told:
                journals[told["variant"]].append(entry_of_json(told["entry"]))
            else:
                journals[told["variant"]] = []
    return {v: entries for v, entries in journals.items() if entries}, recordings


def _save_answers(
    scenario: Scenario,
    out: Path,
    journals: Mapping[str, list[JournalEntry]],
    recordings: Mapping[str, Recording],
) -> Path | None:
    if not journals and not recordings:
        return None
    folder = out / scenario.name / f"partial-{scenario.digest()[:KEY]}"
    with replaced_folder(folder) as whole:
        write_scenario(whole, scenario)
        for variant, entries in journals.items():
            write_journal(whole / journal_file_name(variant), entries)
        for component, recording in recordings.items():
            recording.write(whole / f"{component}{SUFFIX}")
    return folder


@contextmanager
def keep_partial_answers(scenario: Scenario, out: Path, tell: Tell) -> Iterator[PartialAnswers]:
    """Context manager that saves the measurements of devices on an error or an interrupt.

    Measurements of an earlier, killed process are saved when it is entered.

    Parameters
    ----------
    out : folder of all runs
    tell : called with a message about the saved folder
    """
    folder, key = out / scenario.name, scenario.digest()[:KEY]
    for path in abandoned_logs(folder, key):
        if (left := _save_answers(scenario, out, *_read_answers(path))) is not None:
            tell(f"samples of the earlier, killed run are in {left}")
    log = AnswerLog(folder, key)
    kept = PartialAnswers(log=log)
    try:
        yield kept
    except (ForetraceError, KeyboardInterrupt) as error:
        why = "interrupted" if isinstance(error, KeyboardInterrupt) else str(error)
        if (saved := kept.save(scenario, out, why)) is not None:
            tell(f"samples measured so far are in {saved}")
        log.remove()
        raise
    log.remove()
