"""Saved runs and sweeps: list, find by name, remove."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ....sim.errors import ScenarioError
from ...config.problems import did_you_mean_text

POINTS = ".points"
MANIFEST = "manifest.json"


@dataclass(frozen=True)
class SavedRun:
    """One saved run or sweep.

    Parameters
    ----------
    folder : Path
    manifest : content of its ``manifest.json``
    """

    folder: Path
    manifest: dict[str, Any]

    @property
    def name(self) -> str:
        """Name of the run; the parent folder has the name of the scenario."""
        return self.folder.name

    @property
    def file(self) -> Path:
        """Scenario file of the run, as typed."""
        return Path(self.manifest.get("scenario", {}).get("file", ""))

    def name_begins_with(self, text: str) -> bool:
        """True if its name, or ``scenario/name``, begins with a text."""
        own = f"{self.folder.parent.name}/{self.name}" if "/" in text else self.name
        return own.startswith(text)

    def facts(self) -> dict[str, Any]:
        """Plain dictionary for tables and ``--json``."""
        told = self.manifest
        return {
            "run": self.name,
            "scenario": self.folder.parent.name,
            "kind": told.get("kind", "run"),
            "date": told.get("date", ""),
            "seconds": told.get("wall_seconds"),
            "bytes": folder_size(self.folder),
            "folder": str(self.folder),
        }


def saved_runs(out: Path) -> list[SavedRun]:
    """All finished runs and sweeps below a folder, newest first."""
    found = [s for file in out.glob(f"*/*/{MANIFEST}") if (s := _read_run(file)) is not None]
    found = [s for s in found if not s.name.startswith(".")]
    return sorted(found, key=lambda s: (s.manifest.get("date", ""), s.name), reverse=True)


def _read_run(file: Path) -> SavedRun | None:
    """Saved run of a manifest file; None if it cannot be read."""
    try:
        told = json.loads(file.read_text())
    except (OSError, ValueError):
        return None
    return SavedRun(file.parent, told) if isinstance(told, dict) else None


def newest_or_named_run(name: str, out: Path) -> Path:
    """Folder of the run of a given name, or of the newest run of a scenario.

    A scenario is given by name, folder or file.
    """
    own = Path(name).resolve()
    for saved in saved_runs(out):  # the newest first
        scenario = saved.folder.parent
        if name == scenario.name or own in (scenario.resolve(), saved.file.resolve()):
            return saved.folder
    return find_run_folder(name, out)


def find_run_folder(name: str, out: Path) -> Path:
    """Folder of a run, by path or by the beginning of its name.

    Parameters
    ----------
    name : str
    out : Path
        Folder of all runs.

    Raises
    ------
    ScenarioError
        No run matches, or several do.
    """
    if (Path(name) / MANIFEST).is_file():
        return Path(name)
    known = saved_runs(out)
    if inside := [s.name for s in known if s.folder.parent.resolve() == Path(name).resolve()]:
        raise ScenarioError(f"{name}: contains several runs; name one: {', '.join(inside[:6])}")
    fitting = [s for s in known if s.name == name] or [s for s in known if s.name_begins_with(name)]
    if len(fitting) == 1:
        return fitting[0].folder
    if fitting:
        names = ", ".join(f"{s.folder.parent.name}/{s.name}" for s in fitting[:6])
        raise ScenarioError(f"{name}: matches several runs: {names}; write more of the name")
    hint = (
        did_you_mean_text(name, [s.name for s in known])
        or "; there are none yet, see: foretrace run --help"
    )
    raise ScenarioError(f"{name}: no saved run in {out}{hint}")


def remove_run(folder: Path) -> None:
    """Remove a saved run, and the folder of its scenario if it is then empty.

    Raises
    ------
    ScenarioError
        It is not a saved run, or it cannot be removed.
    """
    if not (folder / MANIFEST).is_file():
        raise ScenarioError(f"{folder}: is not a saved run; give a run folder")
    try:
        (folder / MANIFEST).unlink()  # first, so that a half-removed folder is not a run
        shutil.rmtree(folder)
        if not any(folder.parent.iterdir()):
            folder.parent.rmdir()
    except OSError as error:
        raise ScenarioError(
            f"{folder}: cannot be removed ({error}); check its permissions"
        ) from error


def sweep_cache_folders(out: Path) -> Iterator[Path]:
    """Folders with outcomes of points, from which sweeps resume."""
    yield from sorted(out.glob(f"*/{POINTS}"))


def remove_sweep_caches(out: Path) -> int:
    """Remove the stored outcomes of all sweeps; returns the freed bytes."""
    freed = 0
    for folder in sweep_cache_folders(out):
        freed += folder_size(folder)
        shutil.rmtree(folder)
        if not any(folder.parent.iterdir()):
            folder.parent.rmdir()
    return freed


def folder_size(folder: Path) -> int:
    """Total bytes of all files below a folder."""
    return sum(f.stat().st_size for f in folder.rglob("*") if f.is_file())
