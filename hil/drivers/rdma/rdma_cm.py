"""Connect queue pairs through rdma_cm, which iWARP requires; both ends are in this process.

Queue pairs are created as usual. rdma_cm gets their numbers, opens a TCP connection for each, and
hands it to the card. The first end is the active side, so it must also send the first message.
"""

from __future__ import annotations

import fcntl
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from ....sim.errors import DriverFault

if TYPE_CHECKING:
    from .rdma_end import RdmaEndpoint

SIOCGIFADDR = 0x8915  # <linux/sockios.h>
FIRST_PORT, PORTS = 18600, 100  # of TCP, of which the first free one is taken
READS = 16  # outstanding ones at most: iWARP negotiates them in so many bits that all cards take it


def connect_through_cm(one: RdmaEndpoint, other: RdmaEndpoint) -> None:
    """Connect each queue pair of an endpoint to the other endpoint's queue pair of the same index.

    Raises
    ------
    DriverFault
        ``missing``: an interface has no IPv4 address. ``broken``: the connection failed.
    """
    from pyverbs.cmid import CMEventChannel

    one.peer, other.peer = other.connection_info(), one.connection_info()
    here, there = (ipv4_address(end.gid.interface) for end in (one, other))
    with ExitStack() as stack:
        asking, listening = CMEventChannel(), CMEventChannel()
        stack.callback(asking.close)
        stack.callback(listening.close)
        listener, port = _listening_id(listening, there, len(other.qps))
        stack.callback(listener.close)
        links = []
        for number in range(len(one.qps)):
            channels, way = (asking, listening), (here, there, port)
            links.append(_connect(one, other, number, listener, channels, way))
            stack.callback(links[-1][0].close)
            stack.callback(links[-1][1].close)
        stack.pop_all()
    one.connections = [*(asks for asks, _ in links), asking]
    other.connections = [*(answers for _, answers in links), listener, listening]


def _connect(
    one: RdmaEndpoint,
    other: RdmaEndpoint,
    number: int,
    listener: Any,
    channels: tuple[Any, Any],
    way: tuple[str, str, int],
) -> tuple[Any, Any]:
    """Connect one pair of queue pairs.

    Returns the connection ids of the active and the listening end.
    """
    from pyverbs.cmid import CMID, AddrInfo

    asking, listening = channels
    asks = CMID(creator=asking)
    asks.resolve_addr(AddrInfo(src=way[0], dst=way[1], dst_service=str(way[2])))
    with _event(asking, "ADDR_RESOLVED"):
        asks.resolve_route()
    with _event(asking, "ROUTE_RESOLVED"):
        asks.connect(_parameters(one, number))
    with _event(listening, "CONNECT_REQUEST") as request:
        answers = CMID(creator=request, listen_id=listener)
    answers.accept(_parameters(other, number))
    for channel in channels:
        with _event(channel, "ESTABLISHED"):
            pass
    return asks, answers


def _parameters(end: RdmaEndpoint, number: int) -> Any:
    from pyverbs.cmid import ConnParam

    reads_in = min(READS, end.limits.max_qp_rd_atom)
    reads_out = min(READS, end.limits.max_qp_init_rd_atom)
    return ConnParam(resources=reads_in, depth=reads_out, srq=int(end.settings.shared),
                     qp_num=end.qps[number].qp_num)  # fmt: skip


@contextmanager
def _event(channel: Any, wanted: str) -> Iterator[Any]:
    """Context manager that yields the next event of a channel and acknowledges it at the end.

    Raises
    ------
    DriverFault
        ``broken``: the event is not the expected one.
    """
    from pyverbs.cmid import CMEvent

    event = CMEvent(channel)
    try:
        said = event.event_str()
        said = said.decode() if isinstance(said, bytes) else str(said)
        if said != f"RDMA_CM_EVENT_{wanted}":
            raise DriverFault("broken", f"rdma_cm: {said} instead of {wanted}; look at the "
                              "addresses and routes of both interfaces")  # fmt: skip
        yield event
    finally:
        event.ack_cm_event()


def _listening_id(channel: Any, host: str, most: int) -> tuple[Any, int]:
    """rdma_cm id that listens on a free port of an address, and the port number.

    ``most`` is the maximum number of pending connections.
    """
    from pyverbs.cmid import CMID, AddrInfo
    from pyverbs.librdmacm_enums import RAI_PASSIVE
    from pyverbs.pyverbs_error import PyverbsError

    for port in range(FIRST_PORT, FIRST_PORT + PORTS):
        listener = CMID(creator=channel)
        try:
            listener.bind_addr(AddrInfo(src=host, src_service=str(port), flags=RAI_PASSIVE))
            listener.listen(most)
        except PyverbsError:
            listener.close()
            continue
        return listener, port
    raise DriverFault("busy", f"no TCP port of {host} from {FIRST_PORT} to "
                      f"{FIRST_PORT + PORTS - 1} is free; end the programs that listen "
                      "there")  # fmt: skip


def ipv4_address(interface: str) -> str:
    """First IPv4 address of a network interface.

    Raises
    ------
    DriverFault
        ``missing``: it has none.

    Examples
    --------
    >>> ipv4_address("lo")
    '127.0.0.1'
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        try:
            told = fcntl.ioctl(any_socket, SIOCGIFADDR, struct.pack("256s", interface.encode()))
        except OSError as error:
            raise DriverFault("missing", f"{interface}: {error.strerror}; give it an IPv4 address, "
                              "by which iWARP connects") from error  # fmt: skip
    return socket.inet_ntoa(told[20:24])
