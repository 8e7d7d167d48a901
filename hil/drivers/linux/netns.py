"""Network namespaces, bridges and queueing disciplines of Linux, set up with ip and tc.

Every name created here starts with a prefix of one driver and process, so two runs never collide,
and ``clear`` removes everything. pyroute2 (0.9.7) would need no commands, but it passes rates to
the kernel in 32 bits. That ends at 34 Gbit/s, and the ports here have 100 Gbit/s.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ....sim.errors import DriverFault

CLONE_NEWNET = 0x40000000
WAIT = 20.0  # s that ip or tc may take
SETTLE = 100  # tenths of a second for ports to come up
RUN = Path("/run/netns")
LOCK = "bridge"  # ends share this kernel's bridges, queues and processors: one run at a time
KINDS = (
    ("not permitted", "denied"),
    ("Permission denied", "denied"),
    ("Unknown device type", "unsupported"),
    ("not supported", "unsupported"),
    ("qdisc kind is unknown", "unsupported"),
)
CURES = {
    "denied": "run the agent with CAP_NET_ADMIN, or in namespaces of its own: foretrace lab",
    "unsupported": "this kernel lacks it; take the lab's: foretrace lab up",
    "broken": "read the message of ip",
}


def run_command(*words: str) -> str:
    """Run a command and return its standard output.

    Raises
    ------
    DriverFault
        The command failed: ``missing`` (not installed), ``denied``, ``unsupported`` or
        ``broken``. The message has the command's error output.
    """
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=WAIT)
    except FileNotFoundError as error:
        raise DriverFault(
            "missing", f"{words[0]} is not installed; apt install iproute2"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise DriverFault("broken", f"{words[0]} took longer than {WAIT:g} s") from error
    if done.returncode:
        message = " ".join(done.stderr.split()) or f"code {done.returncode}"
        kind = next((k for text, k in KINDS if text in message), "broken")
        raise DriverFault(kind, f"{' '.join(words)}: {message}; {CURES[kind]}")
    return done.stdout


def namespace_exists(name: str) -> bool:
    """True if a network namespace of that name exists."""
    return (RUN / name).exists()


@contextmanager
def inside_namespace(name: str) -> Iterator[None]:
    """Context manager that moves this thread into a network namespace.

    Sockets opened there stay in it.

    Raises
    ------
    DriverFault
        ``denied``: this process lacks the privilege to enter the namespace.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    there = os.open(RUN / name, os.O_RDONLY)
    try:
        if libc.setns(there, CLONE_NEWNET):
            raise DriverFault(
                "denied", f"{name}: {os.strerror(ctypes.get_errno())}; {CURES['denied']}"
            )
        try:
            yield
        finally:
            libc.setns(before, CLONE_NEWNET)
    finally:
        os.close(there)
        os.close(before)


class StarNetwork:
    """Star network: hosts in network namespaces, connected by a bridge in another namespace.

    Parameters
    ----------
    hosts : number of hosts
    prefix : prefix of every name that is created
    mtu : maximum packet size, in B

    Examples
    --------
    >>> star = StarNetwork(2, "ft0")
    >>> star.switch, star.host(1), star.address(1), star.ports
    ('ft0-switch', 'ft0-host1', '10.9.0.1', ('port1', 'port2'))
    """

    def __init__(self, hosts: int, prefix: str, mtu: int = 1500):
        self.hosts, self.prefix, self.mtu = hosts, prefix, mtu
        self.switch = f"{prefix}-switch"
        self.ports = tuple(f"port{i}" for i in range(1, hosts + 1))

    def host(self, number: int) -> str:
        """Name of the namespace of a host; hosts are numbered from 1."""
        return f"{self.prefix}-host{number}"

    def address(self, number: int) -> str:
        """IPv4 address of a host."""
        return f"10.9.0.{number}"

    def build(self) -> None:
        """Create the network; on a failure everything created so far is removed."""
        try:
            self._create_namespaces()
        except (DriverFault, OSError):
            self.clear()
            raise

    def clear(self) -> None:
        """Delete all namespaces of the network."""
        for name in self.names:
            if namespace_exists(name):
                run_command("ip", "netns", "del", name)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all namespaces of this network."""
        return (*map(self.host, range(1, self.hosts + 1)), self.switch)

    @property
    def mac_by_port(self) -> dict[str, str]:
        """MAC address reached at each port."""
        return {port: _mac_of(number) for number, port in enumerate(self.ports, 1)}

    def _create_namespaces(self) -> None:
        run_command("ip", "netns", "add", self.switch)
        run_command("ip", "-n", self.switch, "link", "add", "bridge", "mtu", str(self.mtu), "type",
             "bridge", "ageing_time", "1000000")  # fmt: skip
        run_command("ip", "-n", self.switch, "link", "set", "bridge", "up")
        for number in range(1, self.hosts + 1):
            self._attach_host(number)
        self._fix_neighbours()
        self._wait_until_forwarding()

    def _wait_until_forwarding(self) -> None:
        """Wait until every port forwards, because the kernel detects a new link with a delay."""
        for _ in range(SETTLE):
            rows = json.loads(run_command("bridge", "-n", self.switch, "-j", "link", "show"))
            if sum(row.get("state") == "forwarding" for row in rows) == self.hosts:
                return
            time.sleep(0.1)
        raise DriverFault("broken", f"{self.switch}: a port of its bridge does not forward; "
                          "look at bridge link")  # fmt: skip

    def _attach_host(self, number: int) -> None:
        host, port, mtu = self.host(number), f"port{number}", str(self.mtu)
        run_command("ip", "netns", "add", host)
        run_command("ip", "-n", host, "link", "set", "lo", "up")
        run_command("ip", "link", "add", "nic0", "mtu", mtu, "address", _mac_of(number),
             "netns", host, "type", "veth", "peer", "name", port, "mtu", mtu,
             "netns", self.switch)  # fmt: skip
        run_command("ip", "-n", self.switch, "link", "set", port, "master", "bridge", "up")
        run_command("ip", "-n", host, "addr", "add", f"{self.address(number)}/24", "dev", "nic0")
        run_command("ip", "-n", host, "link", "set", "nic0", "up")

    def _fix_neighbours(self) -> None:
        """Add permanent neighbour entries, so that no ARP message occurs within a sample."""
        for one in range(1, self.hosts + 1):
            for other in range(1, self.hosts + 1):
                if one != other:
                    run_command("ip", "-n", self.host(one), "neigh", "replace", self.address(other),
                         "lladdr", _mac_of(other), "dev", "nic0", "nud", "permanent")  # fmt: skip


def _mac_of(number: int) -> str:
    return f"02:00:00:00:01:{number:02x}"


def set_queueing(
    switch: str, ports: Sequence[str], queue: Sequence[str], inner: Sequence[str] = ()
) -> None:
    """Set the queueing discipline of switch ports.

    Parameters
    ----------
    queue : arguments of tc; empty for the kernel's default
    inner : arguments of tc for a child discipline
    """
    for port in ports:
        at = ("tc", "-n", switch, "qdisc", "replace", "dev", port)
        run_command(*at, "root", *(("handle", "1:") if inner else ()), *(queue or ("pfifo_fast",)))
        if inner:
            run_command(*at, "parent", "1:", *inner)


def port_counters(switch: str, ports: Sequence[str]) -> dict[str, int]:
    """Number of bytes sent, packets sent and packets dropped at each port since its queue was set.

    Keys are ``PORT.COUNTER``, such as ``port1.bytes``.
    """
    counts: dict[str, int] = {}
    for row in json.loads(run_command("tc", "-n", switch, "-s", "-j", "qdisc", "show")):
        if row.get("dev") in ports and row.get("root"):
            for ours, theirs in (("bytes", "bytes"), ("packets", "packets"), ("drops", "drops")):
                counts[f"{row['dev']}.{ours}"] = int(row.get(theirs, 0))
    return counts


def counter_growth(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, Any]:
    """Increase of each counter between two readings; counters that did not change are omitted.

    >>> counter_growth({"port1.bytes": 10, "port2.bytes": 5}, {"port1.bytes": 30, "port2.bytes": 5})
    {'port1.bytes': 20}
    """
    grown = {key: after[key] - before.get(key, 0) for key in after}
    return {key: value for key, value in grown.items() if value}
