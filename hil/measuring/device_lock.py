"""One run on one device: a lock that dies with who holds it, and a look at whether it is idle."""

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
def held(device: str) -> Iterator[None]:
    """Hold a device of this machine.

    Raises
    ------
    DriverFault
        ``busy``: another process holds it; says which.

    Examples
    --------
    >>> with held("example"), held("example"):
    ...     pass
    Traceback (most recent call last):
    foretrace.sim.errors.DriverFault: busy: example: measured by process ...
    """
    path = _folder() / re.sub(r"[^\w.-]", "_", device)
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


def _folder() -> Path:
    """A folder of this user alone."""
    base = Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir())
    folder = base / f"foretrace-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise DriverFault("denied", f"{folder}: belongs to others; set XDG_RUNTIME_DIR")
    return folder
