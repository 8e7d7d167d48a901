"""Exclusive lock of a device, released when the process that holds it ends."""

from __future__ import annotations

import fcntl
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ...sim.errors import DriverFault


@contextmanager
def lock_device(device: str) -> Iterator[None]:
    """Context manager that locks a device of this machine for this process.

    Raises
    ------
    DriverFault
        ``busy``: another process holds the lock; the message names its process id.

    Examples
    --------
    >>> with lock_device("example"), lock_device("example"):
    ...     pass
    Traceback (most recent call last):
    foretrace.sim.errors.DriverFault: busy: example: measured by process ...
    """
    path = _lock_folder() / re.sub(r"[^\w.-]", "_", device)
    with open(path, "a+", encoding="ascii") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            who = file.read().strip() or "another"
            raise DriverFault(
                "busy", f"{device}: measured by process {who}; wait for it, or end it"
            ) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def _lock_folder() -> Path:
    """Folder of lock files, accessible to this user only."""
    base = Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir())
    folder = base / f"foretrace-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise DriverFault("denied", f"{folder}: belongs to another user; set XDG_RUNTIME_DIR")
    return folder
