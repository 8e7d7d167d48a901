"""Machine-code loop that posts and polls RDMA ops, without Python between post and completion.

A Python call takes about a microsecond, as long as a small op on the card, and a compiler may be
missing. The loop is ``rdma_loop.c``, compiled for x86-64. It calls the same device functions as
libibverbs' inline functions do; their addresses are in the device context.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from ....sim.errors import DriverFault

CODE = bytes.fromhex(
    "415741564531f64155415455534889fbbf010000004881ecb8010000488d44243048894424084889c6ff5310"
    "4c696c243000ca9a3b4c036c24384c3973407e5b496bee1848036b2848837b5800754748837b68007540488b"
    "4330483943507d36488b434848034510483b43387f28488b7508488b542408488b7d00ff1348984889436848"
    "85c075c0488b43484801451048014350ebb249ffc6eb9f488d4424204531f64889442410488b7b20488b5424"
    "08be08000000ff530889c585c0780a4c8b6424084531ffeb36f7dd4863ed48896b68e9b20000004963442408"
    "496b0c241848034b28488b535848ff491085c0751548837b5800742141ffc74983c4304139ef75d3eb63488d"
    "7201488973584885d275de48894360ebd848837b680075d8488b4330483943507dce488b434848034110483b"
    "43387fc0488b7108488b3948894c2418488b542410ff13488b4c241848984885c0488943687596488b434848"
    "01411048014350eb884963c74901c64585ff750b488b43184885c07402ffd04c3973500f8f1fffffff488d74"
    "2420bf01000000ff5310486944242000ca9a3b48034424284881c4b80100005b4c29e85d415c415d415e415f"
    "c3"
)
"""``run`` of ``rdma_loop.c``, by gcc 12.2.0 with the options that it names."""
MACHINE = "x86_64"
MEMORY = "/proc/self/mem"
PAIR = {"context": 0, "send_queue": 24, "number": 52}  # offsets in struct ibv_qp
POLL, POST = 8 + 8 * 11, 8 + 8 * 25  # offsets in struct ibv_context: its device, then its functions
Pointer = ctypes.c_void_p


class ScatterGatherEntry(ctypes.Structure):
    """``struct ibv_sge``: a range of registered memory."""

    _fields_ = (("addr", ctypes.c_uint64), ("length", ctypes.c_uint32), ("lkey", ctypes.c_uint32))


class WorkRequest(ctypes.Structure):
    """``struct ibv_send_wr``: a send work request.

    Its unions have fields for write, read and send.
    """

    _fields_ = (
        ("lane", ctypes.c_uint64), ("next", Pointer), ("elements", Pointer),
        ("number", ctypes.c_int), ("operation", ctypes.c_int), ("flags", ctypes.c_uint),
        ("immediate", ctypes.c_uint32), ("remote", ctypes.c_uint64), ("rkey", ctypes.c_uint32),
        ("unused", ctypes.c_uint8 * 76),
    )  # fmt: skip


class _Lane(ctypes.Structure):
    _fields_ = (("pair", Pointer), ("batch", Pointer), ("outstanding", ctypes.c_int64))


class _Loop(ctypes.Structure):
    _fields_ = (
        *((name, Pointer) for name in ("post", "poll", "clock", "give_way", "queue", "lanes")),
        *((name, ctypes.c_int64) for name in
          ("count", "depth", "number", "batch", "posted", "failed", "status", "refused")),
    )  # fmt: skip


class LoopOutcome(NamedTuple):
    """Result of a loop.

    It has the time in ns, the numbers of ops posted and failed, the completion status of the first
    failed op, and the errno of a post or poll that the device refused (0 if none).
    """

    ns: int
    posted: int
    failed: int
    status: int
    refused: int


class NativeQueuePair(NamedTuple):
    """Addresses of a queue pair, its completion queue, and the functions to post and to poll."""

    pair: int
    queue: int
    post: int
    poll: int


@dataclass(frozen=True)
class WorkTemplate:
    """Template of the work requests of one kind of op.

    Parameters
    ----------
    operation : value of ``enum ibv_wr_opcode``
    flags : value of ``enum ibv_send_flags``
    address, size, lkey : local memory that is sent or read into
    remote, rkey : remote memory that is written or read; 0 for a send
    """

    operation: int
    flags: int
    address: int
    size: int
    lkey: int
    remote: int = 0
    rkey: int = 0


def refuse_other_processors() -> None:
    """Refuse processors that the loop is not compiled for.

    Raises
    ------
    DriverFault
        ``unsupported``: this processor is not x86-64.
    """
    if platform.machine() != MACHINE:
        raise DriverFault("unsupported", f"no loop in machine code for {platform.machine()}; set "
                          "timed to python, or take perftest")  # fmt: skip


def native_queue_pair(pair: Any) -> NativeQueuePair:
    """Addresses of the libibverbs structures behind a pyverbs queue pair.

    pyverbs does not expose them.

    Every word of the Python object is tried. The right one points to memory that holds the queue
    pair's number and a completion queue of the same context.

    Raises
    ------
    DriverFault
        ``unsupported``: no word matches.
    """
    with open(MEMORY, "rb", buffering=0) as memory:
        for offset in range(0, type(pair).__basicsize__, 8):
            at = _word(memory.fileno(), id(pair) + offset)
            number = _word(memory.fileno(), at + PAIR["number"], 4)
            context, queue = (
                _word(memory.fileno(), at + PAIR[k]) for k in ("context", "send_queue")
            )
            if number == pair.qp_num and context and _word(memory.fileno(), queue) == context:
                post, poll = (_word(memory.fileno(), context + k) for k in (POST, POLL))
                return NativeQueuePair(at, queue, post, poll)
    raise DriverFault("unsupported", "no queue pair of libibverbs was found in the "
                      f"{type(pair).__name__} of this pyverbs version; set timed: "
                      "python")  # fmt: skip


def _word(memory: int, address: int, size: int = 8) -> int:
    """Unsigned integer at an address of this process; 0 if no memory is mapped there."""
    try:
        return int.from_bytes(os.pread(memory, size, address), "little")
    except (OSError, OverflowError):
        return 0


class MessageLoop:
    """Loop over several queue pairs (lanes) that share a completion queue, for one kind of op.

    Parameters
    ----------
    pairs : queue pair of each lane
    work : template of the work requests
    depth : maximum number of outstanding messages per lane
    batch : number of messages per post; the card is notified once per post
    shared : True to yield the processor after an empty poll; for a process that may use only one
        processor
    """

    def __init__(
        self,
        pairs: Sequence[NativeQueuePair],
        work: WorkTemplate,
        depth: int,
        batch: int,
        shared: bool,
    ):
        self.element = ScatterGatherEntry(work.address, work.size, work.lkey)
        self.chains = [self._chain(work, lane, batch) for lane in range(len(pairs))]
        self.lanes = (_Lane * len(pairs))(
            *(
                _Lane(p.pair, ctypes.addressof(c), 0)
                for p, c in zip(pairs, self.chains, strict=True)
            )
        )
        libc = ctypes.CDLL(None)
        clock, give_way = (ctypes.cast(f, Pointer) for f in (libc.clock_gettime, libc.sched_yield))
        self.loop = _Loop(
            pairs[0].post, pairs[0].poll, clock, give_way if shared else None, pairs[0].queue,
            ctypes.addressof(self.lanes), 0, depth, len(pairs), batch,
        )  # fmt: skip

    def run(self, count: int) -> LoopOutcome:
        """Post ``count`` messages and poll until all have completed; for 0, only poll once."""
        loop = self.loop
        loop.count = count
        loop.posted = loop.failed = loop.status = loop.refused = 0
        ns = _machine_code()(ctypes.addressof(loop))
        return LoopOutcome(ns, loop.posted, loop.failed, loop.status, loop.refused)

    def _chain(self, work: WorkTemplate, lane: int, batch: int) -> ctypes.Array[WorkRequest]:
        """Linked work requests of one post on a lane; each one creates a completion."""
        chain = (WorkRequest * batch)()
        for k in range(batch):
            following = ctypes.addressof(chain[k + 1]) if k + 1 < batch else None
            chain[k] = WorkRequest(
                lane, following, ctypes.addressof(self.element), 1, work.operation, work.flags, 0,
                work.remote, work.rkey,
            )  # fmt: skip
        return chain


@cache
def _machine_code() -> Any:
    """Function that runs the loop in machine code.

    It takes the address of the loop's settings and returns the time in ns.
    """
    refuse_other_processors()
    try:
        page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    except OSError as error:
        raise DriverFault(
            "denied", f"memory that is writable and executable: {error.strerror}; allow execmem, "
            "or set timed to python"
        ) from error  # fmt: skip
    page.write(CODE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    call = ctypes.CFUNCTYPE(ctypes.c_int64, Pointer)(address)
    call.page = page  # type: ignore[attr-defined]  # kept as long as the callable
    return call
