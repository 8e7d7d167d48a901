"""What an input may not do: write anywhere else, start or call anybody, take for ever."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

PATIENCE = 20  # CPU seconds: an input takes milliseconds, a machine that is busy does not matter
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGES = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.symlink", "os.link", "os.chmod",
           "os.truncate", "shutil.rmtree"}  # fmt: skip
OUTSIDE = {"socket.connect", "socket.bind", "subprocess.Popen", "os.system", "os.exec", "os.fork",
           "os.posix_spawn"}  # fmt: skip


class HangError(BaseException):
    """More CPU time than any honest input takes."""


class TrespassError(BaseException):
    """Something was done outside of the folder."""


class Watch:
    """Sees every file that Python opens; an audit hook cannot be taken back, so there is one."""

    def __init__(self) -> None:
        self.inside: str | None = None
        self.found: list[str] = []
        sys.addaudithook(self._seen)
        signal.signal(signal.SIGPROF, self._over)

    @contextmanager
    def only(self, folder: Path) -> Iterator[None]:
        """Nothing may be written but below a folder.

        Raises
        ------
        HangError, TrespassError
        """
        self.inside, self.found = os.path.realpath(folder).rstrip("/"), []
        signal.setitimer(signal.ITIMER_PROF, PATIENCE)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            self.inside = None
        if self.found:
            raise TrespassError("; ".join(self.found))

    def _over(self, signum: int, frame: FrameType | None) -> None:
        raise HangError(f"more than {PATIENCE} s of CPU time")

    def _seen(self, event: str, args: tuple[object, ...]) -> None:
        inside, self.inside = self.inside, None  # what this does itself is not looked at
        if inside is None:
            return
        try:
            if event in OUTSIDE:
                self.found.append(f"{event}{args}")
            for path in _written(event, args):
                if not f"{os.path.realpath(path)}/".startswith(f"{inside}/"):
                    self.found.append(f"{event} {path}")
        finally:
            self.inside = inside


def _written(event: str, args: tuple[object, ...]) -> Iterator[str]:
    """Paths that an event changes."""
    if event == "open":
        path, _, flags = args
        changing = isinstance(flags, int) and flags & WRITING
        if isinstance(path, str | bytes | os.PathLike) and changing:
            yield os.fsdecode(path)
    elif event in CHANGES:
        paths = args[:2] if event in ("os.rename", "os.link", "os.symlink") else args[:1]
        yield from (os.fsdecode(p) for p in paths if isinstance(p, str | bytes | os.PathLike))
