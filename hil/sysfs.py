"""Reading files of ``/sys`` and ``/proc``."""

from __future__ import annotations

from pathlib import Path


def stripped_text(path: Path) -> str:
    """Text of a file in ``/sys`` or ``/proc``, stripped; "" if it cannot be read.

    >>> stripped_text(Path("/proc/no such file"))
    ''
    """
    try:
        return path.read_text().strip()
    except OSError:
        return ""
