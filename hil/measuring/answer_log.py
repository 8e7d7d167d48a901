"""Log of what devices answer, a line on disk for each: what is left where a process is killed.

What ends in any other way, a run, a check or a work list, removes it; the next one of the same key
makes of it what an interrupted one leaves.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ...sim.errors import RecordingError
from ..recording import Recording, sample_from_json, sample_to_json
from ..sample import Sample

NAME = ".answers-{}-{}.jsonl"  # its key, the process


class AnswerLog:
    """Lines on disk, from the first answer on.

    Parameters
    ----------
    folder : of the runs of a scenario, or of recordings
    key : of the scenario, or of what is recorded
    """

    def __init__(self, folder: Path, key: str):
        self.path = folder / NAME.format(key, os.getpid())
        self.file: int | None = None

    def append(self, line: Mapping[str, Any]) -> None:
        """Keep a line of the caller's own; the kernel has it when this returns."""
        while self.file is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            new = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            fcntl.flock(new, fcntl.LOCK_EX)
            if os.fstat(new).st_nlink:
                self.file = new
            else:  # who looks for abandoned ones found it before it was locked
                os.close(new)
        os.write(self.file, json.dumps(line).encode() + b"\n")

    def sample(self, component: str, sample: Sample, head: Recording) -> None:
        """Keep a batch that was measured, and of what it is."""
        told = {k: v for k, v in vars(head).items() if k not in ("samples", "failed")}
        self.append({"component": component, "head": told, "sample": sample_to_json(sample)})

    def remove(self) -> None:
        """Nothing of it is needed any more."""
        if self.file is not None:
            self.path.unlink(missing_ok=True)
            os.close(self.file)
            self.file = None


def abandoned_logs(folder: Path, key: str) -> Iterator[Path]:
    """Logs of processes that were killed; each is removed once it has been dealt with."""
    for path in sorted(folder.glob(NAME.format(key, "*"))):
        with suppress(FileNotFoundError, BlockingIOError), path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield path
            path.unlink()


def read_log(path: Path) -> tuple[list[dict[str, Any]], dict[str, Recording]]:
    """The caller's own lines, and recordings by component; a line that was cut is left out.

    Raises
    ------
    RecordingError
        It is of another version, or was changed.
    """
    own: list[dict[str, Any]] = []
    heads: dict[str, dict[str, Any]] = {}
    samples: dict[str, list[Sample]] = {}
    whole = path.read_text().rpartition("\n")[0]
    with name_file_in_errors(path):
        for told in map(json.loads, whole.splitlines()):
            if "component" in told:
                heads[told["component"]] = told["head"]
                samples.setdefault(told["component"], []).append(sample_from_json(told["sample"]))
            else:
                own.append(told)
        recordings = {c: Recording(**head, samples=tuple(samples[c])) for c, head in heads.items()}
    return own, recordings


@contextmanager
def name_file_in_errors(path: Path) -> Iterator[None]:
    """Block that reads lines of a log; what does not fit names the file.

    Raises
    ------
    RecordingError
        A line is not as it was written.
    """
    try:
        yield
    except (KeyError, TypeError, ValueError) as error:
        raise RecordingError(f"{path}: is damaged ({error}); remove it") from error
