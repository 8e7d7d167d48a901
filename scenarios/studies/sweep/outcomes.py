"""Outcomes of points on disk, one JSON line each, appended as they finish.

Every writing process has its own file, so no lock is needed, and only the last line of a file can
be incomplete.
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
    """Store of the outcomes of one scenario's points.

    Parameters
    ----------
    folder : Path
        Folder for all sweeps of the scenario; created at the first write.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self._file: IO[str] | None = None

    def outcomes(self) -> Iterator[Outcome]:
        """All stored outcomes in no particular order; incomplete lines are skipped."""
        for file in sorted(self.folder.glob("*.jsonl")):
            with file.open(encoding="utf-8", errors="replace") as lines:
                for line in lines:
                    if (found := _read_outcome(line)) is not None:
                        yield found

    def other_folders(self) -> list[Path]:
        """Folders with outcomes that cannot be reused: of another machine, trace or source code."""
        beside = self.folder.parent.glob("*/")
        return [] if self.folder.exists() else sorted(f for f in beside if any(f.glob("*.jsonl")))

    def write(self, outcome: Mapping[str, Any]) -> None:
        """Store one outcome; it is on disk when this returns.

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
    """Parse one outcome; None for an incomplete line or one of another version."""
    try:
        found = json.loads(line)
    except ValueError:
        return None
    if not isinstance(found, dict) or found.get("schema") != SCHEMA or not line.endswith("\n"):
        return None
    return found if isinstance(found.get("key"), str) else None
