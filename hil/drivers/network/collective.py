"""Driver ``collective``: gloo between ranks in network namespaces, or NCCL between GPUs.

The hosts of gloo ranks are connected to one bridge, whose ports have a given rate and delay. In
virtual time one core can run any number of ranks, because sleeping is free and exact. The
measurement then shows the library, TCP and the wire.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import numpy as np

from ....sim.errors import DriverFault
from ....sim.facts.signature import parse_signature
from ...driver import Driver, Missing, Ready, Spec, check_choice, checked, driver
from ...measuring.device_lock import lock_device
from ...sample import Request, Sample
from ..linux import clock_source, netns
from . import switch
from .rank_processes import OP_BUILDERS, GlooOnStar, NcclOnGpus, RankProcesses

if TYPE_CHECKING:
    from ....sim.facts.system import System

SETTINGS = {"ranks": 2, **switch.PORT_QUEUE, "mtu": 1500, "library": "gloo"}
GLOO, NCCL = "gloo", "nccl"
STEP = ("buckets", "forward_us", "backward_us", "update_us")
BUS_FACTORS: dict[str, Callable[[int], float]] = {
    "all-reduce": lambda n: 2 * (n - 1) / n,
    "all-gather": lambda n: (n - 1) / n,
    "all-to-all": lambda n: (n - 1) / n,
    "broadcast": lambda n: 1.0,
}
"""Bus bandwidth is algorithm bandwidth times this (nccl-tests, doc/PERFORMANCE.md)."""
CURE = "pip install torch, or run it in the lab: foretrace lab up"


@driver("collective")
class CollectiveDriver(Driver):
    """Driver that times collectives between processes, from the last rank's start to the last end.

    Ops are ``collective:all-reduce fp32[1048576]`` and so on (``all-gather``, ``all-to-all``,
    ``broadcast``, ``barrier``). ``collective:step buckets=4 forward_us=30000 backward_us=15000
    update_us=10000 fp32[1048576]`` is a training step: its computing is replaced by sleep, and its
    buckets of that size are all-reduced meanwhile. The fact ``came_ns`` of a sample has, for every
    call, the start time of each rank; for a step, also the time when each bucket was ready.

    Settings: ``ranks``; for the bridge's ports ``rate``, ``delay_us``, ``loss``, ``reorder``,
    ``queue``, ``limit``; ``mtu``; ``library``: ``gloo`` or ``nccl``. With ``nccl`` rank k uses GPU
    k and is timed by that GPU's events, and samples cover the links between the GPUs.
    """

    ops = tuple(f"collective:{name}" for name in OP_BUILDERS)

    def __init__(self) -> None:
        self.clock = clock_source.clock_of_this_machine()
        self.settings: dict[str, Any] = dict(SETTINGS)
        self.star: netns.StarNetwork | None = None
        self.ranks: RankProcesses | None = None
        self.lock = ExitStack()

    def probe(self) -> Ready | Missing:
        """All-reduce 64 bytes between two ranks to find out if the driver works here."""
        try:
            self.open({})
            sample = self.timing([Request("collective:all-reduce fp32[16]")])[0]
        except ImportError as error:
            return Missing("missing", f"torch: {error}", CURE)
        except DriverFault as fault:
            return Missing.of(fault)
        except Exception as error:  # of torch
            return Missing("broken", f"an all-reduce of 64 B: {error}", "read the message of torch")
        finally:
            self.close()
        return Ready(("gloo",), {"all_reduce_64B_us": f"{sample.median / 1e3:.1f}"})

    def open(self, spec: Spec) -> None:
        """Lock this machine's bridges, create namespaces, set rate and delay, start the ranks."""
        self.settings = checked(spec, SETTINGS)
        self.realtime = self.clock == clock_source.WALL
        count = self.settings["ranks"]
        if not 2 <= count <= 64:
            raise DriverFault("unsupported", f"ranks is {count}; give 2 to 64")
        check_choice(self.settings, "library", (GLOO, NCCL))
        self._lock(count)
        try:
            self._start_ranks(count)
        except Exception:
            self.close()
            raise

    def _lock(self, count: int) -> None:
        """Lock this machine's bridges, or its first ``count`` GPUs."""
        if self.settings["library"] == GLOO:
            self.lock.enter_context(lock_device(netns.LOCK))
            return
        ports = {k for k in ("rate", "delay_us", "loss") if self.settings[k]}
        if ports:
            raise DriverFault("unsupported", f"{', '.join(sorted(ports))}: is for gloo's bridge; "
                              "NCCL uses the links between the GPUs: leave it out")  # fmt: skip
        with ExitStack() as held:
            for number in range(count):
                held.enter_context(lock_device(f"nccl-cuda{number}"))
            self.lock.push(held.pop_all())

    def _start_ranks(self, count: int) -> None:
        import torch.distributed as group

        if self.settings["library"] == NCCL:
            if not group.is_available() or not group.is_nccl_available():
                raise DriverFault("unsupported", "this torch has no NCCL; install one with CUDA")
            self.clock = "device"
            self.ranks = RankProcesses(NcclOnGpus(), count)
            return
        if not group.is_available() or not group.is_gloo_available():
            raise DriverFault("unsupported", f"this torch has no gloo; {CURE}")
        self.star = netns.StarNetwork(count, f"fc{os.getpid()}", self.settings["mtu"])
        self.star.build()
        netns.set_queueing(self.star.switch, self.star.ports, switch.queue_arguments(self.settings))
        self.ranks = RankProcesses(GlooOnStar(self.star), count)

    def describe(self) -> dict[str, str]:
        """Provenance: library, number of ranks, queues of the ports."""
        import torch

        if self.settings["library"] == NCCL:
            told = ".".join(map(str, torch.cuda.nccl.version()))
            return {"device": NCCL, "torch": torch.__version__, "nccl": told,
                    "ranks": str(self.settings["ranks"])}  # fmt: skip
        queue = " ".join(switch.queue_arguments(self.settings))
        return {"device": "gloo", "torch": torch.__version__, "ranks": str(self.settings["ranks"]),
                "queue": queue, "kernel": os.uname().release}  # fmt: skip

    def timing(self, requests: Sequence[Request]) -> list[Sample]:
        """Samples of each collective alone, after one warm-up call."""
        if self.ranks is None:
            raise DriverFault("protocol", "no ranks; open the driver first")
        return [self._time_collective(self.ranks, request) for request in requests]

    def close(self) -> None:
        """End the rank processes and remove the network namespaces."""
        if self.ranks is not None:
            self.ranks.close()
        if self.star is not None:
            self.star.clear()
        self.ranks = self.star = None
        self.lock.close()

    @classmethod
    def covers(cls, spec: Spec, system: System) -> tuple[str, ...]:
        """All NICs, links and switches, because a collective crosses the complete network."""
        return tuple(c.name for c in system.components if c.kind in {"nic", "link", "switch"})

    def _time_collective(self, ranks: RankProcesses, request: Request) -> Sample:
        call = parse_collective(request.signature)
        if self.settings["library"] == NCCL and call[0] in ("step", "barrier"):
            raise DriverFault("unsupported", f"{request.signature}: it runs on the host and not on "
                              "a GPU; set library: gloo")  # fmt: skip
        ranks.run_collective(call)
        times, arrivals = zip(*(ranks.run_collective(call) for _ in range(request.n)), strict=True)
        ns = np.array(times)
        facts = {**self._bandwidth(call, float(np.median(ns))), "came_ns": list(arrivals)}
        return Sample(request.signature, ns, self.clock, "completion", request.key[1], facts=facts)

    def _bandwidth(self, call: list[Any], ns: float) -> dict[str, float]:
        """Facts of a timed call: algorithm bandwidth and bus bandwidth, in B/s.

        For a training step, it is the exposed communication in ns instead.
        """
        name, size, *rest = call
        if name == "step":
            buckets, forward, backward, update = rest
            return {"exposed_ns": ns - 1e9 * (forward + buckets * backward + update)}
        if name not in BUS_FACTORS:
            return {}
        return {
            "algbw": size / ns * 1e9,
            "busbw": BUS_FACTORS[name](self.settings["ranks"]) * size / ns * 1e9,
        }


def parse_collective(signature: str) -> list[Any]:
    """Name and bytes of a collective, parsed from its signature.

    For a training step also the number of buckets, and the durations in s.

    >>> parse_collective("collective:all-reduce fp32[16]")
    ['all-reduce', 64]
    >>> times = "forward_us=30 backward_us=15 update_us=10"
    >>> parse_collective(f"collective:step buckets=4 {times} fp32[16]")
    ['step', 64, 4.0, 3e-05, 1.5e-05, 1e-05]
    """
    parts = parse_signature(signature)
    settings = parts.attributes
    if tuple(settings) != (STEP if parts.op == "step" else ()):
        what = (
            f"a step needs the attributes {', '.join(STEP)}"
            if parts.op == "step"
            else "only equal parts can be timed; leave out the attributes"
        )
        raise DriverFault("unsupported", f"{signature}: {what}")
    if any(o.dtype != "fp32" for o in parts.operands):
        raise DriverFault("unsupported", f"{signature}: only fp32 can be timed; write fp32[...]")
    seconds = [round(float(v) / 1e6, 12) for k, v in settings.items() if k != "buckets"]
    return [parts.op, parts.bytes, *([float(settings["buckets"])] if settings else []), *seconds]
