"""Driver ``tcp``: TCP streams between this host and others, each with its own agent.

The receiver requests a message with one byte, and times it until the last byte has arrived. So all
times are read on one clock.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ....sim.errors import DriverFault
from ....sim.facts.signature import parse_signature
from ...driver import Driver, Missing, Ready, Spec, check_choice, checked, driver
from ...measuring.device_lock import lock_device
from ...peer_link import FAR, Message, far_peers, peer_links
from ...sample import WARM, Request, Sample
from ..linux import clock_offset, clock_source
from .tcp_ends import LARGEST, FarEnd, NearEnd, fetch_messages, stream_time

if TYPE_CHECKING:
    from ....sim.facts.system import System

SETTINGS = {"device": "", "metric": "completion", "clock_offset": "", "end": ""}
ATTRIBUTES = {  # of an op, by metric
    "completion": ("flows",),
    "half_rtt": (),
    "message_rate": ("depth", "flows"),
    "bandwidth": ("depth", "flows"),
    "one_way": (),
}
ALONE = "half_rtt"  # the metric of one message of one flow
DEPTH, BATCH = 16, 32  # messages requested in advance; messages per rate sample, as for ``verbs``
WARMING = 2  # rounds that are not counted
CONGESTION = Path("/proc/sys/net/ipv4/tcp_congestion_control")
NETWORK = Path("/proc/self/ns/net")
Facts = dict[str, Any]


@driver("tcp")
class TcpDriver(Driver):
    """Driver that times TCP streams from other hosts to this one.

    Ops are ``send:stream uint8[4096]``, with attributes ``flows=`` (number of connections that are
    requested at once, spread over the peers; the time ends with the last arrival) and, for rates,
    ``depth=`` (number of messages requested in advance on each connection).

    Settings: ``peer`` (other hosts: agent, and as device an address of that host in its network),
    ``device`` (address of this host to connect from), ``metric`` (``completion``: from the request
    to the last byte; ``half_rtt``; ``message_rate`` and ``bandwidth``, as ns per message;
    ``one_way``), ``clock_offset`` (``measured``, required by ``one_way``).
    """

    ops = ("send:stream",)
    sharing = "concurrent"

    def __init__(self) -> None:
        self.clock = clock_source.clock_of_this_machine()
        self.realtime = self.clock == clock_source.WALL  # retransmission, congestion control
        self.settings: dict[str, Any] = dict(SETTINGS)
        self.ends: list[NearEnd] = []
        self.far: FarEnd | None = None
        self.offsets: list[clock_offset.ClockOffset] = []
        self.lock = ExitStack()

    def probe(self) -> Ready | Missing:
        """Request 64 bytes within this host to find out if the driver works here."""
        far = FarEnd("127.0.0.1")
        try:
            there = far.answer({"do": "listen"})
            far.close()
        except DriverFault as fault:
            return Missing(
                "broken", f"listening on 127.0.0.1: {fault.message}", "ip link set lo up"
            )
        return Ready((), {"listened": str(there["port"]), "clock": self.clock})

    def open(self, spec: Spec) -> None:
        """Connect to the peers and measure their clock offsets; a far end only waits."""
        peers = far_peers(spec.get("peer"))
        settings = checked({k: v for k, v in spec.items() if k != "peer"}, SETTINGS)
        self.settings, self.metric = settings, settings["metric"]
        if settings["end"] == FAR:
            self.far = FarEnd(_address(settings["device"]))
            return
        _check_settings(settings, peers, spec.get("peer"))
        links = peer_links(spec["peer"], self.exchange)
        self.lock.enter_context(lock_device(f"tcp-{os.stat(NETWORK).st_ino}"))
        try:
            for link, peer in zip(links, peers, strict=True):
                self.ends.append(NearEnd(link, _address(peer["device"]), settings["device"]))
                clock_source.require_same_clock(
                    self.clock, link.name, str(self.ends[-1].there["clock"])
                )
            self.offsets = [end.measure_offset() for end in self.ends]
        except Exception:
            self.close()
            raise

    def describe(self) -> dict[str, str]:
        """Provenance: hosts, the part of the network inside a sample, and the hosts' clocks."""
        if self.far is not None:
            return {"device": self.settings["device"], "inside": "the far end for another host"}
        ends = zip(self.ends, self.offsets, strict=True)
        return {
            "device": "-".join(["tcp", *(end.address for end in self.ends)]),
            "peers": ", ".join(f"{e.link.name} on {e.there['host']}" for e in self.ends),
            "inside": "two hosts: both TCPs, both NICs and all between them",
            "clock_offsets": "; ".join(o.text(e.link.name) for e, o in ends),
            "congestion": CONGESTION.read_text().strip() if CONGESTION.exists() else "",
            "kernel": f"{os.uname().sysname} {os.uname().release}",
        }

    def together(self, requests: Sequence[Request]) -> list[Sample]:
        """Completion times of ops that run concurrently, spread over the peers.

        The time of an op ends when its last byte arrives.
        """
        rounds = min(r.n for r in requests)
        ns = self._rounds([parse_op(r.signature, ALONE)[1] for r in requests], rounds)[1]
        return [
            Sample(r.signature, ns[:, i], self.clock, "completion", r.key[1],
                   facts={"partial": "rounds in common"} if r.n > rounds else {})
            for i, r in enumerate(requests)
        ]  # fmt: skip

    def peer(self, message: Message) -> Message:
        """Handle a message from the driver on another host."""
        if self.far is None:
            raise DriverFault(
                "protocol", "tcp: this is the near end, which sends requests and accepts none"
            )
        return self.far.answer(message)

    def close(self) -> None:
        """Close all connections."""
        for end in self.ends:
            end.close()
        if self.far is not None:
            self.far.close()
        self.ends, self.far = [], None
        self.lock.close()

    @classmethod
    def covers(cls, spec: Spec, system: System) -> tuple[str, ...]:
        """All NICs, links and switches, because a stream crosses the complete path."""
        return tuple(c.name for c in system.components if c.kind in {"nic", "link", "switch"})

    def time_op(self, request: Request) -> Sample:
        """Sample of one op that runs alone, with its measured times."""
        facts, size = parse_op(request.signature, self.metric)
        if request.context != WARM:
            raise DriverFault(
                "unsupported",
                f"context {request.context} is not supported; streams are always warm",
            )
        if not self.ends:
            raise DriverFault(
                "unsupported", "this is the far end; send requests to the driver of the near end"
            )
        ns, told = METHODS[self.metric](self, size, facts, request.n)
        return self.sample(request, ns, facts=told)

    def _completion(self, size: int, facts: dict[str, int], n: int) -> tuple[Any, Facts]:
        """Time in ns from the request to the last byte of the last flow, shape (n,)."""
        return self._rounds([size] * facts.get("flows", 1), n)[1].max(axis=1), {}

    def _half_rtt(self, size: int, facts: dict[str, int], n: int) -> tuple[Any, Facts]:
        """Half the round-trip time in ns, shape (n,)."""
        here, _ = self.ends[0].echo(size, n + WARMING)
        return [(back - left) / 2 for left, back in here[WARMING:]], {}

    def _per_message(self, size: int, facts: dict[str, int], n: int) -> tuple[Any, Facts]:
        """Time per message in ns, shape (n,).

        On each connection ``depth`` messages are requested in advance.
        """
        flows, depth = facts.get("flows", 1), facts.get("depth", DEPTH)
        count = max(BATCH, 2 * depth)
        connections, of_end = self._connections(flows)
        self._tell(of_end, [size] * flows, (n + 1) * count)
        took = [stream_time(connections, size, depth, count) for _ in range(n + 1)]
        self._hear(of_end)
        return np.array(took[1:]) / (count * flows), {}

    def _one_way(self, size: int, facts: dict[str, int], n: int) -> tuple[Any, Facts]:
        """Time from sending a message at the peer to its last byte here, in ns, shape (n,).

        It is read on two clocks.
        """
        before = self.ends[0].measure_offset()
        arrived, _, begun = self._rounds([size], n, stamped=True)
        offset = clock_offset.combine_offsets(before, self.ends[0].measure_offset())
        return arrived[:, 0] - (np.array(begun[0], np.int64) - round(offset.ns)), offset.facts()

    def _rounds(
        self, sizes: Sequence[int], n: int, stamped: bool = False
    ) -> tuple[Any, Any, list[list[int]]]:
        """Run n rounds of concurrent messages, one message per flow, after a few warm-up rounds.

        Returns, in ns: the arrival time of each message, shape (n, flows); the time from its
        request to its arrival, shape (n, flows); and, if ``stamped``, one list per peer of the
        times when it began to send each message, by the peer's clock.
        """
        connections, of_end = self._connections(len(sizes))
        self._tell(of_end, sizes, n + WARMING, stamped)
        rounds = [fetch_messages(connections, sizes) for _ in range(n + WARMING)][WARMING:]
        begun = [sent[WARMING:] for sent in self._hear(of_end)]
        arrived = np.array([at for _, at in rounds], np.int64)
        return arrived, arrived - np.array([[since] for since, _ in rounds]), begun

    def _connections(self, flows: int) -> tuple[list[Any], list[tuple[int, int]]]:
        """One connection per flow, spread over the peers.

        Also returns, for each flow, the index of its peer and the index of the connection to that
        peer.
        """
        of_end = [(k % len(self.ends), k // len(self.ends)) for k in range(flows)]
        return [self.ends[e].connection(number) for e, number in of_end], of_end

    def _tell(
        self,
        of_end: Sequence[tuple[int, int]],
        sizes: Sequence[int],
        rounds: int,
        stamped: bool = False,
    ) -> None:
        for number, end in enumerate(self.ends):
            asked = {
                str(c): size for (e, c), size in zip(of_end, sizes, strict=True) if e == number
            }
            if asked:
                end.link.send({"do": "serve", "sizes": asked, "rounds": rounds, "stamped": stamped})

    def _hear(self, of_end: Sequence[tuple[int, int]]) -> list[list[int]]:
        used = sorted({e for e, _ in of_end})
        return [list(map(int, self.ends[e].link.receive()["sent_ns"])) for e in used]


METHODS: dict[str, Callable[[TcpDriver, int, dict[str, int], int], tuple[Any, Facts]]] = {
    "completion": TcpDriver._completion,
    "half_rtt": TcpDriver._half_rtt,
    "message_rate": TcpDriver._per_message,
    "bandwidth": TcpDriver._per_message,
    "one_way": TcpDriver._one_way,
}


def parse_op(signature: str, metric: str) -> tuple[dict[str, int], int]:
    """Attributes and bytes of a stream op, parsed from its signature.

    >>> parse_op("send:stream flows=2 uint8[64]", "completion")
    ({'flows': 2}, 64)
    """
    parts, known = parse_signature(signature), ATTRIBUTES[metric]
    told = parts.attributes
    if lost := [k for k in told if k not in known or not told[k].isdigit() or told[k] == "0"]:
        raise DriverFault(
            "unsupported", f"{signature}: attribute {lost[0]!r} is unknown or not a positive "
            f"number; metric {metric} takes {', '.join(known) or 'none'}"
        )  # fmt: skip
    if not 0 < parts.bytes <= LARGEST:
        raise DriverFault(
            "unsupported", f"{signature}: {parts.bytes} B; 1 to {LARGEST} B are allowed"
        )
    return {key: int(value) for key, value in told.items()}, parts.bytes


def _address(device: str) -> str:
    if not device:
        raise DriverFault("unsupported", "a peer without a device; give the address of its network "
                          "on that host, as 10.0.0.2")  # fmt: skip
    return device


def _check_settings(settings: dict[str, Any], peers: Sequence[object], peer: object) -> None:
    check_choice(settings, "metric", METHODS)
    if settings["end"]:
        raise DriverFault(
            "unsupported", f"end is {settings['end']!r}; write {FAR}, or leave it out"
        )
    if not peers:
        raise DriverFault("unsupported", f"peer {peer!r}: tcp measures two hosts; name an agent of "
                          "another one, or take switch with ends: sockets")  # fmt: skip
    clock_offset.require_measured_offset(
        settings["metric"], settings["clock_offset"], two_hosts=True
    )
