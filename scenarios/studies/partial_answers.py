"""Answers of devices before a run or a check ended early: kept in a folder of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from ...hil.coupling.journal import write_journal
from ...hil.recording import SUFFIX, Recording
from ...sim.errors import ForetraceError
from ..config.hil_settings import journal_file_name
from ..config.scenario import Scenario
from .coupled_machine import CoupledDevices
from .output_folder import KEY, replaced_folder, write_scenario

Tell = Callable[[str], None]


@dataclass
class PartialAnswers:
    """What devices answered until now.

    Parameters
    ----------
    driven : devices that drive a run, by variant
    measured : by component, its recording until now; why it ends is given
    """

    driven: dict[str, CoupledDevices] = field(default_factory=dict)
    measured: dict[str, Callable[[str], Recording]] = field(default_factory=dict)

    def save(self, scenario: Scenario, out: Path, why: str) -> Path | None:
        """Write them under ``OUT/NAME/partial-KEY``; returns its folder, None for no answers."""
        journals = {v: d.journal for v, d in self.driven.items() if d.journal}
        recordings = {c: r for c, told in self.measured.items() if (r := told(why)).samples}
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
def partial_answers_kept(scenario: Scenario, out: Path, tell: Tell) -> Iterator[PartialAnswers]:
    """Context that keeps what devices answered where it ends in an error or is interrupted.

    Parameters
    ----------
    out : folder of all runs
    tell : told where it is
    """
    partial = PartialAnswers()
    try:
        yield partial
    except (ForetraceError, KeyboardInterrupt) as error:
        why = "interrupted" if isinstance(error, KeyboardInterrupt) else str(error)
        if (folder := partial.save(scenario, out, why)) is not None:
            tell(f"what was measured before is in {folder}")
        raise
