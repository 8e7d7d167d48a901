"""RDMA between two hosts: the endpoint on the other host, and the messages that set it up.

Ports, queue pair numbers, LIDs, GIDs, packet numbers and keys are exchanged through the agents of
the hosts; no network port is opened for them. A write or read needs no processor at the far end.
For a send, receives are posted there before anything is sent, so that a receive is never missing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import asdict
from ipaddress import IPv6Address
from typing import TYPE_CHECKING, Any

from ...peer_link import Message, PeerLink, answer_by_verb
from ..linux import clock_source
from ..linux.clock_offset import EXCHANGES, ClockOffset, offset_of_round_trips
from . import rdma_ports

if TYPE_CHECKING:
    from .rdma_end import EndpointSettings, RdmaEndpoint

RECEIVES = 16  # posted ahead at the far end
SMALL = 64  # bytes of a message that compares clocks
Stamps = list[tuple[int, int]]
FarPair = tuple["RdmaEndpoint", "FarEndpoint"]  # one here, one there


def port_message(port: rdma_ports.RdmaPort) -> Message:
    """Port encoded as numbers and text, to be sent to another host."""
    gids = [[g.index, g.text, g.kind, g.interface] for g in port.gids]
    return {**asdict(port), "gids": gids}


def port_of_message(told: Message) -> rdma_ports.RdmaPort:
    """Port of another host, decoded from a message.

    >>> port_of_message({"device": "mlx5_0", "number": 1, "link_layer": "InfiniBand", "lid": 7,
    ...                  "state": "4: ACTIVE", "gids": []}).lid
    7
    """
    gids = (rdma_ports.Gid(int(i), IPv6Address(a), str(k), str(n)) for i, a, k, n in told["gids"])
    return rdma_ports.RdmaPort(**{**told, "gids": tuple(gids)})


class FarEndpoints:
    """Endpoints on this host that a driver on another host creates and connects to.

    Parameters
    ----------
    device : name of the RDMA device
    """

    def __init__(self, device: str):
        self.device = device
        self.ends: dict[int, RdmaEndpoint] = {}
        self.made = 0
        self.verbs = {
            "port": self._port, "create": self._create, "connect": self._connect,
            "drop": self._drop, "prepare": self._prepare, "take": self._take, "echo": self._echo,
        }  # fmt: skip

    def answer(self, message: Message) -> Message:
        """Execute a message from the near end and return the reply.

        Raises
        ------
        DriverFault
            ``protocol`` if the message is unknown or malformed; other kinds if the device refuses.
        """
        return answer_by_verb(self.verbs, message)

    def close(self) -> None:
        """Destroy all endpoints."""
        ends, self.ends = self.ends, {}
        for end in ends.values():
            end.close()

    def _port(self, message: Message) -> Message:
        return {
            "port": port_message(rdma_ports.active_port(self.device)),
            "clock": clock_source.clock_of_this_machine(),
            "host": os.uname().nodename,
        }

    def _create(self, message: Message) -> Message:
        from .rdma_end import EndpointSettings, RdmaEndpoint

        port = rdma_ports.active_port(self.device)
        gid = next(g for g in port.gids if g.index == message["gid"])
        self.made += 1
        self.ends[self.made] = RdmaEndpoint(port, gid, EndpointSettings(**message["made"]))
        return {"end": self.made, "info": self.ends[self.made].connection_info()}

    def _connect(self, message: Message) -> Message:
        self.ends[message["end"]].connect(message["info"])
        return {}

    def _drop(self, message: Message) -> Message:
        self.ends.pop(message["end"]).close()
        return {}

    def _prepare(self, message: Message) -> Message:
        for _ in range(message["count"]):
            self.ends[message["end"]].post_receive(message["size"])
        return {}

    def _take(self, message: Message) -> Message:
        self.ends[message["end"]].done.wait(message["count"])
        return {}

    def _echo(self, message: Message) -> Message:
        """Send each message back; reply with the time when each arrived and when its reply left."""
        end, stamps = self.ends[message["end"]], []
        end.done.wait(1)
        for left in reversed(range(message["count"])):
            came = time.perf_counter_ns()
            end.post("rdma-send", message["size"])
            stamps.append((came, time.perf_counter_ns()))
            end.done.wait(2 if left else 1)  # that the reply left, and the next message
        return {"stamps": stamps}


class FarEndpoint:
    """Handle of an endpoint on another host, through which this host controls it.

    Parameters
    ----------
    link : message link to the driver on that host
    number : identifies the endpoint on that host
    """

    def __init__(self, link: PeerLink, number: int):
        self.link, self.number = link, number

    def request(self, do: str, **more: Any) -> Message:
        """Send a command to this endpoint and wait for the reply."""
        return self.link.request({"do": do, "end": self.number, **more})

    def send(self, do: str, **more: Any) -> None:
        """Send a command to this endpoint without waiting for the reply."""
        self.link.send({"do": do, "end": self.number, **more})

    def close(self) -> None:
        """Destroy the endpoint on the other host."""
        self.request("drop")


class PeerHost:
    """Port of another host, used to create endpoints there.

    Parameters
    ----------
    link : message link to the driver on that host
    device : RDMA device of this host
    gid : index of this host's GID; -1 to choose
    """

    def __init__(self, link: PeerLink, device: str, gid: int):
        self.link = link
        self.there = link.request({"do": "port"})
        self.port = rdma_ports.active_port(device)
        self.peer = port_of_message(self.there["port"])
        self.gids = rdma_ports.gid_pair(self.port, self.peer, gid)

    def connected_pair(self, settings: EndpointSettings) -> tuple[RdmaEndpoint, FarEndpoint]:
        """Create an endpoint here and one on the other host, and connect them."""
        from .rdma_end import RdmaEndpoint

        told = {**asdict(settings), "gid": -1, "compiled": False, "batch": 1}
        near = RdmaEndpoint(self.port, self.gids[0], settings)
        try:
            reply = self.link.request({"do": "create", "made": told, "gid": self.gids[1].index})
            far = FarEndpoint(self.link, int(reply["end"]))
            near.connect(reply["info"])
            far.request("connect", info=near.connection_info())
        except Exception:
            near.close()
            raise
        return near, far


def send_times(pair: FarPair, size: int, n: int) -> list[int]:
    """Time in ns from posting a send to its completion, shape (n,).

    Receives are posted at the far end in batches before the sends.
    """
    (near, far), took = pair, []
    for count in _message_batches(n):
        far.request("prepare", size=size, count=count)
        for _ in range(count):
            since = time.perf_counter_ns()
            near.post("rdma-send", size)
            near.done.wait(1)
            took.append(time.perf_counter_ns() - since)
        far.request("take", count=count)
    return took


def echo(pair: FarPair, size: int, n: int) -> tuple[Stamps, Stamps]:
    """Time stamps of n round trips: (departure, return) here, (arrival, departure) there."""
    near, far = pair
    here: Stamps = []
    there: Stamps = []
    for count in _message_batches(n):
        far.request("prepare", size=size, count=count)
        far.send("echo", size=size, count=count)
        for _ in range(count):
            near.post_receive(size)
            left = time.perf_counter_ns()
            near.post("rdma-send", size)
            near.done.wait(2)  # that it left, and its reply
            here.append((left, time.perf_counter_ns()))
        there += [(int(came), int(gone)) for came, gone in far.link.receive()["stamps"]]
    return here, there


def measure_offset(pair: FarPair) -> ClockOffset:
    """Offset of the other host's clock, measured by round trips."""
    return offset_of_round_trips(*echo(pair, SMALL, EXCHANGES))


def _message_batches(n: int) -> Iterator[int]:
    """Yield batch sizes that add up to n messages; each batch has its receives posted at once."""
    for begin in range(0, n, RECEIVES):
        yield min(RECEIVES, n - begin)
