"""Read a trace of any format with recorded events: native or Kineto."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ...sim.units import Bytes
from ..trace import Trace
from . import kineto, native


def read(paths: str | Path | Iterable[str | Path], *, memory: Bytes | None = None) -> Trace:
    """Read a native trace folder, a profiler file, or the files of several ranks (globs allowed).

    Raises
    ------
    TraceError
        A file is missing, damaged, no trace, or needs more than `memory`.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = native.write(Trace.of(strings=("aten::mm",), name=[0], dur=[7]), f"{folder}/tiny")
    ...     read(f"{folder}/tiny")
    <Trace: 1 events, rank 0>
    """
    if isinstance(paths, str | Path) and (Path(paths) / native.MANIFEST).is_file():
        return native.read(paths)
    return kineto.read(paths, memory=memory)
