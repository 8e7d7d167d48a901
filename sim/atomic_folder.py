"""Atomic replacement of a folder: readers see the old folder or the complete new one.

The new folder is written next to the target and moved there in one step. If the writing process
is killed, it leaves a folder whose name begins with a dot; the next writer removes it.
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
    """Temporary folder to fill in a ``with`` block; replaces ``target`` only if the block succeeds.

    Raises
    ------
    OSError
        The parent folder cannot be written.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as home:
    ...     with replace_folder_on_success(Path(home) / "run") as new:
    ...         _ = (new / "answer").write_text("complete")
    ...         print((Path(home) / "run").exists())
    ...     (Path(home) / "run" / "answer").read_text()
    False
    'complete'
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
    """Create a locked temporary folder next to the target; returns its path and file descriptor."""
    while True:
        part = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=PART, dir=target.parent))
        held = os.open(part, os.O_RDONLY)
        _lock_folder(held, wait=True)
        if part.exists():  # another process may have removed it
            return part, held
        os.close(held)


def remove_abandoned_folders(parent: Path) -> None:
    """Remove unfinished temporary folders of processes that no longer run."""
    for part in parent.glob(f".*{PART}"):
        with suppress(OSError):  # another process removed it, or it is not ours
            held = os.open(part, os.O_RDONLY | os.O_DIRECTORY)
            try:
                if _lock_folder(held, wait=False):
                    shutil.rmtree(part, ignore_errors=True)
            finally:
                os.close(held)


def _lock_folder(held: int, *, wait: bool) -> bool:
    """Lock an open folder; returns False if another process holds the lock.

    The operating system releases the lock when the process ends, however it ends.
    """
    import fcntl

    try:
        fcntl.flock(held, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True


def _move_into_place(new: Path, target: Path) -> None:
    """Move a folder to its target; readers see either the old folder or the new one."""
    try:
        os.rename(new, target)
    except OSError:  # the target exists and is not empty
        if not _exchange_folders(new, target):
            os.rename(target, new.with_name("old"))
            os.rename(new, target)


def _exchange_folders(new: Path, target: Path) -> bool:
    """Swap two folders atomically; returns False if the operating system cannot."""
    import ctypes

    rename = getattr(ctypes.CDLL(None), "renameat2", None)
    if rename is None:
        return False
    done: int = rename(HERE, os.fsencode(new), HERE, os.fsencode(target), EXCHANGE)
    return done == 0
