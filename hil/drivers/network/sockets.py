"""TCP and UDP endpoints in the namespaces of a star network, all in one process.

Host 1 receives. The other hosts send; flows are assigned to them in turn.
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Sequence

from ....sim.errors import DriverFault
from ..linux.netns import StarNetwork, inside_namespace

PORT = 9100
PIECE = 1 << 20
PATIENCE = 60_000  # ms for anything to move
Pair = tuple[socket.socket, socket.socket]


class Sockets:
    """Connections between the hosts of a star network, opened on first use."""

    def __init__(self, star: StarNetwork):
        self.star = star
        self.streams: list[Pair] = []
        self.datagrams: Pair | None = None

    def stream(self, sizes: Sequence[int]) -> list[int]:
        """Run concurrent TCP transfers to host 1; returns the time in ns until each has arrived."""
        while len(self.streams) < len(sizes):
            self.streams.append(self._connect_stream(2 + len(self.streams) % (self.star.hosts - 1)))
        return _transfer_times(self.streams[: len(sizes)], sizes)

    def half_rtt(self, size: int) -> float:
        """Half the round-trip time of a UDP datagram between hosts 2 and 1, in ns."""
        if self.datagrams is None:
            self.datagrams = (self._datagram_socket(2), self._datagram_socket(1))
        one, other = self.datagrams
        data = bytes(size)
        since = time.perf_counter_ns()
        one.send(data)
        _receive(other, size)
        other.send(data)
        _receive(one, size)
        return (time.perf_counter_ns() - since) / 2

    def close(self) -> None:
        """Close all sockets."""
        for pair in (*self.streams, *([self.datagrams] if self.datagrams else [])):
            for each in pair:
                each.close()
        self.streams, self.datagrams = [], None

    def _connect_stream(self, sender: int) -> Pair:
        with inside_namespace(self.star.host(1)):
            server = socket.create_server((self.star.address(1), PORT), reuse_port=True)
        with server, inside_namespace(self.star.host(sender)):
            one = socket.create_connection((self.star.address(1), PORT), timeout=10)
            other = server.accept()[0]
        for each in (one, other):
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            each.setblocking(False)
        return one, other

    def _datagram_socket(self, host: int) -> socket.socket:
        with inside_namespace(self.star.host(host)):
            made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        made.bind((self.star.address(host), PORT))
        made.connect((self.star.address(3 - host), PORT))
        made.settimeout(PATIENCE / 1000)
        return made


def _receive(end: socket.socket, size: int) -> None:
    try:
        got = len(end.recv(size))
    except TimeoutError as error:
        raise DriverFault("hung", f"a datagram of {size} B did not arrive; see setting loss") \
            from error  # fmt: skip
    if got != size:
        raise DriverFault("broken", f"a datagram of {size} B arrived as {got} B")


def _transfer_times(pairs: Sequence[Pair], sizes: Sequence[int]) -> list[int]:
    """Time in ns until each transfer has arrived; sends and receives with ``poll``."""
    poller = select.poll()
    sending = {one.fileno(): i for i, (one, _) in enumerate(pairs)}
    taking = {other.fileno(): i for i, (_, other) in enumerate(pairs)}
    for fd in sending:
        poller.register(fd, select.POLLOUT)
    for fd in taking:
        poller.register(fd, select.POLLIN)
    to_send, to_take, arrived = list(sizes), list(sizes), [0] * len(sizes)
    data, since = memoryview(bytes(PIECE)), time.perf_counter_ns()
    while taking:
        ready = poller.poll(PATIENCE)
        if not ready:
            raise DriverFault(
                "hung", f"no data moved for {PATIENCE // 1000} s; check that the link is up"
            )
        for fd, _ in ready:
            if fd in sending:
                i = sending[fd]
                to_send[i] -= pairs[i][0].send(data[: min(PIECE, to_send[i])])
                if not to_send[i]:
                    poller.unregister(fd)
                    del sending[fd]
            elif fd in taking:
                i = taking[fd]
                to_take[i] -= len(pairs[i][1].recv(PIECE))
                if not to_take[i]:
                    arrived[i] = time.perf_counter_ns() - since
                    poller.unregister(fd)
                    del taking[fd]
    return arrived
