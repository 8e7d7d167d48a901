"""Driver ``verbs``: RDMA through pyverbs, on any device that libibverbs supports.

Both ends are devices of this machine in this process, or one end is on another host and reached
through its own agent. All times except one-way times are read on one clock. In virtual time the
driver sleeps until a completion, because polling would never let time advance.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import numpy as np

from ....sim.errors import DriverFault
from ....sim.facts.signature import parse_signature
from ...driver import Driver, Missing, Ready, Spec, check_choice, checked, driver
from ...peer_link import FAR, Message, far_peers, peer_links
from ...sample import COLD, ONE_WAY, WARM, Request, Sample
from ..linux import clock_source
from ..linux.clock_offset import combine_offsets, require_measured_offset
from . import rdma_control, rdma_loop, rdma_peer, rdma_ports
from .rdma_ops import Ends, message_stream_time, polling_overhead, round_trip_time, time_op

if TYPE_CHECKING:
    from ....sim.facts.system import System
    from .rdma_end import RdmaEndpoint

SETTINGS = {"device": "", "peer": "", "transport": "rc", "metric": "completion",
            "completions": "", "senders": "", "inline": 0, "gid": -1, "path_mtu": 0, "srq": 0,
            "timed": "", "clock_offset": "", "end": ""}  # fmt: skip
SENDS = {
    "rc": ("rdma-send", "rdma-write", "rdma-read"),
    "uc": ("rdma-send", "rdma-write"),
    "ud": ("rdma-send",),
}
SLEEP, POLL = "sleep", "poll"
PYTHON, MACHINE_CODE = "python", "machine-code"
LARGEST = 64 << 20  # bytes of one op
ATTRIBUTES = ("depth", "qps", "batch", "flows")
DEPTH = 16  # messages outstanding on each queue pair of a rate that does not say it
BATCH = 32  # messages in a row for a rate
WARMING = 2  # exchanges with another host that are not counted
CURE = (
    "apt install python3-pyverbs ibverbs-providers python3-numpy, and run the agent with the "
    "distribution's python3 (python: /usr/bin/python3 in agents.yaml); or take perftest"
)


def rdma_device_names() -> tuple[str, ...]:
    """Names of the RDMA devices of this machine."""
    import pyverbs.device

    return tuple(sorted(found.name.decode() for found in pyverbs.device.get_device_list()))


@driver("verbs")
class VerbsDriver(Driver):
    """Driver that times RDMA ops and each call of the RDMA control path.

    Ops are ``send:rdma-write uint8[4096]`` (also ``rdma-read``, ``rdma-send``), with attributes
    ``depth=`` (outstanding messages), ``qps=`` (queue pairs) and ``batch=`` (messages per post) for
    rates, and ``flows=`` (ops that start at once, spread over the senders; the time ends with the
    last completion). ``host:verbs-reg-mr uint8[4096]`` and similar ops are calls of
    ``rdma_control``. Context ``cold`` is the first use of a new pair of endpoints.

    Settings: ``device`` and ``peer`` (names; by default the first two devices), ``transport`` (``rc
    uc ud``), ``metric`` (``completion``; ``half_rtt`` of rdma-send; ``message_rate`` and
    ``bandwidth``, as ns per message), ``completions`` (``sleep`` or ``poll``), ``senders``
    (devices, separated by commas, whose ops ``together`` starts at once towards ``peer``),
    ``inline`` (maximum bytes of data inside the work request), ``gid`` (index of the device's GID;
    by default the first one of RoCE v2 on the port's own interface), ``path_mtu`` (bytes of a
    packet; by default the largest that both ports have), ``srq`` (1: all queue pairs take receives
    from one shared queue), ``timed`` (``machine-code``: no Python between post and completion; the
    default if a real card is polled by an x86-64 processor; or ``python``). If ``peer`` equals
    ``device``, that NIC is measured alone. A peer on another host is given by its agent and device.
    Then metric ``one_way`` of rdma-send requires ``clock_offset: measured``, and ``flows=`` are
    spread over several peers.
    """

    ops = (*(f"send:{name}" for name in SENDS["rc"]), *rdma_control.OPS)
    sharing = "concurrent"

    def __init__(self) -> None:
        self.clock = clock_source.clock_of_this_machine()
        self.settings: dict[str, Any] = dict(SETTINGS)
        self.pairs: dict[tuple[str, int, int, int, int], Ends] = {}
        self.hosts: list[rdma_peer.PeerHost] = []
        self.far: rdma_peer.FarEndpoints | None = None
        self.locks = ExitStack()

    def probe(self) -> Ready | Missing:
        """Write 64 bytes from one device to another to find out if the driver works here."""
        try:
            names = rdma_device_names()
        except ImportError as error:
            return Missing("missing", f"pyverbs: {error}", CURE)
        except Exception as error:  # pyverbs raises its own where there is no RDMA at all
            return Missing(
                "missing", f"no RDMA device ({error})", "load a driver, or: rdma link add"
            )
        if not names:
            return Missing("missing", "libibverbs lists no device", "load a driver: rdma link add")
        try:
            self.open({} if len(names) > 1 else {"device": names[0], "peer": names[0]})
            sample = self.timing([Request("send:rdma-write uint8[64]")])[0]
        except DriverFault as fault:
            return Missing.of(fault)
        except PermissionError as error:
            return Missing(
                "denied", f"{names[0]}: {error}", "allow /dev/infiniband/uverbs*, memlock"
            )
        except Exception as error:  # of libibverbs
            return Missing("broken", f"{names[0]}: a write of 64 B: {error}", "look at rdma link")
        finally:
            self.close()
        return Ready(names, {"write_64B_us": f"{sample.median / 1e3:.1f}", "clock": self.clock})

    def open(self, spec: Spec) -> None:
        """Choose and lock devices; queue pairs are created when an op needs them."""
        peers = far_peers(spec.get("peer"))
        links = peer_links(spec.get("peer"), self.exchange)
        settings = checked({**spec, "peer": ""} if peers else spec, SETTINGS)
        names = rdma_device_names()
        far = settings["end"] == FAR
        settings["device"], settings["peer"] = rdma_ports.device_and_peer(
            settings["device"], settings["peer"], names, alone=far or bool(peers)
        )
        settings["senders"] = [s for s in settings["senders"].split(",") if s] or [
            settings["device"]
        ]
        settings["completions"] = settings["completions"] or (
            SLEEP if self.clock == clock_source.TIMETRAVEL else POLL
        )
        for name in settings["senders"]:
            rdma_ports.device_and_peer(settings["device"], name, names)
        settings["timed"] = settings["timed"] or _default_timing(settings, self.clock)
        _check_settings(settings, self.clock)
        require_measured_offset(settings["metric"], settings["clock_offset"], bool(peers))
        ends = (settings["device"], settings["peer"], *settings["senders"])
        self.locks = rdma_ports.lock_rdma_devices(ends)
        if far:
            self.far = rdma_peer.FarEndpoints(settings["device"])
        self.hosts = [rdma_peer.PeerHost(k, settings["device"], settings["gid"]) for k in links]
        for host in self.hosts:
            clock_source.require_same_clock(self.clock, host.link.name, str(host.there["clock"]))
        self.settings, self.metric = settings, settings["metric"]
        self.realtime = self.clock == clock_source.WALL  # retransmission, congestion control

    def describe(self) -> dict[str, str]:
        """Provenance: devices, the part of the network inside a sample, transport, kernel."""
        kernel = os.uname()
        return {
            **self._describe_ends(),
            "transport": self.settings["transport"],
            "completions": self.settings["completions"],
            "inline": str(self.settings["inline"]),
            "path_mtu": str(self.settings["path_mtu"] or "the ports'"),
            "timed": self.settings["timed"],
            "kernel": f"{kernel.sysname} {kernel.release} {kernel.machine}",
        }

    def together(self, requests: Sequence[Request]) -> list[Sample]:
        """Completion times of ops that run concurrently, spread over the sending devices.

        Each time is from the common start to the completion of the op.
        """
        from .rdma_end import completion_times

        rounds = min(request.n for request in requests)
        ends, plans = self._ends_of_senders(requests)
        taken = np.zeros((rounds, len(requests)))
        for k in range(rounds + 1):  # the first round warms up
            since = time.perf_counter_ns()
            for end, (name, size) in zip(ends, plans, strict=True):
                end.post(name, size)
            taken[k - 1 if k else 0] = completion_times(ends, [1] * len(ends), since)
        return [
            Sample(r.signature, taken[:, i], self.clock, "completion", r.key[1],
                   facts={"partial": "rounds in common"} if r.n > rounds else {})
            for i, r in enumerate(requests)
        ]  # fmt: skip

    def close(self) -> None:
        """Destroy the queue pairs, close the devices and release them."""
        self._drop_pairs()
        self.hosts = []
        if self.far is not None:
            self.far.close()
            self.far = None
        self.locks.close()

    def peer(self, message: Message) -> Message:
        """Handle a message from the driver on another host."""
        if self.far is None:
            raise DriverFault(
                "protocol", "verbs: this is the near end, which sends requests and accepts none"
            )
        return self.far.answer(message)

    @classmethod
    def covers(cls, spec: Spec, system: System) -> tuple[str, ...]:
        """Names of components whose time a sample includes: NICs, links and switches.

        None besides its own component if the device is its own peer.
        """
        if spec.get("device", "") and spec.get("peer", "") == spec["device"]:
            return ()
        return tuple(c.name for c in system.components if c.kind in {"nic", "link", "switch"})

    def _describe_ends(self) -> dict[str, str]:
        """Devices, the path between them, and the part of it inside a sample."""
        device = self.settings["device"]
        if not self.hosts:
            return rdma_ports.describe_ends(device, self.settings["peer"], self.settings["gid"])
        told = [rdma_ports.describe_ports(h.port, h.peer, self.settings["gid"]) for h in self.hosts]
        peers = [f"{h.link.name} on {h.there['host']}" for h in self.hosts]
        return {**told[0], "device": "-".join([device, *(h.peer.device for h in self.hosts)]),
                "peers": ", ".join(peers), "inside": rdma_ports.TWO_HOSTS}  # fmt: skip

    def time_op(self, request: Request) -> Sample:
        """Sample of an op; after a failure no queue pair is used again."""
        try:
            return self._measure_op(request)
        except Exception:
            self._drop_pairs()
            raise

    def _drop_pairs(self) -> None:
        pairs, self.pairs = self.pairs, {}
        for pair in pairs.values():
            for end in pair:
                end.close()

    def _measure_op(self, request: Request) -> Sample:
        name, facts, size = parse_op(request.signature)
        if self.far is not None:
            raise DriverFault(
                "unsupported", "this is the far end; send requests to the driver of the near end"
            )
        if request.signature.startswith("host:"):
            if self.hosts:
                raise DriverFault("unsupported", f"{name} is a call of one host; set peer to a "
                                  "device of this host")  # fmt: skip
            clock_source.refuse_under_timetravel(name, self.clock)
            took = rdma_control.call_times(
                name, self.settings["device"], self.settings["peer"], size, request.n
            )
            return Sample(request.signature, took, self.clock, "completion", request.key[1])
        if name not in SENDS[self.settings["transport"]]:
            raise DriverFault("unsupported", f"{name} is not possible over transport "
                              f"{self.settings['transport']}; set transport: rc")  # fmt: skip
        if request.context not in (WARM, COLD):
            raise DriverFault(
                "unsupported", f"context {request.context} is not supported; use warm or cold"
            )
        about: dict[str, Any] = {}
        if self.metric == ONE_WAY:
            ns, about = self._one_way(name, size, request.n)
        else:
            ns = METHODS[self.metric](self, request, name, size, facts)
        return self.sample(request, ns, facts={**self._polling_overhead(name), **about})

    def _polling_overhead(self, name: str) -> dict[str, Any]:
        """Facts ``own_ns``, the time this code adds to a polled op, and ``timed``, the code used.

        Rates of sends are always measured by Python code, which posts receives meanwhile.
        """
        if self.settings["completions"] != POLL or not self.pairs:
            return {}
        pair, timed = next(reversed(self.pairs.values())), self.settings["timed"]
        if name == "rdma-send" and self.metric != "completion":
            timed = PYTHON
        return {"own_ns": polling_overhead(pair, name, timed == MACHINE_CODE), "timed": timed}

    def _completion_times(
        self, request: Request, name: str, size: int, facts: dict[str, int]
    ) -> list[float]:
        """Time in ns from posting an op to its completion, shape (n,).

        An op with several flows is complete when its last flow is complete.
        """
        if flows := facts.get("flows", 0):
            each = self.together([Request(f"send:{name} uint8[{size}]", request.n)] * flows)
            return [float(ns) for ns in np.max([s.ns for s in each], axis=0)]
        if request.context == COLD:
            return [self._first_use(name, size) for _ in range(request.n)]
        if self.hosts and name == "rdma-send":
            return [*map(float, rdma_peer.send_times(self._far_pair(size), size, request.n))]
        pair = self._connected_pair(name, size, 1, 1)
        return [time_op(pair, name, size) for _ in range(request.n)]

    def _half_rtt(self, request: Request, name: str, size: int, _: dict[str, int]) -> list[float]:
        """Half the round-trip time of a message in ns, shape (n,); perftest calls this latency."""
        if name != "rdma-send":
            raise DriverFault("unsupported", f"half_rtt cannot be measured with {name}; use "
                              "rdma-send, or driver perftest")  # fmt: skip
        if self.hosts:
            exchanges = rdma_peer.echo(self._far_pair(size), size, request.n + WARMING)[0]
            return [(back - left) / 2 for left, back in exchanges[WARMING:]]
        pair = self._connected_pair(name, size, 1, 2)
        return [round_trip_time(pair, size) / 2 for _ in range(request.n)]

    def _one_way(self, name: str, size: int, n: int) -> tuple[Any, dict[str, Any]]:
        """Time in ns from posting a send here to its completion at the peer, shape (n,).

        It is read on two clocks.
        """
        if name != "rdma-send":
            raise DriverFault("unsupported", f"one_way of {name} cannot be measured: the other end "
                              "gets no completion; use rdma-send")  # fmt: skip
        small = self._far_pair(rdma_peer.SMALL)
        before = rdma_peer.measure_offset(small)
        here, there = rdma_peer.echo(self._far_pair(size), size, n + WARMING)
        offset = combine_offsets(before, rdma_peer.measure_offset(small))
        ns = [(t[0] - h[0]) - offset.ns for h, t in zip(here, there, strict=True)]
        return ns[WARMING:], offset.facts()

    def _far_pair(self, size: int) -> Any:
        """Endpoints of a send to the first peer on another host, with room for many receives."""
        key = ("far", size, 1, rdma_peer.RECEIVES, 1)
        if key not in self.pairs:
            made = self._connect_pair(self.settings["device"], size, 1, rdma_peer.RECEIVES)
            self.pairs[key] = made
            rdma_peer.send_times(made, size, WARMING)
        return self.pairs[key]

    def _time_per_message(
        self, request: Request, name: str, size: int, facts: dict[str, int]
    ) -> list[float]:
        """Time per message in ns, shape (n,).

        On each of ``qps`` queue pairs ``depth`` messages are outstanding.
        """
        qps, depth, batch = facts.get("qps", 1), facts.get("depth", DEPTH), facts.get("batch", 1)
        if depth % batch:
            raise DriverFault("unsupported", f"{request.signature}: depth {depth} is not a "
                              f"multiple of batch {batch}; give a depth that is")  # fmt: skip
        self._refuse_sends(name)
        pair = self._connected_pair(name, size, qps, depth, batch)
        count = -(-max(BATCH, 2 * depth) // batch) * batch * qps
        return [
            message_stream_time(pair, name, size, depth, count) / count for _ in range(request.n)
        ]

    def _first_use(self, name: str, size: int) -> int:
        """Time of the first op of a new pair of endpoints, in ns."""
        self._refuse_sends(name)
        pair = self._connect_pair(self.settings["device"], size, 1, 1)
        try:
            return time_op(pair, name, size)
        finally:
            for end in pair:
                end.close()

    def _refuse_sends(self, name: str) -> None:
        """Refuse sends to another host that would need new receives there while being timed."""
        if self.hosts and name == "rdma-send":
            raise DriverFault(
                "unsupported", "message rates and first uses of rdma-send cannot be measured "
                "between hosts; use rdma-write or rdma-read"
            )  # fmt: skip

    def _connected_pair(self, name: str, size: int, qps: int, depth: int, batch: int = 1) -> Ends:
        """Two connected, warmed-up ends for an op; created once."""
        key = (name, size, qps, depth, batch)
        if key not in self.pairs:
            made = self._connect_pair(self.settings["device"], size, qps, depth, batch)
            self.pairs[key] = made
            for _ in range(2):
                message_stream_time(made, name, size, depth, batch)
        return self.pairs[key]

    def _connect_pair(
        self, device: str, size: int, qps: int, depth: int, batch: int = 1, flow: int = 0
    ) -> Any:
        from .rdma_end import EndpointSettings, connected_pair

        if not 0 < size <= LARGEST:
            raise DriverFault("unsupported", f"an op of {size} B; 1 to {LARGEST} B are allowed")
        settings = self.settings
        made = EndpointSettings(
            settings["transport"], size, qps, depth,
            sleep=settings["completions"] == SLEEP, inline=settings["inline"],
            gid=settings["gid"] if device == settings["device"] else -1,
            batch=batch, shared=bool(settings["srq"]), mtu=settings["path_mtu"],
            compiled=settings["timed"] == MACHINE_CODE,
        )  # fmt: skip
        if self.hosts:
            pair: Any = self.hosts[flow % len(self.hosts)].connected_pair(made)
        else:
            pair = connected_pair((device, settings["peer"]), made)
        if settings["transport"] == "ud" and size > pair[0].largest_datagram:
            raise DriverFault(
                "unsupported",
                f"a datagram of {size} B is too large; send at most {pair[0].largest_datagram} B",
            )
        return pair

    def _ends_of_senders(
        self, requests: Sequence[Request]
    ) -> tuple[list[RdmaEndpoint], list[tuple[str, int]]]:
        """Sending endpoint of each op, spread over the senders, and (name, bytes) of each op."""
        ends, plans, seen = [], [], dict.fromkeys(self.settings["senders"], 0)
        for number, request in enumerate(requests):
            name, _, size = parse_op(request.signature)
            if name not in ("rdma-write", "rdma-read"):
                raise DriverFault(
                    "unsupported", f"{name} cannot run concurrently; use rdma-write or rdma-read"
                )
            sender = self.settings["senders"][number % len(seen)]
            seen[sender] += 1
            key = (f"{sender}#{seen[sender]}", size, 1, 1, 1)
            if key not in self.pairs:
                self.pairs[key] = self._connect_pair(sender, size, 1, 1, flow=number)
            ends.append(self.pairs[key][0])
            plans.append((name, size))
        return ends, plans


METHODS: dict[str, Callable[[VerbsDriver, Request, str, int, dict[str, int]], list[Any]]] = {
    "completion": VerbsDriver._completion_times,
    "half_rtt": VerbsDriver._half_rtt,
    "message_rate": VerbsDriver._time_per_message,
    "bandwidth": VerbsDriver._time_per_message,
}
METRICS = (*METHODS, ONE_WAY)


def _check_settings(settings: dict[str, Any], counted: str) -> None:
    for key, allowed in (
        ("transport", SENDS), ("metric", METRICS), ("completions", (SLEEP, POLL)),
        ("timed", (PYTHON, MACHINE_CODE)), ("srq", (0, 1)),
    ):  # fmt: skip
        check_choice(settings, key, allowed)
    if settings["timed"] == MACHINE_CODE:
        rdma_loop.refuse_other_processors()
        if settings["completions"] != POLL or settings["transport"] == "ud":
            raise DriverFault("unsupported", "timed: machine-code needs completions: poll and a "
                              "transport other than ud; set timed: python")  # fmt: skip
        if settings["metric"] == "half_rtt":
            raise DriverFault("unsupported", "half_rtt by machine code is not supported; use "
                              "driver perftest")  # fmt: skip
    if settings["completions"] == POLL and counted == clock_source.TIMETRAVEL:
        raise DriverFault("unsupported", "polling never ends under the clock timetravel, where "
                          "computing takes no time; set completions to sleep")  # fmt: skip


def _default_timing(settings: dict[str, Any], counted: str) -> str:
    """Default of setting ``timed``: machine code if a real card is polled, else Python."""
    fits = settings["completions"] == POLL and settings["transport"] != "ud"
    fits = fits and settings["metric"] != "half_rtt"
    compiled = platform.machine() == rdma_loop.MACHINE and counted == clock_source.WALL
    return MACHINE_CODE if fits and compiled else PYTHON


def parse_op(signature: str) -> tuple[str, dict[str, int], int]:
    """Name, attributes and bytes of an RDMA op, parsed from its signature.

    >>> parse_op("send:rdma-write depth=16 qps=2 uint8[64]")
    ('rdma-write', {'depth': 16, 'qps': 2}, 64)
    """
    parts = parse_signature(signature)
    settings = parts.attributes
    if lost := [key for key in settings if key not in ATTRIBUTES or not settings[key].isdigit()]:
        raise DriverFault(
            "unsupported", f"{signature}: attribute {lost[0]!r} is unknown or not a number; use "
            f"{', '.join(ATTRIBUTES)}"
        )  # fmt: skip
    return parts.op, {key: int(value) for key, value in settings.items()}, parts.bytes
