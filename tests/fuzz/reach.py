"""Which lines of ours an input reaches; one that reaches a new line is kept and changed further."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import foretrace

OURS = tuple(
    str(Path(foretrace.__file__).parent / name) for name in ("traces", "scenarios", "models", "hil")
)


class Reach:
    """Lines seen so far."""

    def __init__(self) -> None:
        self.lines: set[tuple[CodeType, int]] = set()

    @contextmanager
    def seen(self, wanted: bool) -> Iterator[list[bool]]:
        """Watch a piece of work; what is given becomes ``[True]`` when it reached a new line."""
        before, new = len(self.lines), [False]
        if wanted:
            sys.settrace(self._called)
        try:
            yield new
        finally:
            sys.settrace(None)
            new[0] = len(self.lines) > before

    def _called(self, frame: FrameType, event: str, arg: Any) -> Any:
        return self._line if frame.f_code.co_filename.startswith(OURS) else None

    def _line(self, frame: FrameType, event: str, arg: Any) -> Any:
        self.lines.add((frame.f_code, frame.f_lineno))
        return self._line
