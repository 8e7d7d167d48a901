"""Driver ``switch``: ops across a Linux bridge with given rate, delay and loss, and port counters.

A switch has no op of its own that can be timed. So this driver times ops of endpoints that cross
the switch (setting ``ends``), and each sample includes the change of the port counters.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ....sim.errors import DriverFault
from ....sim.facts.signature import parse_signature
from ...driver import Driver, Missing, Ready, Spec, check_choice, checked, driver
from ...measuring.device_lock import lock_device
from ...sample import Request, Sample
from ..linux import clock_source, netns
from ..rdma import rdma
from . import datapath, gnmi
from .leaf_spine import LeafSpineNetwork
from .sockets import Sockets

if TYPE_CHECKING:
    from ....sim.facts.system import System

VERBS, SOCKETS = "verbs", "sockets"
LAB = "switch"  # the namespace in which a machine of the lab has its bridge
PORT_QUEUE = {"rate": "", "delay_us": 0.0, "loss": 0.0, "reorder": 0.0, "queue": "netem",
              "limit": 10000}  # fmt: skip
SETTINGS = {"ends": "", "hosts": 2, **PORT_QUEUE, "mtu": 1500, "datapath": "bridge", "spines": 0,
            "counters": "", "ports": ""}  # fmt: skip
QUEUES = ("netem", "tbf", "fair")
BRIDGE, OVS, GNMI = "bridge", "ovs", "gnmi"
SHAPING = ("rate", "delay_us", "loss", "reorder", "queue", "limit", "datapath", "spines", "hosts",
           "mtu")  # fmt: skip
LONG = "10s"  # a queue does not drop for being long
NO_ENDPOINTS = ("a switch alone cannot be timed: an op is timed at its two ends; "
         "open it with ends: verbs or ends: sockets")  # fmt: skip


def queue_arguments(settings: Mapping[str, Any]) -> list[str]:
    """Arguments of tc for the queueing discipline of a port; empty for the kernel's default.

    >>> queue_arguments({**SETTINGS, "rate": "10gbit", "delay_us": 1.0})
    ['netem', 'delay', '1us', 'rate', '10gbit', 'limit', '10000']
    >>> queue_arguments({**SETTINGS, "queue": "tbf", "rate": "1gbit"})
    ['tbf', 'rate', '1gbit', 'burst', '9k', 'limit', '45000000']
    >>> " ".join(queue_arguments({**SETTINGS, "delay_us": 5.0, "reorder": 20}))
    'netem delay 5us reorder 20% limit 10000'
    """
    if settings["queue"] != "netem":
        if settings["delay_us"] or settings["loss"] or settings["reorder"] or not settings["rate"]:
            raise DriverFault("unsupported", f"queue {settings['queue']} needs a rate, and does "
                              "not support delay_us, loss or reorder; set queue: "
                              "netem")  # fmt: skip
        limit = str(int(settings["limit"]) * 4500)
        return ["tbf", "rate", settings["rate"], "burst", "9k", "limit", limit]
    if settings["reorder"] and not settings["delay_us"]:
        raise DriverFault("unsupported", "reorder has no effect without delay_us; set delay_us")
    samples = ["netem"]
    samples += ["delay", f"{settings['delay_us']:g}us"] if settings["delay_us"] else []
    samples += ["loss", f"{settings['loss']:g}%"] if settings["loss"] else []
    samples += ["reorder", f"{settings['reorder']:g}%"] if settings["reorder"] else []
    samples += ["rate", settings["rate"]] if settings["rate"] else []
    return [*samples, "limit", str(settings["limit"])] if len(samples) > 1 else []


def child_queue_arguments(settings: Mapping[str, Any]) -> list[str]:
    """Arguments of tc for a port's child queueing discipline: fq_codel for ``fair``, else empty.

    >>> child_queue_arguments(SETTINGS)
    []
    >>> " ".join(child_queue_arguments({**SETTINGS, "queue": "fair"}))
    'fq_codel limit 10000 quantum 9000 target 10s interval 10s'
    """
    if settings["queue"] != "fair":
        return []
    return ["fq_codel", "limit", str(settings["limit"]), "quantum", "9000",
            "target", LONG, "interval", LONG]  # fmt: skip


class SocketSwitch(Driver):
    """Driver of TCP and UDP endpoints across a bridge or leaf-spine network that it creates."""

    ops = ("send:stream", "send:datagram")

    def __init__(self, hosts: int, mtu: int, spines: int):
        self.clock, prefix = clock_source.clock_of_this_machine(), f"ft{os.getpid()}"
        self.star = (
            LeafSpineNetwork(hosts, prefix, mtu, spines)
            if spines
            else netns.StarNetwork(hosts, prefix, mtu)
        )
        self.star.build()
        self.sockets = Sockets(self.star)

    def timing(self, requests: Sequence[Request]) -> list[Sample]:
        """Time each op alone: arrival of a stream, or half the round trip of a datagram."""
        methods: dict[str, tuple[str, Callable[[int], float]]] = {
            "stream": ("completion", lambda size: self.sockets.stream([size])[0]),
            "datagram": ("half_rtt", self.sockets.half_rtt),
        }
        samples = []
        for request in requests:
            name, size = _name_and_bytes(request)
            metric, once = methods[name]
            once(size)
            ns = np.array([once(size) for _ in range(request.n)], np.float64)
            samples.append(Sample(request.signature, ns, self.clock, metric, request.key[1]))
        return samples

    def together(self, requests: Sequence[Request]) -> list[Sample]:
        """Samples of concurrent TCP streams into host 1."""
        rounds = min(r.n for r in requests)
        settings = [_name_and_bytes(r) for r in requests]
        if {name for name, _ in settings} != {"stream"}:
            raise DriverFault(
                "unsupported", "only streams can run concurrently; request send:stream"
            )
        sizes = [size for _, size in settings]
        ns = np.array([self.sockets.stream(sizes) for _ in range(rounds + 1)], np.float64)[1:]
        return [Sample(r.signature, ns[:, i], self.clock, "completion", r.key[1])
                for i, r in enumerate(requests)]  # fmt: skip

    def close(self) -> None:
        """Close the sockets and remove the namespaces."""
        self.sockets.close()
        self.star.clear()


def _name_and_bytes(request: Request) -> tuple[str, int]:
    parts = parse_signature(request.signature)
    return parts.name, parts.bytes


@driver("switch")
class SwitchDriver(Driver):
    """Driver that times ops of endpoints across a bridge with given rate, delay and loss.

    Settings: ``ends`` (``verbs``: the soft-RoCE devices on the lab's bridge; ``sockets``: TCP and
    UDP between ``hosts`` namespaces on a bridge created for them), ``rate`` (in the syntax of tc),
    ``delay_us`` of a port, ``loss`` and ``reorder`` (percent; a reordered packet is sent at once
    while others are delayed), ``queue`` (``netem``; ``tbf``; ``fair``, which serves flows in turn),
    ``limit`` (packets), ``datapath`` (``bridge``, or ``ovs``: the kernel datapath of Open vSwitch),
    ``spines`` (number of spines between two leaves, whose uplinks are the ports; only with
    sockets). With ``ends: verbs`` the settings of the driver ``verbs`` apply too. With ``counters:
    gnmi`` the ends are RDMA devices of this machine, and a real switch connects them. That switch
    is only read: the counters of its ``ports`` (separated by commas), see ``gnmi.GnmiReader``.
    """

    ops = (*SocketSwitch.ops, *(op for op in rdma.VerbsDriver.ops if op.startswith("send:")))
    sharing = "concurrent"

    def __init__(self) -> None:
        self.clock = clock_source.clock_of_this_machine()
        self.ends: Driver | None = None
        self.where, self.queue = "", [""]
        self.ports: tuple[str, ...] = ()
        self.datapath, self.mac_by_port = BRIDGE, dict[str, str]()
        self.reader: gnmi.GnmiReader | None = None
        self.lock = ExitStack()

    def probe(self) -> Ready | Missing:
        """Send a datagram across a temporary bridge to find out if the driver works here."""
        cure = netns.CURES["broken"]
        found = self.sample_of_probe({"ends": SOCKETS}, "send:datagram uint8[64]", cure)
        if isinstance(found, Missing):
            return found
        facts = {"datagram_64B_us": f"{found.median / 1e3:.1f}", "clock": self.clock}
        return Ready(("bridge",), facts)

    def open(self, spec: Spec) -> None:
        """Lock this machine's bridges, open the endpoints and set the ports' queues."""
        ends = spec.get("ends", "")
        settings = checked(spec, {**SETTINGS, **(rdma.SETTINGS if ends == VERBS else {})})
        _check_settings(settings)
        try:
            self._open_ends(ends, settings)
        except Exception:
            self.close()
            raise

    def _open_ends(self, ends: str, settings: dict[str, Any]) -> None:
        if ends and settings["counters"] != GNMI:
            self.lock.enter_context(lock_device(netns.LOCK))
        if settings["counters"] == GNMI:
            self.reader = gnmi.GnmiReader([p for p in settings["ports"].split(",") if p])
            self.ends = rdma.VerbsDriver()
            self.ends.open({k: settings[k] for k in rdma.SETTINGS})
        elif ends == VERBS:
            self.ends = self._verbs({k: settings[k] for k in rdma.SETTINGS})
        elif ends == SOCKETS:
            self.ends = socketed = SocketSwitch(
                settings["hosts"], settings["mtu"], settings["spines"]
            )
            self.where, self.ports = socketed.star.switch, socketed.star.ports
            self.mac_by_port = socketed.star.mac_by_port
        elif ends:
            raise DriverFault("unsupported", f"ends {ends!r}; one of {VERBS}, {SOCKETS}")
        self.metric = self.ends.metric if self.ends else self.metric
        self.queue = [] if self.reader else queue_arguments(settings)
        self.realtime = self.clock == clock_source.WALL
        if self.where and settings["datapath"] == OVS:
            self.datapath = OVS
            datapath.attach_ports(self.where, self.mac_by_port)
        if self.where:
            netns.set_queueing(self.where, self.ports, self.queue, child_queue_arguments(settings))

    def describe(self) -> dict[str, str]:
        """Provenance: the endpoints, and the ports' queues or the real switch's settings."""
        settings = self.ends.describe() if self.ends else {}
        if self.reader is not None:
            return {**settings, "device": f"switch {self.reader.where}", **self.reader.settings()}
        return {**settings, "device": self.datapath, "ports": " ".join(self.ports),
                "queue": " ".join(self.queue), "kernel": os.uname().release}  # fmt: skip

    def timing(self, requests: Sequence[Request]) -> list[Sample]:
        """Samples of each op alone, with the increase of the port counters as facts."""
        return [self._with_counters([request], self._endpoints().timing)[0] for request in requests]

    def together(self, requests: Sequence[Request]) -> list[Sample]:
        """Samples of all ops running concurrently; facts are the increases of port counters."""
        return self._with_counters(requests, self._endpoints().together)

    def close(self) -> None:
        """Restore the ports and close the endpoints."""
        ends, self.ends = self.ends, None
        if self.where == LAB:
            netns.set_queueing(LAB, self.ports, [])
            if self.datapath == OVS:
                datapath.restore_bridge(LAB, self.mac_by_port, BRIDGE)
        if ends is not None:
            ends.close()
        self.where, self.datapath = "", BRIDGE
        if self.reader is not None:
            self.reader.close()
            self.reader = None
        self.lock.close()

    @classmethod
    def covers(cls, spec: Spec, system: System) -> tuple[str, ...]:
        """Names of components whose time a sample includes: all NICs, links and switches."""
        return rdma.VerbsDriver.covers(spec, system)

    def _verbs(self, settings: Mapping[str, Any]) -> Driver:
        if not netns.namespace_exists(LAB):
            raise DriverFault("missing", f"no namespace {LAB!r} that joins RDMA devices; "
                              "run it in the lab: foretrace lab up")  # fmt: skip
        rows = json.loads(netns.run_command("ip", "-n", LAB, "-j", "link", "show", "type", "veth"))
        self.where, self.ports = LAB, tuple(sorted(str(row["ifname"]) for row in rows))
        self.mac_by_port = {port: f"02:00:00:00:00:{int(port[4:]):02x}" for port in self.ports}
        ends = rdma.VerbsDriver()
        ends.open(settings)
        return ends

    def _endpoints(self) -> Driver:
        if self.ends is None:
            raise DriverFault("unsupported", NO_ENDPOINTS)
        return self.ends

    def _with_counters(
        self, requests: Sequence[Request], ask: Callable[[Sequence[Request]], list[Sample]]
    ) -> list[Sample]:
        before = self._counters()
        samples = ask(requests)
        ports = netns.counter_growth(before, self._counters())
        return [replace(s, facts={**s.facts, **ports}) for s in samples]

    def _counters(self) -> dict[str, int]:
        if self.reader is not None:
            return self.reader.counters()
        return netns.port_counters(self.where, self.ports)


def _check_settings(settings: Mapping[str, Any]) -> None:
    for key, allowed in (
        ("queue", QUEUES), ("datapath", (BRIDGE, OVS)), ("counters", ("", GNMI)),
    ):  # fmt: skip
        check_choice(settings, key, allowed)
    if settings["spines"] and (settings["ends"] != SOCKETS or settings["datapath"] != BRIDGE):
        raise DriverFault(
            "unsupported", "spines is possible only between sockets; set ends: sockets"
        )
    if settings["counters"] == GNMI and (settings["ends"] != VERBS or not settings["ports"]):
        raise DriverFault("unsupported", "counters: gnmi needs ends: verbs, and ports: to read")
    changed = [k for k in SHAPING if settings[k] != SETTINGS[k]]
    if settings["counters"] == GNMI and changed:
        raise DriverFault(
            "unsupported",
            f"{changed[0]}: cannot be set on a switch that is only read; leave it out",
        )
