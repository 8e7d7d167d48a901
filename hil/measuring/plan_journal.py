"""Journals of a plan: every batch is a line that no kill takes back before the next is measured.

A folder has one journal for each start of a process, numbered: a line that says what it is of, a
line for each batch, and, once the piece is through, a line that says so.  What a kill tore off is
the last line at most, and is left out.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

from ...sim.errors import RecordingError
from ..recording import FailedOp, Recording, sample_from_json, sample_to_json
from ..sample import Sample

PATTERN = "start-*.jsonl"
WHOLE = "gpu.rec.gz"
SAME = ("driver", "device")


@dataclass
class Journal:
    """What one start of a process measured.

    Parameters
    ----------
    head : driver, device, host, date, versions, settings, piece and round
    samples : its batches
    failed : ops that the device failed at
    seconds : that the piece took; 0 where it did not come to its end
    """

    head: Mapping[str, Any]
    samples: list[Sample] = field(default_factory=list)
    failed: list[FailedOp] = field(default_factory=list)
    seconds: float = 0.0


class PlanJournalWriter:
    """Journal that is being written.

    Parameters
    ----------
    folder : of all journals of a plan
    number : of the start
    head : as ``Journal`` has it
    """

    def __init__(self, folder: Path, number: int, head: Mapping[str, Any]):
        folder.mkdir(parents=True, exist_ok=True)
        self.file: IO[str] = journal_path(folder, number).open("x")
        self._line({"head": dict(head)})

    def sample(self, sample: Sample) -> None:
        """One more batch; the kernel has it when this returns, whoever ends this process."""
        self._line({"sample": sample_to_json(sample)})

    def end(self, failed: list[FailedOp], seconds: float) -> None:
        """The piece is through."""
        for row in failed:
            self._line({"failed": list(row)})
        self._line({"seconds": seconds})
        os.fsync(self.file.fileno())  # a piece outlives the machine too

    def close(self) -> None:
        """Close the file."""
        self.file.close()

    def _line(self, told: Mapping[str, Any]) -> None:
        self.file.write(json.dumps(told, separators=(",", ":")) + "\n")
        self.file.flush()


def journal_path(folder: Path, number: int) -> Path:
    """File of a start's journal.

    >>> journal_path(Path("kept"), 7).name
    'start-0007.jsonl'
    """
    return folder / f"start-{number:04d}.jsonl"


def read_journals(folder: Path) -> dict[int, Journal]:
    """Journals by number of their start; those torn before their first line are left out.

    Raises
    ------
    RecordingError
        A line within is damaged, or they are of several devices.
    """
    found: dict[int, Journal] = {}
    for path in sorted(folder.glob(PATTERN)):
        lines = list(_whole_lines(path))
        if lines:
            found[int(path.name.split("-")[1].split(".")[0])] = _journal(path, lines)
    kinds = {tuple(j.head.get(k) for k in SAME) for j in found.values()}
    if len(kinds) > 1:
        told = " and ".join(sorted(" ".join(map(str, k)) for k in kinds))
        raise RecordingError(f"{folder}: holds samples of {told}; give each device its own folder")
    return found


def recording_of_journals(journals: Mapping[int, Journal], ended: str = "") -> Recording:
    """All batches as one recording, each start as it was.

    Parameters
    ----------
    ended : why it is not complete; "" where it is
    """
    first = next(iter(journals.values())).head
    failed = {(row.signature, row.context): row for j in journals.values() for row in j.failed}
    return Recording(
        driver=first["driver"],
        device=first["device"],
        host=first["host"],
        date=first["date"],
        versions=first["versions"],
        samples=tuple(
            replace(s, start=number) for number, j in journals.items() for s in j.samples
        ),
        ended=ended,
        note="plan",
        spec=first["spec"],
        failed=tuple(failed.values()),
    )


def _whole_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Lines of a journal; the last one only where it is whole."""
    lines = path.read_text().split("\n")
    for number, line in enumerate(lines[:-1], 1):  # what follows the last newline was torn off
        try:
            yield json.loads(line)
        except ValueError as error:
            raise RecordingError(
                f"{path}:{number}: is damaged ({error}); remove the file to measure it again"
            ) from error


def _journal(path: Path, lines: list[dict[str, Any]]) -> Journal:
    try:
        made = Journal(lines[0]["head"])
        for line in lines[1:]:
            if "sample" in line:
                made.samples.append(sample_from_json(line["sample"]))
            elif "failed" in line:
                made.failed.append(FailedOp(*line["failed"]))
            else:
                made.seconds = float(line["seconds"])
        return made
    except (KeyError, TypeError, ValueError) as error:
        raise RecordingError(
            f"{path}: is damaged ({error}); remove the file to measure it again"
        ) from error
