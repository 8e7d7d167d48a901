"""What a machine of the lab sees of ours: the code of the agent, copied, and nothing else."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from .build_cache import home

PACKAGE = Path(__file__).resolve().parents[2]
PARTS = ("__init__.py", "sim", "hil")
KINDS = {".py", ".sh", ".config"}


def share(extra: Sequence[Path] = ()) -> Path:
    """A folder, readable by all, that holds the package as far as an agent needs it.

    The same code gives the same folder, so that it is copied once.

    Parameters
    ----------
    extra : files of the user's own drivers, put beside the package
    """
    wanted = {Path("foretrace") / f.relative_to(PACKAGE): f for f in _code()}
    wanted |= {Path(f.name): f for f in extra}
    digest = hashlib.sha256()
    for name, file in sorted(wanted.items()):
        digest.update(f"{name}\0".encode() + file.read_bytes())
    folder = home() / "share" / digest.hexdigest()[:16]
    if not folder.exists():
        _copy(wanted, folder)
    return folder


def _code() -> Iterator[Path]:
    for name in PARTS:
        at = PACKAGE / name
        yield from [at] if at.is_file() else (f for f in at.rglob("*") if f.suffix in KINDS)


def _copy(wanted: dict[Path, Path], folder: Path) -> None:
    """All files, then the name: another process sees all of it or nothing."""
    fresh = folder.with_name(f"{folder.name}.{os.getpid()}")
    for name, file in wanted.items():
        (fresh / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, fresh / name)
    for each in (fresh.parent, fresh, *fresh.rglob("*")):
        each.chmod(0o755 if each.is_dir() else 0o644)
    try:
        fresh.rename(folder)
    except OSError:  # another process was first
        shutil.rmtree(fresh)
