"""Facts that the kernel tells in files."""

from __future__ import annotations

from pathlib import Path


def text_of(path: Path) -> str:
    """What a file of ``/sys`` or ``/proc`` says; "" where it is absent or cannot be read.

    >>> text_of(Path("/proc/no such file"))
    ''
    """
    try:
        return path.read_text().strip()
    except OSError:
        return ""
