"""Folder that appears as a whole or not at all, whichever process is killed when.

It is written beside its place and put there in one step.  What a killed writer leaves begins with a
dot, and the next writer there takes it away.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

HERE, EXCHANGE = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of <fcntl.h> and <linux/fs.h>
PART = ".part"


@contextmanager
def replace_folder_on_success(target: Path) -> Iterator[Path]:
    """Temporary folder to fill in a ``with`` block; replaces ``target`` on success only.

    Raises
    ------
    OSError
        Nothing can be written there.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as home:
    ...     with replace_folder_on_success(Path(home) / "run") as new:
    ...         _ = (new / "said").write_text("whole")
    ...         print((Path(home) / "run").exists())
    ...     (Path(home) / "run" / "said").read_text()
    False
    'whole'
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    remove_abandoned_folders(target.parent)
    part, held = _new_part_folder(target)
    try:
        new = part / "new"
        new.mkdir()
        yield new
        _move_into_place(new, target)
    finally:
        shutil.rmtree(part, ignore_errors=True)
        os.close(held)


def _new_part_folder(target: Path) -> tuple[Path, int]:
    """New locked folder of this process beside the target."""
    while True:
        part = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=PART, dir=target.parent))
        held = os.open(part, os.O_RDONLY)
        _lock_folder(held, wait=True)
        if part.exists():  # another process may have removed it
            return part, held
        os.close(held)


def remove_abandoned_folders(parent: Path) -> None:
    """Remove unfinished folders that dead processes left."""
    for part in parent.glob(f".*{PART}"):
        with suppress(OSError):  # another process removed it, or it is not ours
            held = os.open(part, os.O_RDONLY | os.O_DIRECTORY)
            try:
                if _lock_folder(held, wait=False):
                    shutil.rmtree(part, ignore_errors=True)
            finally:
                os.close(held)


def _lock_folder(held: int, *, wait: bool) -> bool:
    """Lock an open folder; it is unlocked when its process ends, however it ends."""
    import fcntl

    try:
        fcntl.flock(held, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True


def _move_into_place(new: Path, target: Path) -> None:
    """Move a folder to its place; readers see either the old one or the new one."""
    try:
        os.rename(new, target)
    except OSError:  # the target exists and is not empty
        if not _exchange_folders(new, target):
            os.rename(target, new.with_name("old"))
            os.rename(new, target)


def _exchange_folders(new: Path, target: Path) -> bool:
    """Whether two folders changed places atomically; False where the system cannot."""
    import ctypes

    rename = getattr(ctypes.CDLL(None), "renameat2", None)
    if rename is None:
        return False
    done: int = rename(HERE, os.fsencode(new), HERE, os.fsencode(target), EXCHANGE)
    return done == 0
