"""Outcomes of points on disk, one line each, appended as they come.

Every process that writes has a file of its own, so nothing is locked and a torn line can only be
the last of a file.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Self

from ..folders.writing import writing
from ..workers.worker_pool import Outcome

SCHEMA = 1


class OutcomeStore:
    """The outcomes of the points of one scenario.

    Parameters
    ----------
    folder : Path
        Of all sweeps of that scenario; made when something is written.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self._file: IO[str] | None = None

    def outcomes(self) -> Iterator[Outcome]:
        """All that was written, in no particular order; lines that are not whole are left out."""
        for file in sorted(self.folder.glob("*.jsonl")):
            with file.open(encoding="utf-8", errors="replace") as lines:
                for line in lines:
                    if (found := _read_outcome(line)) is not None:
                        yield found

    def other_folders(self) -> list[Path]:
        """Folders of outcomes that are not taken: of another machine, other traces or sources."""
        beside = self.folder.parent.glob("*/")
        return [] if self.folder.exists() else sorted(f for f in beside if any(f.glob("*.jsonl")))

    def write(self, outcome: Mapping[str, Any]) -> None:
        """Keep one outcome; when this returns it is on the disk.

        Raises
        ------
        ScenarioError
            The folder cannot be written.
        """
        with writing(self.folder):
            if self._file is None:
                self.folder.mkdir(parents=True, exist_ok=True)
                self._file = (self.folder / f"{uuid.uuid4().hex}.jsonl").open("x", encoding="utf-8")
            self._file.write(json.dumps({"schema": SCHEMA, **outcome}) + "\n")
            self._file.flush()
            os.fsync(self._file.fileno())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()


def _read_outcome(line: str) -> Outcome | None:
    """One outcome; None for a line that was torn, or that another version wrote."""
    try:
        found = json.loads(line)
    except ValueError:
        return None
    if not isinstance(found, dict) or found.get("schema") != SCHEMA or not line.endswith("\n"):
        return None
    return found if isinstance(found.get("key"), str) else None
