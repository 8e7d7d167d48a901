"""Initramfs archives in cpio's newc format.

References
----------
Linux, Documentation/driver-api/early-userspace/buffer-format.rst.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

FOLDER, CONSOLE = 0o040755, (5, 1)


def cpio_archive(root: Path) -> bytes:
    """Initramfs archive of a folder, including the console device that init needs.

    >>> Path("first").mkdir(); _ = Path("first/init").write_text("#!/bin/sh")
    >>> data = cpio_archive(Path("first"))
    >>> data[:6], b"TRAILER!!!" in data, len(data) % 4
    (b'070701', True, 0)
    """
    rows = [
        *_entries(root),
        ("dev/console", 0o020600, b"", CONSOLE),
        ("TRAILER!!!", 0, b"", (0, 0)),
    ]
    return b"".join(_entry_bytes(number, *row) for number, row in enumerate(rows, 1))


def _entries(root: Path) -> Iterator[tuple[str, int, bytes, tuple[int, int]]]:
    for path in sorted(root.rglob("*")):
        name, mode = str(path.relative_to(root)), path.lstat().st_mode
        if path.is_symlink():
            yield name, mode, os.readlink(path).encode(), (0, 0)
        elif path.is_dir():
            yield name, FOLDER, b"", (0, 0)
        else:
            yield name, mode, path.read_bytes(), (0, 0)


def _entry_bytes(number: int, name: str, mode: int, data: bytes, device: tuple[int, int]) -> bytes:
    text = name.encode() + b"\0"
    fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(text), 0)
    head = b"070701" + b"".join(b"%08X" % f for f in fields) + text
    return _pad_to_word(head) + _pad_to_word(data)


def _pad_to_word(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)
