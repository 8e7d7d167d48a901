"""Log of what devices answer, a line on disk for each: what is left where a process is killed.

A run or a check that ends in any other way removes it; the next one of the same scenario makes of
it what an interrupted one leaves.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ...hil.coupling.journal import JournalEntry, entry_of_json
from ...hil.recording import Recording, sample_from_json, sample_to_json
from ...hil.sample import Sample
from ...sim.errors import RecordingError

NAME = ".answers-{}-{}.jsonl"  # the scenario's key, the process


class AnswerLog:
    """Lines on disk, from the first answer on.

    Parameters
    ----------
    folder : of the runs of a scenario
    key : of the scenario
    """

    def __init__(self, folder: Path, key: str):
        self.path = folder / NAME.format(key, os.getpid())
        self.file: int | None = None

    def begin_run(self, variant: str) -> None:
        """From here on answers drive this variant, anew."""
        self._append({"variant": variant})

    def entry(self, variant: str, entry: JournalEntry) -> None:
        """Keep an answer of a coupled run."""
        self._append({"variant": variant, "entry": asdict(entry)})

    def sample(self, component: str, sample: Sample, head: Recording) -> None:
        """Keep a batch of a check, and of what it is."""
        told = {k: v for k, v in vars(head).items() if k not in ("samples", "failed")}
        self._append({"component": component, "head": told, "sample": sample_to_json(sample)})

    def remove(self) -> None:
        """Nothing of it is needed any more."""
        if self.file is not None:
            self.path.unlink(missing_ok=True)
            os.close(self.file)
            self.file = None

    def _append(self, line: Mapping[str, Any]) -> None:
        if self.file is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            fcntl.flock(self.file, fcntl.LOCK_EX)
        os.write(self.file, json.dumps(line).encode() + b"\n")


def abandoned_logs(folder: Path, key: str) -> Iterator[Path]:
    """Logs of processes that were killed; each is removed once it has been dealt with."""
    for path in sorted(folder.glob(NAME.format(key, "*"))):
        with suppress(FileNotFoundError, BlockingIOError), path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield path
            path.unlink()


def read_answers(path: Path) -> tuple[dict[str, list[JournalEntry]], dict[str, Recording]]:
    """Journals by variant and recordings by component; a line that was not finished is left out.

    Raises
    ------
    RecordingError
        It is of another version, or was changed.
    """
    journals: dict[str, list[JournalEntry]] = {}
    heads: dict[str, dict[str, Any]] = {}
    samples: dict[str, list[Sample]] = {}
    whole = path.read_text().rpartition("\n")[0]
    try:
        for told in map(json.loads, whole.splitlines()):
            if "component" in told:
                heads[told["component"]] = told["head"]
                samples.setdefault(told["component"], []).append(sample_from_json(told["sample"]))
            elif "entry" in told:
                journals[told["variant"]].append(entry_of_json(told["entry"]))
            else:
                journals[told["variant"]] = []
        recordings = {c: Recording(**head, samples=tuple(samples[c])) for c, head in heads.items()}
    except (KeyError, TypeError, ValueError) as error:
        raise RecordingError(f"{path}: is damaged ({error}); remove it") from error
    return {v: entries for v, entries in journals.items() if entries}, recordings
