"""The driver ``switch``: a bridge of Linux, its ports' rate, delay and loss, its counters.

A switch alone has no time: what can be timed is an op of an endpoint that crosses it.  So this
driver is opened with ``ends``, and each sample tells what the ports counted meanwhile.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...sim.errors import DriverFault
from ...sim.signature import parse
from ..driver import Driver, Missing, Ready, Spec, checked, driver
from ..sample import Request, Sample
from . import clock_source, datapath, gnmi, netns, rdma
from .leaf_spine import LeafSpine
from .sockets import Sockets

if TYPE_CHECKING:
    from ...sim.system import System

VERBS, SOCKETS = "verbs", "sockets"
LAB = "switch"  # the namespace in which a machine of the lab has its bridge
SETTINGS = {"ends": "", "hosts": 2, "rate": "", "delay_us": 0.0, "loss": 0.0, "queue": "netem",
            "limit": 10000, "mtu": 1500, "datapath": "bridge", "spines": 0,
            "counters": "", "ports": ""}  # fmt: skip
QUEUES = ("netem", "tbf", "fair")
BRIDGE, OVS, GNMI = "bridge", "ovs", "gnmi"
SHAPING = ("rate", "delay_us", "loss", "queue", "limit", "datapath", "spines", "hosts", "mtu")
LONG = "10s"  # a queue does not drop for being long
ALONE = ("a switch does not answer for time alone: an op is timed where it begins and ends; "
         "open it with ends: verbs or ends: sockets")  # fmt: skip


def words(told: Mapping[str, Any]) -> list[str]:
    """The queue of a port, as tc says it.

    >>> words({**SETTINGS, "rate": "10gbit", "delay_us": 1.0})
    ['netem', 'delay', '1us', 'rate', '10gbit', 'limit', '10000']
    >>> words({**SETTINGS, "queue": "tbf", "rate": "1gbit"})
    ['tbf', 'rate', '1gbit', 'burst', '9k', 'limit', '45000000']
    """
    if told["queue"] != "netem":
        if told["delay_us"] or told["loss"] or not told["rate"]:
            raise DriverFault("unsupported", f"queue {told['queue']} has a rate, and neither delay "
                              "nor loss; take netem")  # fmt: skip
        limit = str(int(told["limit"]) * 4500)
        return ["tbf", "rate", told["rate"], "burst", "9k", "limit", limit]
    found = ["netem"]
    found += ["delay", f"{told['delay_us']:g}us"] if told["delay_us"] else []
    found += ["loss", f"{told['loss']:g}%"] if told["loss"] else []
    found += ["rate", told["rate"]] if told["rate"] else []
    return [*found, "limit", str(told["limit"])] if len(found) > 1 else []


def inner(told: Mapping[str, Any]) -> list[str]:
    """The queue inside that of a port: of ``fair`` one that serves senders in turn, by packets.

    >>> inner(SETTINGS), " ".join(inner({**SETTINGS, "queue": "fair"}))
    ([], 'fq_codel limit 10000 quantum 9000 target 10s interval 10s')
    """
    if told["queue"] != "fair":
        return []
    return ["fq_codel", "limit", str(told["limit"]), "quantum", "9000",
            "target", LONG, "interval", LONG]  # fmt: skip


class SocketSwitch(Driver):
    """Endpoints of a switch that are sockets, in namespaces that it makes."""

    ops = ("send:stream", "send:datagram")

    def __init__(self, hosts: int, mtu: int, spines: int):
        self.clock, prefix = clock_source.here(), f"ft{os.getpid()}"
        self.star = (
            LeafSpine(hosts, prefix, mtu, spines) if spines else netns.Star(hosts, prefix, mtu)
        )
        self.star.build()
        self.sockets = Sockets(self.star)

    def timing(self, requests: Sequence[Request]) -> list[Sample]:
        """Each op alone: a stream until it has arrived, a datagram as half of there and back."""
        how: dict[str, tuple[str, Callable[[int], float]]] = {
            "stream": ("completion", lambda size: self.sockets.stream([size])[0]),
            "datagram": ("half_rtt", self.sockets.half_rtt),
        }
        found = []
        for request in requests:
            name, size = _told(request)
            metric, once = how[name]
            once(size)
            ns = np.array([once(size) for _ in range(request.n)], np.float64)
            found.append(Sample(request.signature, ns, self.clock, metric, request.key[1]))
        return found

    def together(self, requests: Sequence[Request]) -> list[Sample]:
        """Streams into host 1, all at once."""
        rounds = min(r.n for r in requests)
        told = [_told(r) for r in requests]
        if {name for name, _ in told} != {"stream"}:
            raise DriverFault("unsupported", "only streams are sent at once")
        sizes = [size for _, size in told]
        ns = np.array([self.sockets.stream(sizes) for _ in range(rounds + 1)], np.float64)[1:]
        return [Sample(r.signature, ns[:, i], self.clock, "completion", r.key[1])
                for i, r in enumerate(requests)]  # fmt: skip

    def close(self) -> None:
        """Close sockets, remove namespaces."""
        self.sockets.close()
        self.star.clear()


def _told(request: Request) -> tuple[str, int]:
    parts = parse(request.signature)
    return parts.name, parts.bytes


@driver("switch")
class SwitchDriver(Driver):
    """Times ops of endpoints across a bridge whose ports are given rate, delay and loss.

    Settings: ``ends`` (``verbs``: the soft-RoCE devices on the lab's bridge; ``sockets``: TCP and
    UDP between ``hosts`` namespaces on a bridge of its own), ``rate`` (as tc writes it),
    ``delay_us`` of a port, ``loss`` (percent), ``queue`` (``netem``; ``tbf``; ``fair``, which
    serves flows in turn), ``limit`` (packets), ``datapath`` (``bridge``, or ``ovs``: the kernel's
    part of Open vSwitch), ``spines`` (two leaves joined by so many, whose uplinks are the ports;
    only sockets); with ``ends: verbs`` the settings of ``verbs`` too.  With ``counters: gnmi`` the
    ends are RDMA devices of this machine and what joins them is a switch elsewhere, which is only
    read: the counters of its ``ports`` (with commas), as ``gnmi.Reader`` tells them.
    """

    ops = (*SocketSwitch.ops, *(op for op in rdma.VerbsDriver.ops if op.startswith("send:")))
    sharing = "concurrent"

    def __init__(self) -> None:
        self.clock = clock_source.here()
        self.ends: Driver | None = None
        self.where, self.queue = "", [""]
        self.ports: tuple[str, ...] = ()
        self.datapath, self.behind = BRIDGE, dict[str, str]()
        self.reader: gnmi.GnmiReader | None = None

    def probe(self) -> Ready | Missing:
        """Build a bridge between two namespaces, send a datagram across, remove it."""
        try:
            self.open({"ends": SOCKETS})
            sample = self.timing([Request("send:datagram uint8[64]")])[0]
        except DriverFault as fault:
            return netns.lacking(fault)
        except OSError as error:
            return Missing("broken", f"a datagram across a bridge: {error}", netns.CURES["broken"])
        finally:
            self.close()
        return Ready(
            ("bridge",), {"datagram_64B_us": f"{sample.median / 1e3:.1f}", "clock": self.clock}
        )

    def open(self, spec: Spec) -> None:
        """Shape the ports, and open the endpoints."""
        ends = spec.get("ends", "")
        told = checked(spec, {**SETTINGS, **(rdma.SETTINGS if ends == VERBS else {})})
        _sensible(told)
        if told["counters"] == GNMI:
            self.reader = gnmi.GnmiReader([p for p in told["ports"].split(",") if p])
            self.ends = rdma.VerbsDriver()
            self.ends.open({k: told[k] for k in rdma.SETTINGS})
        elif ends == VERBS:
            self.ends = self._verbs({k: told[k] for k in rdma.SETTINGS})
        elif ends == SOCKETS:
            self.ends = socketed = SocketSwitch(told["hosts"], told["mtu"], told["spines"])
            self.where, self.ports = socketed.star.switch, socketed.star.ports
            self.behind = socketed.star.behind
        elif ends:
            raise DriverFault("unsupported", f"ends {ends!r}; one of {VERBS}, {SOCKETS}")
        self.metric = self.ends.metric if self.ends else self.metric
        self.queue = [] if self.reader else words(told)
        self.realtime = self.clock == clock_source.WALL
        if self.where and told["datapath"] == OVS:
            self.datapath = OVS
            datapath.put(self.where, self.behind)
        if self.where:
            netns.shape(self.where, self.ports, self.queue, inner(told))

    def describe(self) -> dict[str, str]:
        """The ports' queue, and the endpoints."""
        told = self.ends.describe() if self.ends else {}
        if self.reader is not None:
            return {**told, "device": f"switch {self.reader.where}", **self.reader.settings()}
        return {**told, "device": self.datapath, "ports": " ".join(self.ports),
                "queue": " ".join(self.queue), "kernel": os.uname().release}  # fmt: skip

    def timing(self, requests: Sequence[Request]) -> list[Sample]:
        """Each op alone, with what the ports counted."""
        return [self._counted([request], self._opened().timing)[0] for request in requests]

    def together(self, requests: Sequence[Request]) -> list[Sample]:
        """All ops at once, with what the ports counted."""
        return self._counted(requests, self._opened().together)

    def close(self) -> None:
        """Ports as they were, endpoints closed."""
        ends, self.ends = self.ends, None
        if self.where == LAB:
            netns.shape(LAB, self.ports, [])
            if self.datapath == OVS:
                datapath.back(LAB, self.behind, BRIDGE)
        if ends is not None:
            ends.close()
        self.where, self.datapath = "", BRIDGE
        if self.reader is not None:
            self.reader.close()
            self.reader = None

    @classmethod
    def covers(cls, spec: Spec, system: System) -> tuple[str, ...]:
        """Endpoints time across all of the network: NICs and links too."""
        return rdma.VerbsDriver.covers(spec, system)

    def _verbs(self, told: Mapping[str, Any]) -> Driver:
        if not netns.exists(LAB):
            raise DriverFault("missing", f"no namespace {LAB!r} that joins RDMA devices; "
                              "run it in the lab: foretrace lab up")  # fmt: skip
        rows = json.loads(netns.call("ip", "-n", LAB, "-j", "link", "show", "type", "veth"))
        self.where, self.ports = LAB, tuple(sorted(str(row["ifname"]) for row in rows))
        self.behind = {port: f"02:00:00:00:00:{int(port[4:]):02x}" for port in self.ports}
        ends = rdma.VerbsDriver()
        ends.open(told)
        return ends

    def _opened(self) -> Driver:
        if self.ends is None:
            raise DriverFault("unsupported", ALONE)
        return self.ends

    def _counted(
        self, requests: Sequence[Request], ask: Callable[[Sequence[Request]], list[Sample]]
    ) -> list[Sample]:
        before = self._counters()
        found = ask(requests)
        ports = netns.passed(before, self._counters())
        return [replace(s, facts={**s.facts, **ports}) for s in found]

    def _counters(self) -> dict[str, int]:
        if self.reader is not None:
            return self.reader.counters()
        return netns.counters(self.where, self.ports)


def _sensible(told: Mapping[str, Any]) -> None:
    for key, allowed in (
        ("queue", QUEUES), ("datapath", (BRIDGE, OVS)), ("counters", ("", GNMI)),
    ):  # fmt: skip
        if told[key] not in allowed:
            raise DriverFault("unsupported", f"{key} {told[key]!r}; one of {', '.join(allowed)}")
    if told["spines"] and (told["ends"] != SOCKETS or told["datapath"] != BRIDGE):
        raise DriverFault("unsupported", "spines are routers between sockets; say ends: sockets")
    if told["counters"] == GNMI and (told["ends"] != VERBS or not told["ports"]):
        raise DriverFault("unsupported", "counters: gnmi needs ends: verbs, and ports: to read")
    changed = [k for k in SHAPING if told[k] != SETTINGS[k]]
    if told["counters"] == GNMI and changed:
        raise DriverFault("unsupported", f"{changed[0]}: a switch that is read is not changed")
