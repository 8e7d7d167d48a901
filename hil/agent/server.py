"""How an agent is reached: over its stdin and stdout, or a Unix socket of its user.

When the other side is gone the process ends, also in the middle of an op: nobody is left behind
on a device.
"""

from __future__ import annotations

import hmac
import os
import queue
import socket
import struct
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from ...sim.errors import DriverFault
from . import protocol
from .dispatcher import Agent, Frame

RANKS = ("RANK", "SLURM_PROCID")  # of torchrun, of srun
GRACE = 5.0  # s that a driver has to close once nobody listens


def serve(agent: Agent, source: BinaryIO, sink: BinaryIO) -> None:
    """Answer until the input ends.

    Reading is a thread of its own: when the other side is gone while a driver works, the process
    is ended, for there is nobody to answer.
    """
    frames: queue.Queue[Frame | Exception] = queue.Queue()
    threading.Thread(target=_listen, args=(source, frames), daemon=True).start()
    _send(sink, agent.hello())
    while True:
        frame = frames.get()
        if isinstance(frame, EOFError):
            break
        if isinstance(frame, Exception):
            _send(sink, protocol.encode_error(frame))
            break
        _send(sink, *agent.reply(frame[0]))
    agent.end()


def _listen(source: BinaryIO, frames: queue.Queue[Frame | Exception]) -> None:
    """Frames as they come; at the end a clock starts that ends the process."""
    try:
        while True:
            frames.put(protocol.unpack(source.read))
    except (EOFError, OSError, DriverFault) as error:
        frames.put(error if isinstance(error, DriverFault) else EOFError())
    watch = threading.Timer(GRACE, os._exit, (1,))
    watch.daemon = True
    watch.start()


def _send(
    sink: BinaryIO, message: protocol.Message, arrays: Sequence[protocol.Vector] = ()
) -> None:
    sink.write(protocol.pack(message, arrays))
    sink.flush()


def stdio() -> tuple[BinaryIO, BinaryIO]:
    """Pipes to speak over; what a library prints goes to stderr, not between our frames."""
    source, sink = os.dup(0), os.dup(1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    return os.fdopen(source, "rb"), os.fdopen(sink, "wb")


def listen(path: Path, token: str, allow: Sequence[str]) -> None:
    """Serve one client after the other on a socket that only this user can open.

    Raises
    ------
    DriverFault
        There is a file of that name already.
    """
    path = ranked(path)
    _cleared(path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        try:
            _bind(server, path)
            server.listen(1)
            while True:
                _guest(server.accept()[0], token, allow)
        finally:  # also where a signal comes right after the name is there; never another's socket
            if server.getsockname():
                path.unlink(missing_ok=True)


def _bind(server: socket.socket, path: Path) -> None:
    mask = os.umask(0o177)
    try:
        server.bind(str(path))
    finally:
        os.umask(mask)


def _cleared(path: Path) -> None:
    """Take away a socket that nobody listens on any more; refuse to take anything else."""
    if not path.exists():
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            if path.is_socket() and path.stat().st_uid == os.getuid():
                path.unlink()
                return
        except OSError:
            pass
    raise DriverFault("busy", f"{path}: is there already; another agent listens, or rm it")


def _guest(connection: socket.socket, token: str, allow: Sequence[str]) -> None:
    """One client, if it is the same user and knows the token, in a process of its own."""
    with connection:
        if os.fork() == 0:
            code = 1
            try:
                _welcome(connection, token, allow)
                code = 0
            finally:
                os._exit(code)
        os.wait()


def _welcome(connection: socket.socket, token: str, allow: Sequence[str]) -> None:
    connection.settimeout(GRACE)
    with connection.makefile("rb") as source, connection.makefile("wb") as sink:
        uid = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[
            1
        ]
        if uid != os.getuid():
            _send(
                sink, protocol.encode_error(DriverFault("denied", f"user {uid} may not use this"))
            )
            return
        message, _ = protocol.unpack(source.read)
        if not hmac.compare_digest(str(message.get("token", "")), token):
            _send(sink, protocol.encode_error(DriverFault("denied", "the token is another one")))
            return
        connection.settimeout(None)
        serve(Agent(allow), source, sink)


def ranked(path: Path) -> Path:
    """The path with ``{rank}`` filled in: torchrun and srun start one process for each rank.

    Raises
    ------
    DriverFault
        No launcher says which rank this is.

    Examples
    --------
    >>> ranked(Path("/run/agent.sock"))
    PosixPath('/run/agent.sock')
    """
    if "{rank}" not in str(path):
        return path
    rank = next((os.environ[name] for name in RANKS if name in os.environ), "")
    if not rank.isdigit():
        raise DriverFault("unsupported", f"{path}: no launcher set {' or '.join(RANKS)}")
    return Path(str(path).replace("{rank}", rank))
