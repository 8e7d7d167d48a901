"""The driver ``cxl``: memory of another node, or of a DAX device, as the kernel offers it.

Placing, moving between tiers, dependent loads, streams, and loads while others stream.  Where
the memory is emulated its access times say nothing of silicon, so they are flagged and never
fitted; where pages are put and what moving them costs the kernel is real.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ...sim.errors import DriverFault
from ...sim.signature import parse
from ..driver import Driver, Missing, Ready, Spec, checked, driver, head
from ..sample import EMULATED, WARM, Request, Sample
from . import clock_source, pointer_chase
from .numa_pages import PAGE, PageBlock, nodes

if TYPE_CHECKING:
    from ...sim.system import System

SETTINGS = {"near": 0, "far": -1, "dax": "", "cap": 1 << 30}
STEPS = 20_000  # dependent loads of one reading
ALIGNED = 2 << 20  # bytes that a DAX device maps at once
CURE = "a CXL region becomes a node by daxctl reconfigure-device; or run it in the lab"
LIBC = ctypes.CDLL(None)
TIERS = ("near", "far")


@driver("cxl")
class Cxl(Driver):
    """Times memory of a near and a far tier.

    ================================== ===========================================================
    host:memory-place tier=far         pages bound there and touched; facts say where they are
    copy:h2c, copy:c2h          pages moved near to far, far to near
    host:memory-chase tier=far         one load that depends on the one before
    host:memory-loaded tier=far        the same while another thread streams there
    host:memory-read tier=far          one pass over all bytes
    host:memory-write tier=far         all bytes written
    ================================== ===========================================================

    Settings: ``near`` and ``far`` (nodes; far is by default the first that has no processor),
    ``dax`` (a device instead of the far node; its pages do not move), ``cap`` (B of one op).
    """

    ops = ("host:memory-place", "copy:h2c", "copy:c2h", "host:memory-chase",
           "host:memory-loaded", "host:memory-read", "host:memory-write")  # fmt: skip
    sharing = "solo"

    def __init__(self) -> None:
        self.clock = clock_source.here()
        self.told: dict[str, Any] = dict(SETTINGS)
        self.how: dict[str, Callable[[Request, dict[str, str], int], Sample]] = {
            "host:memory-place": self._place,
            "copy:h2c": partial(self._moved, ("near", "far")),
            "copy:c2h": partial(self._moved, ("far", "near")),
            "host:memory-chase": self._chased,
            "host:memory-loaded": self._loaded,
            "host:memory-read": partial(self._passed, "read"),
            "host:memory-write": partial(self._passed, "write"),
        }

    def probe(self) -> Ready | Missing:
        """Move a page to the far tier and back."""
        try:
            self.open({})
            sample = self.timing([Request("copy:h2c uint8[4096]")])[0]
        except DriverFault as fault:
            from .netns import lacking

            return lacking(fault)
        except OSError as error:
            return Missing("broken", f"moving a page: {error}", CURE)
        finally:
            self.close()
        told = self.told
        facts = {"h2c_us": f"{sample.median / 1e3:.1f}", "clock": self.clock}
        return Ready((f"node{told['far']}",), facts)

    def open(self, spec: Spec) -> None:
        """Find the tiers."""
        told = checked(spec, SETTINGS)
        found = nodes()
        if not told["dax"]:
            bare = [n for n, (_, processors) in found.items() if not processors]
            told["far"] = told["far"] if told["far"] >= 0 else (bare[0] if bare else -1)
            if told["far"] not in found:
                raise DriverFault(
                    "missing", f"no node of memory without processors (nodes {list(found)}); {CURE}"
                )
        elif not os.access(told["dax"], os.R_OK | os.W_OK):
            kind = "denied" if os.path.exists(told["dax"]) else "missing"
            raise DriverFault(kind, f"{told['dax']} cannot be read and written; {CURE}")
        self.told, self.chase = told, pointer_chase.loop()

    def describe(self) -> dict[str, str]:
        """Nodes, kernel, and whether the memory is emulated."""
        far = self.told["dax"] or f"node{self.told['far']}"
        sizes = " ".join(f"node{n}={size >> 20}MiB" for n, (size, _) in nodes().items())
        return {
            "device": f"node{self.told['near']}-{far}",
            "nodes": sizes,
            "kernel": os.uname().release,
            "memory": EMULATED if clock_source.emulated() else "real",
        }

    def timing(self, requests: Sequence[Request]) -> list[Sample]:
        """Each op; memory is given back after it."""
        return [self._one(request) for request in requests]

    @classmethod
    def covers(cls, spec: Spec, system: System) -> tuple[str, ...]:
        """The memory that it is bound to, and nothing else."""
        return ()

    def _one(self, request: Request) -> Sample:
        parts = parse(request.signature)
        told = parts.attributes
        size = -(-parts.bytes // PAGE) * PAGE
        if not 0 < size <= self.told["cap"]:
            raise DriverFault("unsupported", f"{size} B; 1 to {self.told['cap']} B are allowed")
        if request.context != WARM:
            raise DriverFault("unsupported", f"context {request.context}; pages are fresh or warm")
        moves = request.signature.startswith("copy:")
        if set(told) != (set() if moves else {"tier"}) or told.get("tier", "far") not in TIERS:
            raise DriverFault("unsupported", f"{request.signature}: give tier=near or tier=far")
        return self.how[head(request.signature)](request, told, size)

    def _sample(self, request: Request, ns: Sequence[float], access: bool = False,
                facts: dict[str, Any] | None = None) -> Sample:  # fmt: skip
        flags = (EMULATED,) if access and clock_source.emulated() else ()
        return Sample(request.signature, np.asarray(ns, np.float64), self.clock, self.metric,
                      request.key[1], flags=flags, facts=facts or {})  # fmt: skip

    def _place(self, request: Request, told: dict[str, str], size: int) -> Sample:
        """Bound and touched; ``placed`` is the share of pages that are where they were put."""
        node, ns, right = self._node(told["tier"]), [], []
        for _ in range(request.n):
            since = time.perf_counter_ns()
            block = PageBlock(size, node)
            ns.append(time.perf_counter_ns() - since)
            right.append(float((block.where() == node).mean()))
        return self._sample(request, ns, facts={"placed": min(right)})

    def _moved(
        self, way: tuple[str, str], request: Request, _: dict[str, str], size: int
    ) -> Sample:
        """Fresh pages on one tier, then the move, timed, then a look at where they are."""
        source, target = map(self._node, way)
        ns, again, right = [], 0, []
        for k in range(request.n + 1):  # the first warms up
            block = PageBlock(size, source)
            taken, busy = block.move(target)
            again += busy if k else 0
            ns.append(taken)
            right.append(float((block.where() == target).mean()))
        return self._sample(request, ns[1:], facts={"placed": min(right), "asked_again": again})

    def _chased(self, request: Request, told: dict[str, str], size: int) -> Sample:
        return self._sample(request, self._walks(request.n, told["tier"], size), access=True)

    def _loaded(self, request: Request, told: dict[str, str], size: int) -> Sample:
        """Another thread reads the same tier meanwhile; memchr runs without Python's lock."""
        other, stop = self._memory(told["tier"], size), threading.Event()

        def stream() -> None:
            while not stop.is_set():
                _pass("read", other)

        thread = threading.Thread(target=stream, daemon=True)
        thread.start()
        try:
            return self._sample(request, self._walks(request.n, told["tier"], size), access=True)
        finally:
            stop.set()
            thread.join()

    def _passed(self, how: str, request: Request, told: dict[str, str], size: int) -> Sample:
        memory, ns = self._memory(told["tier"], size), []
        _pass(how, memory)
        for _ in range(request.n):
            since = time.perf_counter_ns()
            _pass(how, memory)
            ns.append(time.perf_counter_ns() - since)
        return self._sample(request, ns, access=True)

    def _walks(self, n: int, tier: str, size: int) -> list[float]:
        """Time of one dependent load, ns, n times."""
        ring, ns = pointer_chase.ring(size, 7, at=self._memory(tier, size)), []
        at, steps = ring.ctypes.data, min(STEPS, size // pointer_chase.LINE)
        for _ in range(n):
            since = time.perf_counter_ns()
            at = self.chase(at, steps)
            ns.append((time.perf_counter_ns() - since) / steps)
        return ns

    def _memory(self, tier: str, size: int) -> Any:
        if tier == "near" or not self.told["dax"]:
            return PageBlock(size, self._node(tier)).bytes
        device = os.open(self.told["dax"], os.O_RDWR)
        try:
            mapped = mmap.mmap(device, -(-size // ALIGNED) * ALIGNED, flags=mmap.MAP_SHARED)
        finally:
            os.close(device)
        return np.frombuffer(mapped, np.uint8)[:size]

    def _node(self, tier: str) -> int:
        if tier == "far" and self.told["dax"]:
            raise DriverFault("unsupported", "pages of a DAX device stay where they are; give far")
        return int(self.told[tier])


def _pass(how: str, memory: Any) -> None:
    """Over all bytes: looks for a byte that is not there, or writes them."""
    at, n = ctypes.c_void_p(memory.ctypes.data), ctypes.c_size_t(len(memory))
    if how == "read":
        memory[0] = memory[0] or 1
        LIBC.memchr(at, 255, n)
    else:
        LIBC.memset(at, 1, n)
