"""Driver ``perftest``: RDMA ops timed by the programs of the perftest package.

The programs are written in C and read the processor's cycle counter, so a comparison shows how much
of a ``verbs`` time is spent in Python. Their latency of a send or write is half a round trip; that
of a read is the completion time. The completion time of a send or write is the mean of a batch with
one op outstanding. Only samples of the same metric are compared.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....sim.errors import DriverFault
from ...driver import Driver, Missing, Ready, Spec, check_choice, checked, driver
from ...peer_link import far_peers
from ...sample import WARM, Request, Sample
from ..linux import clock_source
from . import rdma_ports
from .rdma import DEPTH, POLL, SLEEP, VerbsDriver, parse_op

if TYPE_CHECKING:
    from ....sim.facts.system import System

SETTINGS = {"device": "", "peer": "", "transport": "rc", "metric": "half_rtt", "completions": "",
            "inline": 0, "gid": -1, "path_mtu": 0, "srq": 0}  # fmt: skip
LATENCY = {
    ("rdma-send", "half_rtt"): "ib_send_lat",
    ("rdma-write", "half_rtt"): "ib_write_lat",
    ("rdma-read", "completion"): "ib_read_lat",
}
ALONE = (("rdma-send", "completion"), ("rdma-write", "completion"))  # by a rate of depth 1
RATE = {"rdma-send": "ib_send_bw", "rdma-write": "ib_write_bw", "rdma-read": "ib_read_bw"}
METRICS = ("half_rtt", "completion", "message_rate", "bandwidth")
LEAST = 5  # exchanges that a program does at least
WARMING = 2  # exchanges that are not counted
BATCH = 32  # messages of a rate, as in ``verbs``
WAIT = 120.0  # s for both ends
CURES = {
    "program": "apt install perftest; or run it in the lab",
    "device": "load the driver of your card, or: rdma link add; or run it in the lab",
}


def parse_latencies(text: str) -> list[float]:
    r"""Time of each exchange in us, parsed from a program's output, in order.

    >>> parse_latencies("#, usec\n1, 8.25\n2, 7.75\n #bytes #iterations t_min[usec]\n 64 3 7.75")
    [8.25, 7.75]
    """
    return [float(us) for us in re.findall(r"^ ?\d+, +(\S+)$", text, re.MULTILINE)]


def parse_rates(text: str) -> tuple[float, float]:
    r"""Average rate in MiB/s and in million messages per second, parsed from a program's output.

    >>> parse_rates("#bytes  #iterations  BW peak\n 65536  32  0.00  34.31 \t 0.000549\n-----\n")
    (34.31, 0.000549)
    """
    rows = re.findall(r"^ *\d+\s+\d+\s+\S+\s+(\d\S*)\s+(\d\S*)[ \t]*$", text, re.MULTILINE)
    if not rows:
        raise DriverFault(
            "broken",
            f"perftest printed no rate; run it by hand to see why (output: "
            f"{text.strip()[-200:]!r})",
        )
    return float(rows[-1][0]), float(rows[-1][1])


@driver("perftest")
class PerftestDriver(Driver):
    """Driver that times RDMA ops with ``ib_send_lat``, ``ib_write_bw`` and similar programs.

    Settings: ``device`` and ``peer`` (names; by default the first two devices), ``transport`` (``rc
    uc ud``), ``metric`` (``half_rtt`` of sends and writes; ``completion``; ``message_rate`` and
    ``bandwidth``, as ns per message, with ``depth=``, ``qps=`` and ``batch=`` of an op),
    ``completions`` (``sleep`` or ``poll``; ``sleep`` under instruction counting, where two polling
    ends would wait for the scheduler), ``inline``, ``gid``, ``path_mtu`` and ``srq`` as for
    ``verbs``. A shared receive queue is possible only for rates of sends.
    """

    ops = tuple(f"send:{name}" for name in RATE)
    sharing = "solo"

    metric = "half_rtt"  # unless opened with another

    def __init__(self) -> None:
        self.clock = clock_source.clock_of_this_machine()
        self.settings: dict[str, Any] = dict(SETTINGS)
        self.locks = ExitStack()

    def probe(self) -> Ready | Missing:
        """Send 64 bytes and receive a reply to find out if the driver works here."""
        if shutil.which("ib_send_lat") is None:
            return Missing("missing", "no ib_send_lat on the path", CURES["program"])
        names = rdma_ports.rdma_devices()
        if not names:
            return Missing("missing", f"no RDMA device in {rdma_ports.DEVICES}", CURES["device"])
        spec = {} if len(names) > 1 else {"device": names[0], "peer": names[0]}
        found = self.sample_of_probe(spec, "send:rdma-send uint8[64]", "look at rdma link")
        if isinstance(found, Missing):
            return found
        facts = {"half_rtt_64B_us": f"{found.median / 1e3:.1f}", "clock": self.clock}
        return Ready(names, facts)

    def open(self, spec: Spec) -> None:
        """Choose and lock the devices; programs are started for each op."""
        if far := far_peers(spec.get("peer")):
            raise DriverFault("unsupported", f"peer {far[0]['agent']}: the programs of perftest "
                              "need a TCP port of their own, which is not opened between hosts; "
                              "take verbs")  # fmt: skip
        settings = checked(spec, SETTINGS)
        if self.clock == clock_source.TIMETRAVEL:
            raise DriverFault("unsupported", "perftest reads the processor's cycle counter, which "
                              "does not follow virtual time; use driver verbs, or lab: "
                              "qemu")  # fmt: skip
        for key, allowed in (("metric", METRICS), ("completions", ("", SLEEP, POLL))):
            check_choice(settings, key, allowed)
        ends = rdma_ports.device_and_peer(
            settings["device"], settings["peer"], rdma_ports.rdma_devices()
        )
        if tcp := [name for name in ends if rdma_ports.is_iwarp(name)]:
            raise DriverFault("unsupported", f"{tcp[0]} is iWARP, whose queue pairs only rdma_cm "
                              "connects; take the driver verbs")  # fmt: skip
        self.locks = rdma_ports.lock_rdma_devices(ends)
        settings["device"], settings["peer"] = ends
        counted = self.clock == clock_source.ICOUNT
        settings["completions"] = settings["completions"] or (SLEEP if counted else POLL)
        self.settings, self.metric = settings, settings["metric"]
        self.realtime = self.clock == clock_source.WALL  # retransmission, congestion control

    def describe(self) -> dict[str, str]:
        """Provenance: devices, transport, kernel."""
        settings = self.settings
        ends = rdma_ports.describe_ends(settings["device"], settings["peer"], settings["gid"])
        return {**ends, "transport": settings["transport"], "inline": str(settings["inline"]),
                "completions": settings["completions"], "kernel": os.uname().release}  # fmt: skip

    def close(self) -> None:
        """Release the devices."""
        self.locks.close()

    @classmethod
    def covers(cls, spec: Spec, system: System) -> tuple[str, ...]:
        """Names of components whose time a sample includes, the same as for driver ``verbs``."""
        return VerbsDriver.covers(spec, system)

    def time_op(self, request: Request) -> Sample:
        """Sample of one op that runs alone, timed by a new pair of perftest processes."""
        name, facts, size = parse_op(request.signature)
        if request.context != WARM:
            raise DriverFault(
                "unsupported",
                f"context {request.context} is not supported; its ops are always warm",
            )
        told = {}
        if self.metric in ("message_rate", "bandwidth"):
            ns = [self._time_per_message(name, facts, size) for _ in range(request.n)]
        elif (name, self.metric) in ALONE:
            ns = [self._time_per_message(name, {"depth": 1}, size) for _ in range(request.n)]
            told = {"mean_of": BATCH}
        else:
            ns = self._latency(name, size, request.n)
        return self.sample(request, ns, facts=told)

    def _latency(self, name: str, size: int, n: int) -> list[float]:
        program = LATENCY.get((name, self.metric))
        if program is None:
            raise DriverFault("unsupported", f"{self.metric} of {name}: perftest measures half_rtt "
                              "of rdma-send and rdma-write; take completion")  # fmt: skip
        asleep = self.settings["completions"] == SLEEP
        if asleep and program == "ib_write_lat":
            raise DriverFault("unsupported", "ib_write_lat polls memory and cannot sleep; take "
                              "rdma-send, or completions: poll with two processors")  # fmt: skip
        count = max(LEAST, n + WARMING + 1)
        text = self._run_pair([program, "-n", str(count), "-U", *(["-e"] if asleep else [])], size)
        times = parse_latencies(text)[WARMING:]
        if len(times) < n:
            raise DriverFault("broken", f"{program} printed {len(times)} of {n} times")
        return [us * 1e3 for us in times[:n]]

    def _time_per_message(self, name: str, facts: dict[str, int], size: int) -> float:
        """Time per message in ns, from the bandwidth or the message rate, by metric."""
        words = rate_arguments(name, facts, bool(self.settings["srq"]))
        mebibytes, messages = parse_rates(self._run_pair(words, size))
        if self.metric == "bandwidth":
            return size / (mebibytes * 2**20) * 1e9
        return 1e3 / messages

    def _run_pair(self, words: Sequence[str], size: int) -> str:
        """Run a server-client pair of programs; returns the output of the client."""
        port, settings = _free_port(), self.settings
        one, other = (rdma_ports.active_port(settings[end]) for end in ("device", "peer"))
        gids = rdma_ports.gid_pair(one, other, settings["gid"])
        inline = [] if "read" in words[0] else ["-I", str(settings["inline"])]
        inline += ["-m", str(settings["path_mtu"])] if settings["path_mtu"] else []
        words = [*words, "-s", str(size), *inline, "-F", "-p", str(port),
                 "-c", settings["transport"].upper()]  # fmt: skip
        server = _start_program([*words, *port_arguments(other, gids[1], gids[0])])
        try:
            _wait_until_listening(port, server, words[0])
            client = _start_program([*words, *port_arguments(one, *gids), "127.0.0.1"])
            try:
                output, errors = client.communicate(timeout=WAIT)
            except subprocess.TimeoutExpired as error:
                client.kill()
                raise DriverFault("hung", f"{words[0]} took longer than {WAIT:g} s") from error
        finally:
            server.kill()
            server.communicate()
        if client.returncode:
            raise DriverFault("broken", f"{words[0]}: {(errors or output).strip()[-200:]}")
        return output


def rate_arguments(name: str, facts: Mapping[str, int], shared: bool) -> list[str]:
    """Command line of a program that measures a rate: depth, queue pairs, messages per post.

    Raises
    ------
    DriverFault
        ``unsupported``: the depth is not a multiple of the batch.

    Examples
    --------
    >>> " ".join(rate_arguments("rdma-send", {"depth": 8, "batch": 4}, True))
    'ib_send_bw -n 32 -t 8 -q 1 --noPeak --post_list 4 --use-srq'
    """
    depth, batch = facts.get("depth", DEPTH), facts.get("batch", 1)
    if depth % batch:
        raise DriverFault("unsupported", f"depth {depth} is not a multiple of batch {batch}; give "
                          "a depth that is")  # fmt: skip
    count = -(-max(BATCH, 2 * depth) // batch) * batch
    words = [RATE[name], "-n", str(count), "-t", str(depth), "-q", str(facts.get("qps", 1))]
    lists = ["--post_list", str(batch)] if batch > 1 else []
    return [*words, "--noPeak", *lists, *(["--use-srq"] if shared and name == "rdma-send" else [])]


def port_arguments(
    port: rdma_ports.RdmaPort, own: rdma_ports.Gid, peer: rdma_ports.Gid
) -> list[str]:
    """Command-line arguments that select a port; with a GID only if a LID does not suffice."""
    words = ["-d", port.device, "-i", str(port.number)]
    if port.infiniband and not rdma_ports.crosses_subnets(own.address, peer.address):
        return words
    return [*words, "-x", str(own.index)]


def _start_program(line: Sequence[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _free_port() -> int:
    """A free TCP port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_until_listening(port: int, server: subprocess.Popen[str], name: str) -> None:
    """Wait until the server listens (``/proc/net/tcp``).

    DriverFault if it ends or takes too long.
    """
    mark, until = f":{port:04X} ", time.monotonic() + WAIT
    while time.monotonic() < until and server.poll() is None:
        for table in ("/proc/net/tcp", "/proc/net/tcp6"):
            rows = Path(table).read_text().splitlines() if os.path.exists(table) else []
            if any(mark in row.split(" 0A ")[0] and " 0A " in row for row in rows):
                return
        time.sleep(0.05)
    output = server.communicate()[1].strip()[-200:] if server.poll() is not None else "no answer"
    raise DriverFault("broken", f"{name} does not listen: {output}")
