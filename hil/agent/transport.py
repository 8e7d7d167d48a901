"""Transport to an agent, with time limits: child process, ssh or Unix socket."""

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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from ...sim.errors import DriverFault
from .protocol import Message, Vector, pack_frame, unpack_frame

log = logging.getLogger(__name__)
LIMIT = 600.0  # s for one question unless said
STDERR_TAIL = 400  # characters of what a dead agent said last


class Channel:
    """Channel that sends frames to one agent and receives frames from it.

    Parameters
    ----------
    source, sink : file descriptors to read from and to write to
    child : process to end on close; None if the agent is not a child process
    stderr_file : file that receives the agent's stderr
    """

    def __init__(
        self,
        source: int,
        sink: int,
        child: subprocess.Popen[bytes] | None = None,
        stderr_file: Path | None = None,
    ):
        self.source, self.sink, self.child, self.stderr_file = source, sink, child, stderr_file
        self.broken = self.closed = False

    def ask(
        self, message: Mapping[str, object], limit: float, end: float | None = None
    ) -> tuple[Message, list[Vector]]:
        """Send a message and wait for the reply, at most ``limit`` seconds.

        Parameters
        ----------
        end : deadline on the monotonic clock, in s, if the time limit started earlier

        Raises
        ------
        DriverFault
            ``hung`` or ``died``. The agent is killed, also if the wait is interrupted.
        """
        with self._limited(limit, end) as end:
            self._write(pack_frame(message), end)
            return self._next_frame(end)

    def send(self, message: Mapping[str, object], limit: float, end: float | None = None) -> None:
        """Send a message whose reply is received later."""
        with self._limited(limit, end) as end:
            self._write(pack_frame(message), end)

    def receive(self, limit: float, end: float | None = None) -> tuple[Message, list[Vector]]:
        """Receive the next frame without sending: the hello message, or the reply to ``send``."""
        with self._limited(limit, end) as end:
            return self._next_frame(end)

    def close(self) -> None:
        """Close the pipes, which ends the agent; it is killed if it still runs after 2 s."""
        self.broken = self.closed = True
        for descriptor in {self.source, self.sink}:
            os.close(descriptor)
        if self.child is not None:
            try:
                self.child.wait(2.0)
            except subprocess.TimeoutExpired:
                self.child.kill()
                self.child.wait()
        if self.stderr_file is not None:
            self.stderr_file.unlink(missing_ok=True)

    def kill_agent(self) -> None:
        """Kill the agent now, in the middle of whatever it does."""
        self._kill()

    def _next_frame(self, end: float) -> tuple[Message, list[Vector]]:
        return unpack_frame(lambda n: self._read(n, end))

    @contextmanager
    def _limited(self, limit: float, end: float | None) -> Iterator[float]:
        """Context manager that enforces the time limit and kills the agent if it is exceeded."""
        if self.broken:
            raise DriverFault("died", "this agent is gone; open the driver again")
        try:
            yield time.monotonic() + limit if end is None else end
        except TimeoutError as error:
            self._kill()
            raise DriverFault(
                "hung", f"no answer within {limit:g} s; the agent was ended: look at the device, "
                "or allow it more time"
            ) from error  # fmt: skip
        except (EOFError, BrokenPipeError, ConnectionError) as error:
            raise DriverFault("died", f"the agent ended{self._exit_message()}") from error
        except BaseException:
            self._kill()  # after half a frame, or one that cannot be read, nothing fits any more
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

    def _exit_message(self) -> str:
        self.broken = True
        if self.child is None:
            return "; start it again"
        code = self.child.wait(5.0)
        text = self.stderr_file.read_text(errors="replace").strip() if self.stderr_file else ""
        return (
            f" (code {code}): {text[-STDERR_TAIL:]}"
            if text
            else f" (code {code}) without any output"
        )


def start_agent_process(
    command: Sequence[str], environment: Mapping[str, str] | None = None, mortal: bool = True
) -> Channel:
    """Start an agent as a child process, without a shell, and return the channel to it.

    Parameters
    ----------
    command : program and its arguments
    environment : environment variables added to the current ones
    mortal : True if the program understands ``--die-with-parent``

    Raises
    ------
    DriverFault
        The program is not there or may not be run.
    """
    descriptor, name = tempfile.mkstemp(prefix="foretrace-agent-", suffix=".err")
    try:
        process = subprocess.Popen(
            [*command, *(_die_with_parent_option() if mortal else ())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=descriptor,
            bufsize=0,
            env={**os.environ, **(environment or {})},
        )
    except OSError as error:
        Path(name).unlink()
        why = f"{command[0]}: {error.strerror}; name a Python that exists"
        raise DriverFault("missing", why) from error
    finally:
        os.close(descriptor)
    return Channel(
        _take_descriptor(process.stdout), _take_descriptor(process.stdin), process, Path(name)
    )


def _take_descriptor(pipe: IO[bytes] | None) -> int:
    """Duplicate of a pipe's descriptor; the pipe object is closed."""
    if pipe is None:
        raise TypeError("the child was started without this pipe")
    with pipe:
        return os.dup(pipe.fileno())


def _die_with_parent_option() -> list[str]:
    """Option that makes the kernel kill the agent when this process ends.

    The kernel watches the parent *thread*, so only the main thread may use this option. Without it
    an agent still ends when its input ends, only later.
    """
    main = threading.current_thread() is threading.main_thread()
    return ["--die-with-parent"] if main and sys.platform == "linux" else []


def connect_unix_socket(path: Path, token: str) -> Channel:
    """Connect to an agent that listens on a Unix socket of this user.

    Raises
    ------
    DriverFault
        No agent listens on the socket, or the socket belongs to another user.
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
    os.write(descriptor, pack_frame({"token": token}))
    return Channel(descriptor, os.dup(descriptor))
