"""Driver ``memory``: streams and dependent loads on NUMA nodes, by threads and read ratio.

One node is enough: the machine's own DRAM. Pages are interleaved over several nodes. Streams run in
functions of the C library that release the interpreter lock; dependent loads are machine code.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from ....sim.errors import DriverFault
from ....sim.facts.signature import parse_signature
from ...driver import Driver, Missing, Ready, Spec, check_choice, checked, driver
from ...measuring import conditions
from ...measuring.device_lock import lock_device
from ...sample import EMULATED, WARM, Request, Sample
from ..linux import clock_source, pointer_chase
from ..linux.numa_pages import PageBlock, numa_nodes_with_memory

if TYPE_CHECKING:
    pass

SETTINGS = {"nodes": "0", "cap": 1 << 30, "seed": 7, "clock": "wall"}
READERS = {"wall": time.perf_counter_ns, "cpu": time.thread_time_ns}
LOADED, STREAM = "host:memory-under-load", "host:memory-stream"
PIECE = 1 << 20  # bytes read or written in one call
STEPS = 20_000  # dependent loads of one reading
LIBC = ctypes.CDLL(None)
LIBC.memchr.argtypes = LIBC.memset.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t)
LIBC.memchr.restype = LIBC.memset.restype = ctypes.c_void_p
CURE = "look at numactl -H; give nodes that have memory"


def read_pieces(count: int, percent: int) -> list[bool]:
    """For each of ``count`` pieces of memory: True if it is read, False if it is written.

    ``percent`` of the pieces are read, spread evenly.

    >>> read_pieces(8, 75), sum(read_pieces(100, 33))
    ([False, True, True, True, False, True, True, True], 33)
    """
    return [(k + 1) * percent // 100 > k * percent // 100 for k in range(count)]


@driver("memory")
class MemoryDriver(Driver):
    """Driver that times streams of several threads, and dependent loads while the threads stream.

    =========================================== ================================================
    host:memory-stream threads=2 reads=75       each thread passes over its own ``uint8[n]`` once;
                                                75 % of it is read, the rest written
    host:memory-under-load threads=2 reads=75   one load that depends on the one before, within
                                                ``uint8[n]``, while the threads stream
    =========================================== ================================================

    Settings: ``nodes`` (separated by commas; pages are interleaved over them), ``cap`` (maximum
    bytes of one thread), ``seed``, ``clock`` (``wall``, or ``cpu``: each thread's own CPU clock,
    which does not count time that other processes use the processor). Facts of a sample under load:
    ``drawn``, the rate in B/s at which the threads moved data; with several nodes also ``node0``
    and so on, the fraction of pages on each node. There are never more threads than processors. The
    dependent loads use one processor; without them, streams may use all.
    """

    ops = (STREAM, LOADED)
    sharing = "exclusive"

    def __init__(self) -> None:
        self.clock = clock_source.clock_of_this_machine()
        self.settings: dict[str, Any] = dict(SETTINGS)
        self.lock = ExitStack()

    def probe(self) -> Ready | Missing:
        """Read 1 MiB on each node to find out if the driver works here."""
        found = self.sample_of_probe({}, f"{STREAM} threads=1 reads=100 uint8[{PIECE}]", CURE)
        if isinstance(found, Missing):
            return found
        nodes = tuple(f"node{n}" for n in numa_nodes_with_memory())
        return Ready(nodes, {"read_1MiB_us": f"{found.median / 1e3:.0f}", "clock": self.clock})

    def open(self, spec: Spec) -> None:
        """Lock the NUMA nodes.

        Raises
        ------
        DriverFault
            ``missing``: a node has no memory. ``unsupported``: a node is not a number.
        """
        settings, found = checked(spec, SETTINGS), numa_nodes_with_memory()
        words = str(settings["nodes"]).split(",")
        if not all(word.isdigit() for word in words):
            raise DriverFault(
                "unsupported",
                f"nodes {settings['nodes']!r} are not node numbers; "
                "write them separated by commas: 0,1",
            )
        nodes = tuple(map(int, words))
        if lost := [n for n in nodes if n not in found]:
            there = ", ".join(map(str, found))
            raise DriverFault(
                "missing", f"node {lost[0]} has no memory, but these nodes have: {there}; {CURE}"
            )
        clock_source.refuse_under_timetravel("an access", self.clock)
        check_choice(settings, "clock", READERS)
        counted = clock_source.clock_of_this_machine()
        self.clock = settings["clock"] if counted == clock_source.WALL else counted
        self.read = READERS[settings["clock"]]
        for node in sorted(set(nodes)):
            self.lock.enter_context(lock_device(f"memory-node{node}"))
        self.settings, self.nodes = settings, nodes
        self.chase = pointer_chase.machine_code_loop()

    def describe(self) -> dict[str, str]:
        """Provenance: nodes, processors, machine."""
        return {
            "device": "-".join(f"node{n}" for n in self.nodes),
            "processors": str(len(os.sched_getaffinity(0))),
            "memory": EMULATED if clock_source.is_lab_machine() else "real",
            **conditions.constant_machine_facts(),
        }

    def close(self) -> None:
        """Release the locks of the NUMA nodes."""
        self.lock.close()

    def time_op(self, request: Request) -> Sample:
        """Sample of one op that runs alone; its memory is freed after it."""
        parts = parse_signature(request.signature)
        threads, reads = _load_of(request.signature, parts.attributes)
        size, under_load = parts.bytes, request.signature.startswith(LOADED)
        processors = len(os.sched_getaffinity(0))
        most = processors - 1 if under_load else processors
        least = 0 if under_load else 1
        if not least <= threads <= most:
            raise DriverFault("unsupported", f"{threads} threads are not possible; give {least} to "
                              f"{most}, one processor each")  # fmt: skip
        if not 0 < size <= self.settings["cap"] or size % PIECE:
            raise DriverFault("unsupported", f"{size} B is not possible; give a multiple of "
                              f"{PIECE} B up to {self.settings['cap']} B (setting "
                              "cap)")  # fmt: skip
        if request.context != WARM:
            raise DriverFault(
                "unsupported",
                f"context {request.context} is not supported; streams are always warm",
            )
        streams = [self._stream(size, reads) for _ in range(threads)]
        facts: dict[str, Any] = {}
        if under_load:
            ns, facts = self._load_times(request.n, size, streams)
        else:
            ns, facts = self._pass_times(request.n, streams), self._shares(streams[0].block)
        flags = (EMULATED,) if clock_source.is_lab_machine() else ()
        return self.sample(request, ns, flags=flags, facts=facts)

    def _pass_times(self, n: int, streams: list[_Stream]) -> list[float]:
        """Time in ns until the slowest thread has passed over its memory, shape (n,)."""
        return [float(self._slowest(streams)) for _ in range(n + 1)][1:]  # the first warms up

    def _slowest(self, streams: list[_Stream]) -> int:
        """Time in ns of the slowest of several threads that start together.

        Each thread measures its time with its own reading of the clock.
        """
        ready, spent = threading.Barrier(len(streams)), [0] * len(streams)

        def work(k: int) -> None:
            ready.wait()
            since = self.read()
            streams[k].run_once()
            spent[k] = self.read() - since

        workers = [threading.Thread(target=work, args=(k,)) for k in range(len(streams))]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return max(spent)

    def _load_times(
        self, n: int, size: int, streams: list[_Stream]
    ) -> tuple[list[float], dict[str, Any]]:
        """Time per dependent load in ns, shape (n,), and the streaming threads' rate as fact.

        Each time is the mean over one walk.
        """
        block = PageBlock(size, self.nodes)
        ring = pointer_chase.pointer_ring(size, self.settings["seed"], at=block.bytes)
        at, steps, ns = ring.ctypes.data, min(STEPS, size // pointer_chase.LINE), []
        stop = threading.Event()
        workers = [threading.Thread(target=s.run_until, args=(stop,), daemon=True) for s in streams]
        for worker in workers:
            worker.start()
        try:
            at = self.chase(at, steps)
            moved, since = sum(s.moved for s in streams), time.perf_counter_ns()
            for _ in range(n):
                begin = self.read()
                at = self.chase(at, steps)
                ns.append((self.read() - begin) / steps)
            moved, spent = sum(s.moved for s in streams) - moved, time.perf_counter_ns() - since
        finally:
            stop.set()
            for worker in workers:
                worker.join()
        return ns, {"drawn": moved / spent * 1e9, **self._shares(block)}

    def _shares(self, block: PageBlock) -> dict[str, float]:
        """Fraction of a block's pages on each NUMA node; empty if there is only one node."""
        nodes = sorted(set(self.nodes))
        if len(nodes) == 1:
            return {}
        lies = block.node_of_each_page()
        return {f"node{n}": float((lies == n).mean()) for n in nodes}

    def _stream(self, size: int, reads: int) -> _Stream:
        return _Stream(PageBlock(size, self.nodes), reads)


class _Stream:
    """Stream of one thread over its memory: some pieces are read, the others written."""

    def __init__(self, block: PageBlock, reads: int):
        self.block, self.moved = block, 0
        starts = range(block.address, block.address + len(block.bytes), PIECE)
        self.pieces = list(zip(starts, read_pieces(len(starts), reads), strict=True))

    def run_once(self) -> None:
        """Pass over the memory once."""
        for at, is_read in self.pieces:
            if is_read:
                LIBC.memchr(at, 255, PIECE)  # a byte that is not there
            else:
                LIBC.memset(at, 1, PIECE)
            self.moved += PIECE

    def run_until(self, stop: threading.Event) -> None:
        """Pass over the memory repeatedly until ``stop`` is set."""
        while not stop.is_set():
            self.run_once()


def _load_of(signature: str, attributes: dict[str, str]) -> tuple[int, int]:
    """Number of threads and percentage of bytes that are read, from the attributes of an op."""
    told = {key: attributes.get(key, "") for key in ("threads", "reads")}
    if set(attributes) - set(told) or not all(value.isdigit() for value in told.values()):
        raise DriverFault("unsupported", f"{signature}: give threads= and reads=, in %")
    threads, reads = (int(value) for value in told.values())
    if reads > 100:
        raise DriverFault("unsupported", f"{signature}: reads is {reads}; give 0 to 100")
    return threads, reads
