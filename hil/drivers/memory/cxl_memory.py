"""Driver ``cxl``: memory of another NUMA node or of a DAX device, such as a CXL expander.

It times page placement, migration between tiers, dependent loads, streams, and loads while another
thread streams. If the memory is emulated, its access times are flagged and never fitted, because
they say nothing about real hardware. Page placement and the kernel's migration cost are real.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ....sim.errors import DriverFault
from ....sim.facts.signature import parse_signature
from ...driver import Driver, Missing, Ready, Spec, checked, driver, signature_head
from ...measuring.device_lock import lock_device
from ...sample import EMULATED, WARM, Request, Sample
from ..linux import clock_source, pointer_chase
from ..linux.numa_pages import PAGE, PageBlock, numa_nodes_with_memory

if TYPE_CHECKING:
    pass

SETTINGS = {"near": 0, "far": -1, "dax": "", "cap": 1 << 30}
STEPS = 20_000  # dependent loads of one reading
ALIGNED = 2 << 20  # bytes that a DAX device maps at once
CURE = "a CXL region becomes a node by daxctl reconfigure-device; or run it in the lab"
LIBC = ctypes.CDLL(None)
TIERS = ("near", "far")


@driver("cxl")
class CxlDriver(Driver):
    """Driver that times page placement, migration and access on a near and a far memory tier.

    ================================== ===========================================================
    host:memory-place tier=far         allocate pages bound to the tier; facts say where they are
    copy:h2c, copy:c2h          migrate pages from near to far, from far to near
    host:memory-chase tier=far         one load that depends on the one before
    host:memory-loaded tier=far        the same while another thread streams there
    host:memory-read tier=far          read all bytes once
    host:memory-write tier=far         write all bytes once
    ================================== ===========================================================

    Settings: ``near`` and ``far`` (NUMA nodes; far is by default the first without a processor),
    ``dax`` (a device in place of the far node; its pages cannot migrate), ``cap`` (maximum bytes of
    one op).
    """

    ops = ("host:memory-place", "copy:h2c", "copy:c2h", "host:memory-chase",
           "host:memory-loaded", "host:memory-read", "host:memory-write")  # fmt: skip
    sharing = "solo"

    def __init__(self) -> None:
        self.clock = clock_source.clock_of_this_machine()
        self.settings: dict[str, Any] = dict(SETTINGS)
        self.lock = ExitStack()
        self.methods: dict[str, Callable[[Request, dict[str, str], int], Sample]] = {
            "host:memory-place": self._time_placement,
            "copy:h2c": partial(self._time_migration, ("near", "far")),
            "copy:c2h": partial(self._time_migration, ("far", "near")),
            "host:memory-chase": self._time_chase,
            "host:memory-loaded": self._time_loaded_chase,
            "host:memory-read": partial(self._time_pass, "read"),
            "host:memory-write": partial(self._time_pass, "write"),
        }

    def probe(self) -> Ready | Missing:
        """Migrate a page to the far tier and back to find out if the driver works here."""
        found = self.sample_of_probe({}, "copy:h2c uint8[4096]", CURE)
        if isinstance(found, Missing):
            return found
        facts = {"h2c_us": f"{found.median / 1e3:.1f}", "clock": self.clock}
        return Ready((f"node{self.settings['far']}",), facts)

    def open(self, spec: Spec) -> None:
        """Find the NUMA nodes or the DAX device of the two tiers, and lock the far one."""
        settings = checked(spec, SETTINGS)
        found = numa_nodes_with_memory()
        if not settings["dax"]:
            bare = [n for n, (_, processors) in found.items() if not processors]
            settings["far"] = settings["far"] if settings["far"] >= 0 else (bare[0] if bare else -1)
            if settings["far"] not in found:
                raise DriverFault(
                    "missing",
                    "no NUMA node with memory but without processors (there are nodes "
                    f"{list(found)}); {CURE}",
                )
        elif not os.access(settings["dax"], os.R_OK | os.W_OK):
            kind = "denied" if os.path.exists(settings["dax"]) else "missing"
            raise DriverFault(kind, f"{settings['dax']} cannot be read and written; {CURE}")
        far = settings["dax"] or f"node{settings['far']}"
        self.lock.enter_context(lock_device(f"memory-{far}"))
        self.settings, self.chase = settings, pointer_chase.machine_code_loop()

    def describe(self) -> dict[str, str]:
        """Provenance: NUMA nodes, kernel, and whether the memory is emulated."""
        far = self.settings["dax"] or f"node{self.settings['far']}"
        sizes = " ".join(
            f"node{n}={size >> 20}MiB" for n, (size, _) in numa_nodes_with_memory().items()
        )
        return {
            "device": f"node{self.settings['near']}-{far}",
            "nodes": sizes,
            "kernel": os.uname().release,
            "memory": EMULATED if clock_source.is_lab_machine() else "real",
        }

    def close(self) -> None:
        """Release the lock of the far tier."""
        self.lock.close()

    def time_op(self, request: Request) -> Sample:
        """Sample of one op that runs alone; its memory is freed after it."""
        parts = parse_signature(request.signature)
        settings = parts.attributes
        size = -(-parts.bytes // PAGE) * PAGE
        if not 0 < size <= self.settings["cap"]:
            raise DriverFault(
                "unsupported",
                f"{request.signature}: {size} B of memory; 1 to {self.settings['cap']} B are "
                "allowed (setting cap)",
            )
        if request.context != WARM:
            raise DriverFault(
                "unsupported",
                f"context {request.context} is not supported; use warm, or cold for fresh pages",
            )
        moves = request.signature.startswith("copy:")
        if (
            set(settings) != (set() if moves else {"tier"})
            or settings.get("tier", "far") not in TIERS
        ):
            raise DriverFault("unsupported", f"{request.signature}: give tier=near or tier=far")
        return self.methods[signature_head(request.signature)](request, settings, size)

    def _sample_of_access(self, request: Request, ns: Sequence[float]) -> Sample:
        flags = (EMULATED,) if clock_source.is_lab_machine() else ()
        return self.sample(request, ns, flags=flags)

    def _time_placement(self, request: Request, settings: dict[str, str], size: int) -> Sample:
        """Sample of allocating bound pages.

        Fact ``placed`` is the fraction of pages on the right node.
        """
        node, ns, placed = self._node_of_tier(settings["tier"]), [], []
        for _ in range(request.n):
            since = time.perf_counter_ns()
            block = PageBlock(size, node)
            ns.append(time.perf_counter_ns() - since)
            placed.append(float((block.node_of_each_page() == node).mean()))
        return self.sample(request, ns, facts={"placed": min(placed)})

    def _time_migration(
        self, tiers: tuple[str, str], request: Request, _: dict[str, str], size: int
    ) -> Sample:
        """Sample of migrating fresh pages between tiers, with the fraction that arrived."""
        source, target = map(self._node_of_tier, tiers)
        ns, retries, placed = [], 0, []
        for k in range(request.n + 1):  # the first warms up
            block = PageBlock(size, source)
            taken, busy = block.move(target)
            retries += busy if k else 0
            ns.append(taken)
            placed.append(float((block.node_of_each_page() == target).mean()))
        return self.sample(request, ns[1:], facts={"placed": min(placed), "asked_again": retries})

    def _time_chase(self, request: Request, settings: dict[str, str], size: int) -> Sample:
        times = self._load_times(request.n, settings["tier"], size)
        return self._sample_of_access(request, times)

    def _time_loaded_chase(self, request: Request, settings: dict[str, str], size: int) -> Sample:
        """Sample of dependent loads while another thread streams from the same tier."""
        other, stop = self._memory_of_tier(settings["tier"], size), threading.Event()

        def stream() -> None:
            while not stop.is_set():
                _stream_over_memory("read", other)

        thread = threading.Thread(target=stream, daemon=True)
        thread.start()
        try:
            return self._time_chase(request, settings, size)
        finally:
            stop.set()
            thread.join()

    def _time_pass(
        self, methods: str, request: Request, settings: dict[str, str], size: int
    ) -> Sample:
        memory, ns = self._memory_of_tier(settings["tier"], size), []
        _stream_over_memory(methods, memory)
        for _ in range(request.n):
            since = time.perf_counter_ns()
            _stream_over_memory(methods, memory)
            ns.append(time.perf_counter_ns() - since)
        return self._sample_of_access(request, ns)

    def _load_times(self, n: int, tier: str, size: int) -> list[float]:
        """Time per dependent load in ns, shape (n,); each is the mean over one walk."""
        ring, ns = pointer_chase.pointer_ring(size, 7, at=self._memory_of_tier(tier, size)), []
        at, steps = ring.ctypes.data, min(STEPS, size // pointer_chase.LINE)
        for _ in range(n):
            since = time.perf_counter_ns()
            at = self.chase(at, steps)
            ns.append((time.perf_counter_ns() - since) / steps)
        return ns

    def _memory_of_tier(self, tier: str, size: int) -> Any:
        if tier == "near" or not self.settings["dax"]:
            return PageBlock(size, self._node_of_tier(tier)).bytes
        device = os.open(self.settings["dax"], os.O_RDWR)
        try:
            mapped = mmap.mmap(device, -(-size // ALIGNED) * ALIGNED, flags=mmap.MAP_SHARED)
        finally:
            os.close(device)
        return np.frombuffer(mapped, np.uint8)[:size]

    def _node_of_tier(self, tier: str) -> int:
        if tier == "far" and self.settings["dax"]:
            raise DriverFault("unsupported", "pages of a DAX device cannot migrate; set far to a "
                              "NUMA node, and leave out dax")  # fmt: skip
        return int(self.settings[tier])


def _stream_over_memory(methods: str, memory: Any) -> None:
    """Read (memchr of an absent byte) or write (memset) all bytes of a buffer."""
    at, n = ctypes.c_void_p(memory.ctypes.data), ctypes.c_size_t(len(memory))
    if methods == "read":
        memory[0] = memory[0] or 1
        LIBC.memchr(at, 255, n)
    else:
        LIBC.memset(at, 1, n)
