"""Folder shared with a machine of the lab: a copy of the agent's code, nothing else."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from .build_cache import lab_folder

PACKAGE = Path(__file__).resolve().parents[2]
PARTS = ("__init__.py", "sim", "hil")
KINDS = {".py", ".sh", ".config"}


def stage_agent_files(extra: Sequence[Path] = ()) -> Path:
    """Create a world-readable folder with the files that an agent needs; returns its path.

    Equal code gives the same folder, so that it is copied only once.

    Parameters
    ----------
    extra : files of the user's own drivers, copied next to the package
    """
    files = {Path("foretrace") / f.relative_to(PACKAGE): f for f in _code_files()}
    files |= {Path(f.name): f for f in extra}
    digest = hashlib.sha256()
    for name, file in sorted(files.items()):
        digest.update(f"{name}\0".encode() + file.read_bytes())
    folder = lab_folder() / "share" / digest.hexdigest()[:16]
    if not folder.exists():
        _copy_files(files, folder)
    return folder


def _code_files() -> Iterator[Path]:
    for name in PARTS:
        at = PACKAGE / name
        yield from [at] if at.is_file() else (f for f in at.rglob("*") if f.suffix in KINDS)


def _copy_files(files: dict[Path, Path], folder: Path) -> None:
    """Copy files to a folder atomically: the complete copy is renamed into place."""
    partial = folder.with_name(f"{folder.name}.{os.getpid()}")
    for name, file in files.items():
        (partial / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, partial / name)
    for each in (partial.parent, partial, *partial.rglob("*")):
        each.chmod(0o755 if each.is_dir() else 0o644)
    try:
        partial.rename(folder)
    except OSError:  # another process was first
        shutil.rmtree(partial)
