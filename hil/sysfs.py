"""Reading files of ``/sys`` and ``/proc``."""

from __future__ import annotations

from pathlib import Path


def stripped_text(path: Path) -> str:
    """Stripped text of a file of ``/sys`` or ``/proc``; "" where it cannot be read.

    >>> stripped_text(Path("/proc/no such file"))
    ''
    """
    try:
        return path.read_text().strip()
    except OSError:
        return ""
