"""Journals of a plan: files of samples that survive a kill of the process.

A folder has one numbered journal per process start. A journal has a header line, one line per
batch, and a last line once the piece is complete. A kill can only tear the last line, which is then
ignored.
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
    """Content of a journal: the samples that one process start measured, and its failed ops.

    Parameters
    ----------
    head : header: driver, device, host, date, versions, settings, piece and round
    samples : samples measured in this process start
    failed : ops that failed on the device
    seconds : time that the piece took, in s; 0 if it was not completed
    """

    head: Mapping[str, Any]
    samples: list[Sample] = field(default_factory=list)
    failed: list[FailedOp] = field(default_factory=list)
    seconds: float = 0.0


class PlanJournalWriter:
    """Writer of the journal of one process start of a plan.

    Parameters
    ----------
    folder : folder of all journals of a plan
    number : number of the process start
    head : header of the journal: driver, device, host, date, versions, settings, piece and round
    """

    def __init__(self, folder: Path, number: int, head: Mapping[str, Any]):
        folder.mkdir(parents=True, exist_ok=True)
        self.file: IO[str] = journal_path(folder, number).open("x")
        self._line({"head": dict(head)})

    def write_sample(self, sample: Sample) -> None:
        """Write one sample. It survives a kill of this process once this call returns."""
        self._line({"sample": sample_to_json(sample)})

    def write_end(self, failed: list[FailedOp], seconds: float) -> None:
        """Write the last line, which marks the piece as complete."""
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
    """Path of the journal of one process start.

    >>> journal_path(Path("kept"), 7).name
    'start-0007.jsonl'
    """
    return folder / f"start-{number:04d}.jsonl"


def read_journals(folder: Path) -> dict[int, Journal]:
    """Read all journals of a folder, by number of the process start.

    A journal that was torn before the end of its header line is ignored.

    Raises
    ------
    RecordingError
        A line other than the last is damaged, or the journals are of different devices.
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
    """Merge the samples of all journals into one recording.

    Parameters
    ----------
    ended : reason why the recording is incomplete; "" if complete
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
    """Lines of a journal; an incomplete last line is ignored."""
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
