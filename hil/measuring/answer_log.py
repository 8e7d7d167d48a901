"""Crash-safe log of device samples: one line on disk per sample, readable after a kill.

A run, check or work list that ends normally removes its log. If the process was killed, the next
one with the same key reads the log and saves what it holds.
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
    """Log file of device samples; it is created with the first line.

    Parameters
    ----------
    folder : folder of a scenario's runs, or of recordings
    key : text that identifies the scenario, or the device that is recorded
    """

    def __init__(self, folder: Path, key: str):
        self.path = folder / NAME.format(key, os.getpid())
        self.file: int | None = None

    def append(self, line: Mapping[str, Any]) -> None:
        """Write one line of any content.

        It survives a kill of this process once this call returns.
        """
        while self.file is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            new = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            fcntl.flock(new, fcntl.LOCK_EX)
            if os.fstat(new).st_nlink:
                self.file = new
            else:  # who looks for abandoned ones found it before it was locked
                os.close(new)
        os.write(self.file, json.dumps(line).encode() + b"\n")

    def write_sample(self, component: str, sample: Sample, head: Recording) -> None:
        """Write a sample, with the component and the recording header it belongs to."""
        told = {k: v for k, v in vars(head).items() if k not in ("samples", "failed")}
        self.append({"component": component, "head": told, "sample": sample_to_json(sample)})

    def remove(self) -> None:
        """Delete the log, because it is no longer needed."""
        if self.file is not None:
            self.path.unlink(missing_ok=True)
            os.close(self.file)
            self.file = None


def abandoned_logs(folder: Path, key: str) -> Iterator[Path]:
    """Yield the logs of killed processes; each is deleted after the caller has handled it."""
    for path in sorted(folder.glob(NAME.format(key, "*"))):
        with suppress(FileNotFoundError, BlockingIOError), path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield path
            path.unlink()


def read_log(path: Path) -> tuple[list[dict[str, Any]], dict[str, Recording]]:
    """Read a log: the lines from ``append``, and a recording of the samples of each component.

    An incomplete last line is ignored.

    Raises
    ------
    RecordingError
        The log has another version or was changed.
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
    """Context manager that reports malformed lines of a log as an error that names the file.

    Raises
    ------
    RecordingError
        A line is malformed.
    """
    try:
        yield
    except (KeyError, TypeError, ValueError) as error:
        raise RecordingError(f"{path}: is damaged ({error}); remove it") from error
