"""Files that may be gzipped, whatever their name."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import IO


def is_gzipped(path: Path) -> bool:
    """True if the content of a file is gzip."""
    with path.open("rb") as raw:
        return raw.read(2) == b"\x1f\x8b"


def open_maybe_gzipped(path: Path) -> IO[bytes]:
    """Open a file for reading; it is decompressed if its content is gzip.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "trace.json"
    ...     _ = path.write_bytes(gzip.compress(b"{}"))
    ...     with open_maybe_gzipped(path) as stream:
    ...         stream.read()
    b'{}'
    """
    return gzip.open(path) if is_gzipped(path) else path.open("rb")  # type: ignore[return-value]
