"""Server loop of an agent over stdin and stdout, or over a Unix socket.

When the client disconnects, the process ends, even in the middle of an op. So no orphaned process
occupies a device.
"""

from __future__ import annotations

import hmac
import os
import queue
import socket
import struct
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO

from ...sim.errors import DriverFault
from . import protocol
from .dispatcher import Agent

RANKS = ("RANK", "SLURM_PROCID")  # of torchrun, of srun
GRACE = 5.0  # s for a driver to close after the client has gone
Frames = queue.Queue[tuple[bytes, bytes] | Exception]


def end_process_soon() -> None:
    """End this process in 5 s, whatever its driver does, because the client has gone."""
    watch = threading.Timer(GRACE, os._exit, (1,))
    watch.daemon = True
    watch.start()


def reply_until_end(
    allow: Sequence[str],
    source: BinaryIO,
    sink: BinaryIO,
    ended: Callable[[], None] = end_process_soon,
) -> None:
    """Reply to requests until the input ends.

    A thread reads the frames, so that the process ends if the client disconnects while a driver
    works. A malformed message gets an error reply, and the next message is read.

    Parameters
    ----------
    allow : names of drivers that may be used; empty allows all
    source, sink : streams of incoming and outgoing frames
    ended : called when the input has ended, even while a driver works
    """
    frames: Frames = queue.Queue()
    threading.Thread(target=_read_frames, args=(source, frames, ended), daemon=True).start()
    agent = Agent(allow, lambda message: _exchange(frames, sink, message))
    _send(sink, agent.hello())
    while True:
        frame = frames.get()
        if isinstance(frame, EOFError):
            break
        if isinstance(frame, Exception):
            _send(sink, protocol.encode_error(frame))
            break
        sink.write(reply_bytes(agent, *frame))
        sink.flush()
    agent.end()


def _exchange(frames: Frames, sink: BinaryIO, message: protocol.Message) -> protocol.Message:
    """Send the client a message for the driver at the other end, and return the client's reply."""
    _send(sink, message)
    frame = frames.get()
    if isinstance(frame, Exception):
        frames.put(frame)  # the loop ends with it
        raise DriverFault("died", "the client that connects both ends is gone; connect again")
    return protocol.decode_frame(*frame)[0]


def reply_bytes(agent: Agent, text: bytes, data: bytes) -> bytes:
    """Bytes of the reply to a frame.

    It is an error reply if the frame is malformed, or if the reply is too large or cannot be
    encoded.
    """
    try:
        message, _ = protocol.decode_frame(text, data)
        return protocol.pack_frame(*agent.reply(message))
    except DriverFault as fault:
        return protocol.pack_frame(protocol.encode_error(fault))
    except (TypeError, ValueError) as error:  # the driver returned something that is not JSON
        why = f"its reply cannot be encoded ({error})"
        return protocol.pack_frame(protocol.encode_error(DriverFault("broken", why)))


def _read_frames(source: BinaryIO, frames: Frames, ended: Callable[[], None]) -> None:
    """Put incoming frames into the queue, then mark the end of input."""
    try:
        while True:
            frames.put(protocol.read_frame(source.read))
    except DriverFault as fault:
        frames.put(fault)
    except Exception:  # the stream ended, in whatever way
        frames.put(EOFError())
    ended()


def _send(sink: BinaryIO, message: protocol.Message) -> None:
    sink.write(protocol.pack_frame(message))
    sink.flush()


def frame_streams_of_stdio() -> tuple[BinaryIO, BinaryIO]:
    """Copies of stdin and stdout for frames; anything that libraries print now goes to stderr."""
    source, sink = os.dup(0), os.dup(1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    return os.fdopen(source, "rb"), os.fdopen(sink, "wb")


def serve_unix_socket(path: Path, token: str, allow: Sequence[str]) -> None:
    """Serve clients one at a time on a Unix socket that only this user can open.

    Raises
    ------
    DriverFault
        A file with that name already exists.
    """
    path = path_with_rank(path)
    _remove_stale_socket(path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        try:
            _bind(server, path)
            server.listen(1)
            while True:
                _serve_client(server.accept()[0], token, allow)
        finally:  # also where a signal comes right after the name is there; never another's socket
            if server.getsockname():
                path.unlink(missing_ok=True)


def _bind(server: socket.socket, path: Path) -> None:
    mask = os.umask(0o177)
    try:
        server.bind(str(path))
    finally:
        os.umask(mask)


def _remove_stale_socket(path: Path) -> None:
    """Remove a socket file without a listener; DriverFault for any other existing file."""
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
    raise DriverFault(
        "busy", f"{path}: already exists; another agent listens there, or remove the file"
    )


def _serve_client(connection: socket.socket, token: str, allow: Sequence[str]) -> None:
    """Serve one client in a forked process if it is the same user and sends the token."""
    with connection:
        if os.fork() == 0:
            code = 1
            try:
                _authenticate(connection, token, allow)
                code = 0
            finally:
                os._exit(code)
        os.wait()


def _authenticate(connection: socket.socket, token: str, allow: Sequence[str]) -> None:
    connection.settimeout(GRACE)
    with connection.makefile("rb") as source, connection.makefile("wb") as sink:
        uid = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[
            1
        ]
        if uid != os.getuid():
            why = f"user {uid} may not use this agent; connect as the user who started it"
            _send(sink, protocol.encode_error(DriverFault("denied", why)))
            return
        try:
            message, _ = protocol.unpack_frame(source.read)
        except DriverFault as fault:
            _send(sink, protocol.encode_error(fault))
            return
        except (EOFError, OSError):
            return  # the client has gone, or sends nothing
        if not hmac.compare_digest(str(message.get("token", "")).encode(), token.encode()):
            why = "the token is wrong; give the token file that the agent was started with"
            _send(sink, protocol.encode_error(DriverFault("denied", why)))
            return
        connection.settimeout(None)
        reply_until_end(allow, source, sink)


def path_with_rank(path: Path) -> Path:
    """Path with ``{rank}`` replaced by the rank that torchrun or srun set in the environment.

    Raises
    ------
    DriverFault
        The environment holds no rank.

    Examples
    --------
    >>> path_with_rank(Path("/run/agent.sock"))
    PosixPath('/run/agent.sock')
    """
    if "{rank}" not in str(path):
        return path
    rank = next((os.environ[name] for name in RANKS if name in os.environ), "")
    if not rank.isdigit():
        raise DriverFault(
            "unsupported",
            f"{path}: has {{rank}}, but no launcher set {' or '.join(RANKS)}; start the agent with "
            "torchrun or srun",
        )
    return Path(str(path).replace("{rank}", rank))
