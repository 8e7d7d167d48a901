"""Two ends of TCP connections between hosts: the near end requests and times, the far end serves.

One byte on a connection requests one message, so all times are read on the near end's clock. The
far end listens on an address that its user configured, and handles one connection at a time. It
accepts a connection only with the secret word that it sent through its agent.
"""

from __future__ import annotations

import hmac
import os
import secrets
import select
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from ....sim.errors import DriverFault
from ...peer_link import Message, PeerLink, answer_by_verb
from ..linux import clock_offset, clock_source

PIECE = 1 << 20
PATIENCE = 30.0  # s for anything to move
WORD = 16  # bytes
LARGEST = 1 << 30  # bytes of one message
MOST = 1_000_000  # messages of one round
Stamps = list[tuple[int, int]]


class FarEnd:
    """Far end of TCP connections: serves the requests of another host.

    Parameters
    ----------
    address : address of this host to listen on

    Examples
    --------
    >>> end = FarEnd("127.0.0.1")
    >>> sorted(end.answer({"do": "listen"}))
    ['clock', 'host', 'port', 'word']
    >>> end.close()
    """

    def __init__(self, address: str):
        self.address = address
        self.server: socket.socket | None = None
        self.word = secrets.token_bytes(WORD)
        self.connections: list[socket.socket] = []
        self.verbs = {
            "listen": self._listen, "accept": self._accept, "serve": self._serve,
            "echo": self._echo,
        }  # fmt: skip

    def answer(self, message: Message) -> Message:
        """Execute a message from the near end and return the reply.

        Raises
        ------
        DriverFault
            ``protocol`` if the message is unknown or malformed; ``broken`` or ``hung``.
        """
        try:
            return answer_by_verb(self.verbs, message)
        except TimeoutError as error:
            raise DriverFault("hung", f"nothing was received for {PATIENCE:g} s") from error
        except OSError as error:
            raise DriverFault("broken", f"{self.address}: {error}; name an address of that host "
                              "as the peer's device") from error  # fmt: skip

    def close(self) -> None:
        """Close the connections and stop listening."""
        for each in (*self.connections, *([self.server] if self.server else [])):
            each.close()
        self.connections, self.server = [], None

    def _listen(self, message: Message) -> Message:
        family = socket.AF_INET6 if ":" in self.address else socket.AF_INET
        if self.server is None:
            self.server = socket.create_server((self.address, 0), family=family)
            self.server.settimeout(PATIENCE)
        return {
            "port": self.server.getsockname()[1],
            "word": self.word.hex(),
            "clock": clock_source.clock_of_this_machine(),
            "host": os.uname().nodename,
        }

    def _accept(self, message: Message) -> Message:
        """Accept the connection that sends the secret word; close all others."""
        if self.server is None:
            raise DriverFault("protocol", "accept before listen")
        while True:
            connection = self.server.accept()[0]
            with suppress(OSError, DriverFault):
                connection.settimeout(PATIENCE)
                if hmac.compare_digest(receive(connection, WORD), self.word):
                    disable_nagle(connection)
                    self.connections.append(connection)
                    return {"connection": len(self.connections) - 1}
            connection.close()

    def _echo(self, message: Message) -> Message:
        """Send each message back; reply with the time when each arrived and left."""
        size, count = _counts(message["size"], message["count"])
        connection = self.connections[message["connection"]]
        connection.settimeout(PATIENCE)
        stamps, data = [], bytes(size)
        for _ in range(count):
            receive(connection, size)
            came = time.perf_counter_ns()
            connection.sendall(data)
            stamps.append((came, came))
        return {"stamps": stamps}

    def _serve(self, message: Message) -> Message:
        """Send messages of the given sizes, one for each request byte on a connection."""
        rounds = _counts(1, message["rounds"])[1]
        sizes = {int(k): _counts(size, 1)[0] for k, size in message["sizes"].items()}
        begun = _serve({self.connections[k]: n for k, n in sizes.items()}, rounds)
        return {"sent_ns": begun if message.get("stamped") else []}


def _counts(size: int, count: int) -> tuple[int, int]:
    if not (0 < size <= LARGEST and 0 < count <= MOST):
        raise ValueError(f"{count} messages of {size} B")
    return size, count


def _serve(sizes: dict[socket.socket, int], rounds: int) -> list[int]:
    """Answer each request on a connection with one message of that connection's size.

    Returns the start time of each message, in ns by this host's clock.
    """
    poller, by_fd = select.poll(), {each.fileno(): each for each in sizes}
    owed, left = dict.fromkeys(by_fd, 0), dict.fromkeys(by_fd, rounds)
    begun: list[int] = []
    data = memoryview(bytes(PIECE))
    for fd, each in by_fd.items():
        each.setblocking(False)
        poller.register(fd, select.POLLIN)
    while by_fd:
        ready = poller.poll(PATIENCE * 1e3)
        if not ready:
            raise TimeoutError
        for fd, event in ready:
            connection = by_fd[fd]
            if left[fd] and event & ~select.POLLOUT:
                asked = len(connection.recv(left[fd]))
                if not asked:
                    raise DriverFault("broken", "the near end closed a connection")
                begun += [time.perf_counter_ns()] * asked
                left[fd] -= asked
                owed[fd] += asked * sizes[connection]
            with suppress(BlockingIOError):
                owed[fd] -= connection.send(data[: min(PIECE, owed[fd])])
            poller.modify(fd, select.POLLIN * bool(left[fd]) | select.POLLOUT * bool(owed[fd]))
            if not left[fd] and not owed[fd]:
                poller.unregister(fd)
                del by_fd[fd]
    return begun


class NearEnd:
    """Near end of TCP connections: requests messages from one other host and times them.

    Parameters
    ----------
    link : message link to the driver on that host
    address : address of that host
    device : address of this host to connect from; "" for any
    """

    def __init__(self, link: PeerLink, address: str, device: str):
        self.link, self.address, self.device = link, address, device
        self.there = link.request({"do": "listen"})
        self.connections: list[socket.socket] = []

    def connection(self, number: int) -> socket.socket:
        """Connection of that number; it is opened on first use."""
        while len(self.connections) <= number:
            self.connections.append(self._connect())
        return self.connections[number]

    def measure_offset(self) -> clock_offset.ClockOffset:
        """Offset of the other host's clock, measured by several round trips."""
        here, there = self.echo(1, clock_offset.EXCHANGES)
        return clock_offset.offset_of_round_trips(here, there)

    def echo(self, size: int, count: int) -> tuple[Stamps, Stamps]:
        """Time stamps of round trips in ns: departure, return here; arrival, departure there."""
        connection = self.connection(0)
        connection.settimeout(PATIENCE)
        self.link.send({"do": "echo", "connection": 0, "size": size, "count": count})
        here, data = [], bytes(size)
        for _ in range(count):
            left = time.perf_counter_ns()
            connection.sendall(data)
            receive(connection, size)
            here.append((left, time.perf_counter_ns()))
        return here, [(int(came), int(gone)) for came, gone in self.link.receive()["stamps"]]

    def close(self) -> None:
        """Close the connections."""
        for each in self.connections:
            each.close()
        self.connections = []

    def _connect(self) -> socket.socket:
        own = (self.device, 0) if self.device else None
        try:
            made = socket.create_connection(
                (self.address, int(self.there["port"])), PATIENCE, source_address=own
            )
            made.sendall(bytes.fromhex(str(self.there["word"])))
        except OSError as error:
            raise DriverFault(
                "missing", f"peer {self.link.name}: {self.address}: {error}; check "
                "that this is an address of that host and that the network path is open"
            ) from error  # fmt: skip
        disable_nagle(made)
        self.link.request({"do": "accept"})
        return made


def fetch_messages(
    connections: Sequence[socket.socket], sizes: Sequence[int]
) -> tuple[int, list[int]]:
    """Request one message on each connection.

    Returns the time of the request and of each arrival, in ns.
    """
    left = {each.fileno(): n for each, n in zip(connections, sizes, strict=True)}
    arrived = dict.fromkeys(left, 0)
    into = memoryview(bytearray(PIECE))
    poller = _reading(connections)
    since = time.perf_counter_ns()
    for each in connections:
        each.send(b"\0")
    while any(left.values()):
        for each in _ready(poller, connections):
            fd = each.fileno()
            left[fd] -= _take(each, into[: min(PIECE, left[fd])])
            if not left[fd]:
                arrived[fd] = time.perf_counter_ns()
                poller.unregister(fd)
    return since, list(arrived.values())


def stream_time(connections: Sequence[socket.socket], size: int, depth: int, count: int) -> int:
    """Time in ns of ``count`` messages per connection.

    On each connection ``depth`` messages are requested in advance.
    """
    asked = {each.fileno(): min(depth, count) for each in connections}
    taken = dict.fromkeys(asked, 0)
    into = memoryview(bytearray(PIECE))
    poller = _reading(connections)
    since = time.perf_counter_ns()
    for each in connections:
        each.send(bytes(asked[each.fileno()]))
    while taken:
        for each in _ready(poller, connections):
            fd = each.fileno()
            taken[fd] += _take(each, into)
            more = min(count, taken[fd] // size + depth) - asked[fd]
            if more:
                asked[fd] += each.send(bytes(more))
            if taken[fd] >= size * count:
                poller.unregister(fd)
                del taken[fd]
    return time.perf_counter_ns() - since


def _reading(connections: Sequence[socket.socket]) -> select.poll:
    poller = select.poll()
    for each in connections:
        each.setblocking(False)
        poller.register(each.fileno(), select.POLLIN)
    return poller


def _ready(poller: Any, connections: Sequence[socket.socket]) -> list[socket.socket]:
    """Connections that have data to read.

    Raises
    ------
    DriverFault
        ``hung``: no data arrived in time.
    """
    fds = {fd for fd, _ in poller.poll(PATIENCE * 1e3)}
    if not fds:
        raise DriverFault(
            "hung", f"nothing arrived for {PATIENCE:g} s; check that the network path is open"
        )
    return [each for each in connections if each.fileno() in fds]


def _take(connection: socket.socket, into: memoryview) -> int:
    try:
        got = connection.recv_into(into)
    except OSError as error:
        raise DriverFault("broken", f"a connection ended: {error}") from error
    if not got:
        raise DriverFault("broken", "the far end closed a connection")
    return got


def receive(connection: socket.socket, size: int) -> bytes:
    """Receive exactly ``size`` bytes; DriverFault ``broken`` if the other end closes before."""
    parts, left = [], size
    while left:
        part = connection.recv(min(left, PIECE))
        if not part:
            raise DriverFault("broken", "the other end closed a connection")
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def disable_nagle(connection: socket.socket) -> None:
    """Disable Nagle's algorithm, so that small messages are sent at once."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
