"""How we reach an agent: a child of ours, one behind ssh, or a Unix socket; with time limits."""

from __future__ import annotations

import logging
import os
import select
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from ...sim.errors import DriverFault
from .protocol import Message, Vector, pack, unpack

log = logging.getLogger(__name__)
LIMIT = 600.0  # s for one question unless said
SAID = 400  # characters of what a dead agent said last


class Channel:
    """Frames to and from one agent, over two file descriptors.

    Parameters
    ----------
    source, sink : file descriptors
    child : the process, where it is ours to end
    heard : file that holds what it says on stderr
    """

    def __init__(
        self,
        source: int,
        sink: int,
        child: subprocess.Popen[bytes] | None = None,
        heard: Path | None = None,
    ):
        self.source, self.sink, self.child, self.heard = source, sink, child, heard
        self.broken = self.closed = False

    def ask(self, message: Mapping[str, object], limit: float) -> tuple[Message, list[Vector]]:
        """Send one frame and wait for its answer.

        Raises
        ------
        DriverFault
            ``hung`` or ``died``; the agent is ended, for nobody knows what it does.
        """
        if self.broken:
            raise DriverFault("died", "this agent is gone; open the driver again")
        return self._guarded(pack(message), limit)

    def receive(self, limit: float) -> tuple[Message, list[Vector]]:
        """The next frame, unasked: the hello."""
        return self._guarded(b"", limit)

    def close(self) -> None:
        """End the agent: its input ends, and so does it; killed where it does not."""
        self.broken = self.closed = True
        for descriptor in {self.source, self.sink}:
            os.close(descriptor)
        if self.child is not None:
            try:
                self.child.wait(2.0)
            except subprocess.TimeoutExpired:
                self.child.kill()
                self.child.wait()
        if self.heard is not None:
            self.heard.unlink(missing_ok=True)

    def _guarded(self, frame: bytes, limit: float) -> tuple[Message, list[Vector]]:
        end = time.monotonic() + limit
        try:
            self._write(frame, end)
            return unpack(lambda n: self._read(n, end))
        except TimeoutError as error:
            self._kill()
            raise DriverFault(
                "hung", f"no answer within {limit:g} s; the agent was ended: look at the device, "
                "or allow it more time"
            ) from error  # fmt: skip
        except (EOFError, BrokenPipeError, ConnectionError) as error:
            raise DriverFault("died", f"the agent ended{self._last_words()}") from error
        except DriverFault:
            self._kill()  # after a frame that cannot be read nothing is where it should be
            raise

    def _read(self, n: int, end: float) -> bytes:
        parts: list[bytes] = []
        while n:
            self._wait([self.source], [], end)
            part = os.read(self.source, min(n, 1 << 20))
            if not part:
                break
            parts.append(part)
            n -= len(part)
        return b"".join(parts)

    def _write(self, data: bytes, end: float) -> None:
        view = memoryview(data)
        while view:
            self._wait([], [self.sink], end)
            view = view[os.write(self.sink, view[:4096]) :]

    def _wait(self, read: list[int], write: list[int], end: float) -> None:
        ready = select.select(read, write, [], max(0.0, end - time.monotonic()))
        if not any(ready):
            raise TimeoutError

    def _kill(self) -> None:
        self.broken = True
        if self.child is not None:
            self.child.kill()
            self.child.wait()

    def _last_words(self) -> str:
        self.broken = True
        if self.child is None:
            return "; start it again"
        code = self.child.wait(5.0)
        said = self.heard.read_text(errors="replace").strip() if self.heard else ""
        return f" (code {code}): {said[-SAID:]}" if said else f" (code {code}) without a word"


def child(
    command: Sequence[str], environment: Mapping[str, str] | None = None, mortal: bool = True
) -> Channel:
    """Start an agent as a child of ours: never through a shell.

    Parameters
    ----------
    command : program and arguments
    environment : besides ours
    mortal : it understands ``--die-with-parent``

    Raises
    ------
    DriverFault
        The program is not there or may not be run.
    """
    descriptor, name = tempfile.mkstemp(prefix="foretrace-agent-", suffix=".err")
    try:
        process = subprocess.Popen(
            [*command, *(_mortal() if mortal else ())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=descriptor,
            bufsize=0,
            env={**os.environ, **(environment or {})},
        )
    except OSError as error:
        Path(name).unlink()
        why = f"{command[0]}: {error.strerror}; name a Python that is there"
        raise DriverFault("missing", why) from error
    finally:
        os.close(descriptor)
    return Channel(_own(process.stdout), _own(process.stdin), process, Path(name))


def _own(pipe: IO[bytes] | None) -> int:
    """The descriptor of a pipe, ours from now on."""
    if pipe is None:
        raise TypeError("the child was started without this pipe")
    with pipe:
        return os.dup(pipe.fileno())


def _mortal() -> list[str]:
    """What makes a child die with us; the end of its input does in any case, only later.

    The kernel looks at the thread that started it, so only the main thread may ask.
    """
    main = threading.current_thread() is threading.main_thread()
    return ["--die-with-parent"] if main and sys.platform == "linux" else []


def unix(path: Path, token: str) -> Channel:
    """Connect to an agent that listens on a socket of this user.

    Raises
    ------
    DriverFault
        Nobody listens there, or it is not ours.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if path.stat().st_uid != os.getuid():
            raise PermissionError(1, "it belongs to another user")
        connection.connect(str(path))
    except OSError as error:
        connection.close()
        raise DriverFault(
            "missing", f"{path}: {error.strerror}; start 'foretrace hil agent --listen {path}'"
        ) from error
    descriptor = connection.detach()
    os.write(descriptor, pack({"token": token}))
    return Channel(descriptor, os.dup(descriptor))
