"""RDMA endpoint through pyverbs: open device, registered memory, connected queue pairs.

Imported only where pyverbs is: it must fit the rdma-core of the system, so it comes from the
distribution, never from PyPI.
"""

from __future__ import annotations

import os
import secrets
import select
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv6Address
from typing import Any, NamedTuple

from pyverbs import enums as e
from pyverbs.addr import AH, GID, AHAttr, GlobalRoute
from pyverbs.cq import CQ, CompChannel
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

from ....sim.errors import DriverFault
from . import rdma_ports
from .rdma_cm import connect_through_cm
from .rdma_loop import MessageLoop, WorkTemplate, native_queue_pair

QKEY, GRH = 0x11111111, 40
RIGHTS = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ
TRANSPORTS = {"rc": e.IBV_QPT_RC, "uc": e.IBV_QPT_UC, "ud": e.IBV_QPT_UD}
OPERATIONS = {
    "rdma-send": e.IBV_WR_SEND,
    "rdma-write": e.IBV_WR_RDMA_WRITE,
    "rdma-read": e.IBV_WR_RDMA_READ,
}
RECEIVE = 1 << 32  # work id of receives; that of other ops is the number of their lane
EVENTS = "infinibandevent"


def open_device(name: str) -> Context:
    """Context of the device of that name."""
    return Context(name=name)


@dataclass(frozen=True)
class EndpointSettings:
    """What an endpoint is made for.

    Parameters
    ----------
    transport : ``rc uc ud``
    size : B of one op, at most
    qps : queue pairs
    depth : ops outstanding on each
    sleep : wait for completions by events instead of polling
    inline : B up to which data travel inside of the work request; 0 for none
    gid : index of the first device's GID; -1 to choose by type
    batch : ops of one post, for which the device is told once
    shared : receives of all queue pairs come from one shared receive queue
    mtu : B of a packet's payload; 0 for what both ports have
    compiled : ops are posted and polled for by machine code
    """

    transport: str
    size: int
    qps: int = 1
    depth: int = 1
    sleep: bool = False
    inline: int = 0
    gid: int = -1
    batch: int = 1
    shared: bool = False
    mtu: int = 0
    compiled: bool = False


class Completion(NamedTuple):
    """Completion of one op: the status in which it ended, and the number of its queue pair."""

    status: int
    number: int

    @property
    def good(self) -> bool:
        """Whether the op was done."""
        return self.status == int(e.IBV_WC_SUCCESS)


class CompletionQueue:
    """Completion queue, waited for by events or by polling."""

    def __init__(self, context: Context, depth: int, sleep: bool):
        before = _event_channel_descriptors() if sleep else set()
        self.channel = CompChannel(context) if sleep else None
        now = _event_channel_descriptors() if sleep else set()
        self.fd = max(now - before, default=-1)  # pyverbs does not tell it
        self.queue = CQ(context, depth, channel=self.channel)
        self.shared = len(os.sched_getaffinity(0)) == 1  # with the kernel's part of the device
        if sleep:
            self.queue.req_notify()

    def wait(self, n: int) -> None:
        """Wait until n ops completed; without a time limit of its own (the client has one).

        Raises
        ------
        DriverFault
            ``broken``: one of them failed.
        """
        while n:
            n -= self.count(n) or self._sleep(n)

    def take(self, most: int) -> list[Completion]:
        """At least one completion, waited for, and at most ``most``; failed ones among them."""
        while not (done := self.poll(most)):
            self._let_time_pass()
        return done

    def poll(self, most: int) -> list[Completion]:
        """Completions taken from the queue now, failed ones among them."""
        return [Completion(c.status, c.qp_num) for c in self.queue.poll(most)[1]]

    def count(self, most: int) -> int:
        """Number of ops that completed by now; DriverFault where one failed."""
        done = self.poll(most)
        refuse_failed([c for c in done if not c.good])
        return len(done)

    def rearm(self) -> None:
        """Acknowledge the pending event and request the next notification."""
        assert self.channel is not None  # noqa: S101  a queue that is slept on
        self.channel.get_cq_event(self.queue)
        self.queue.ack_events(1)
        self.queue.req_notify()

    def _sleep(self, n: int) -> int:
        self._let_time_pass()
        return self.count(n)

    def _let_time_pass(self) -> None:
        """Sleep until the next event; where it is polled, give way if there is one processor."""
        if self.channel is not None:
            self.rearm()
        elif self.shared:
            os.sched_yield()


def refuse_failed(failed: Sequence[Completion], of: int = 1) -> None:
    """Raise for completions that failed; nothing for none.

    Raises
    ------
    DriverFault
        ``broken``, with the first status and how many of the ops failed.
    """
    if failed:
        refuse_failed_ops(len(failed), of, failed[0].status)


def refuse_failed_ops(failed: int, of: int, status: int) -> None:
    """Raise where some of the ops failed, the first with that completion status."""
    if failed:
        raise DriverFault("broken", f"{failed} of {of} ops failed, the first with completion "
                          f"status {status}: the peer or the path to it failed")  # fmt: skip


def _event_channel_descriptors() -> set[int]:
    """File descriptors of the event channels that this process has open."""
    found = set()
    for entry in os.scandir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # of the scan itself
            found |= {int(entry.name)} if EVENTS in os.readlink(entry.path) else set()
    return found


class RdmaEndpoint:
    """Endpoint: a device with registered memory and queue pairs.

    Parameters
    ----------
    port : of the device
    gid : by which it is reached on that port
    settings : what for
    """

    def __init__(self, port: rdma_ports.RdmaPort, gid: rdma_ports.Gid, settings: EndpointSettings):
        self.port, self.gid, self.settings = port, gid, settings
        self.transport = settings.transport
        self.handle: AH | None = None
        self.connections: list[Any] = []  # of rdma_cm, and what they stand on
        self.first_packet = secrets.randbits(24)  # so that none of an older connection fits
        self.context = open_device(port.device)
        self.limits = self.context.query_device()
        self._check_limits()
        self._check_iwarp()
        self.mtu = self._mtu_number()
        self.pd = PD(self.context)
        self.done = CompletionQueue(self.context, self._queue_length, settings.sleep)
        self.memory = MR(self.pd, settings.size + GRH, RIGHTS)
        cap = QPCap(max_send_wr=settings.depth, max_recv_wr=settings.depth, max_send_sge=1,
                    max_recv_sge=1, max_inline_data=settings.inline)  # fmt: skip
        self.receives = self._shared_receive_queue() if settings.shared else None
        init = QPInitAttr(qp_type=TRANSPORTS[self.transport], cap=cap, sq_sig_all=0,
                          scq=self.done.queue, rcq=self.done.queue, srq=self.receives)  # fmt: skip
        self.qps = [QP(self.pd, init) for _ in range(settings.qps)]
        self.lane_by_number = {qp.qp_num: lane for lane, qp in enumerate(self.qps)}
        self.works: dict[tuple[str, int, int], list[SendWR]] = {}
        self.loops: dict[tuple[str, int], MessageLoop] = {}

    @property
    def largest_datagram(self) -> int:
        """Largest datagram, B."""
        return 128 << int(self.mtu)

    def connection_info(self) -> dict[str, Any]:
        """What the peer needs to connect: plain numbers and text, so that it can be sent."""
        return {
            "qpns": [qp.qp_num for qp in self.qps],
            "gid": self.gid.text,
            "lid": self.port.lid,
            "psn": self.first_packet,
            "mtu": int(self.mtu),
            "reads_out": self.limits.max_qp_init_rd_atom,
            "reads_in": self.limits.max_qp_rd_atom,
            "addr": self.memory.buf,
            "rkey": self.memory.rkey,
        }

    def connect(self, peer: dict[str, Any]) -> None:
        """Connect each queue pair to the peer's of the same index."""
        self.peer = peer
        way = self.address_vector(peer)
        self.handle = AH(self.pd, attr=way) if self.transport == "ud" else None
        for qp, number in zip(self.qps, peer["qpns"], strict=True):
            qp.to_rts(self.attributes(way, number, peer))

    def address_vector(self, peer: dict[str, Any]) -> AHAttr:
        """How a peer is reached: by LID within an InfiniBand subnet, else by GID.

        Raises
        ------
        DriverFault
            ``unsupported``: it is iWARP.
        """
        if self.port.iwarp:
            raise DriverFault("unsupported", f"{self.port.device} is iWARP, whose queue pairs only "
                              "rdma_cm connects; take two devices of one host")  # fmt: skip
        number, address = self.port.number, IPv6Address(peer["gid"])
        if self.port.infiniband and not rdma_ports.crosses_subnets(self.gid.address, address):
            return AHAttr(dlid=peer["lid"], is_global=0, port_num=number)
        route = GlobalRoute(dgid=GID(peer["gid"]), sgid_index=self.gid.index, hop_limit=64)
        return AHAttr(dlid=peer["lid"], gr=route, is_global=1, port_num=number)

    def attributes(self, way: AHAttr, number: int, peer: dict[str, Any]) -> QPAttr:
        """Attributes to connect a queue pair to the peer's queue pair ``number``."""
        attr = QPAttr(port_num=self.port.number)
        if self.transport == "ud":
            attr.qkey = QKEY
            return attr
        attr.qp_access_flags = RIGHTS
        attr.dest_qp_num, attr.path_mtu, attr.ah_attr = number, min(self.mtu, peer["mtu"]), way
        attr.rq_psn, attr.sq_psn = peer["psn"], self.first_packet
        if self.transport == "rc":
            attr.max_rd_atomic = min(self.limits.max_qp_init_rd_atom, peer["reads_in"])
            attr.max_dest_rd_atomic = min(self.limits.max_qp_rd_atom, peer["reads_out"])
            attr.min_rnr_timer, attr.timeout, attr.retry_cnt, attr.rnr_retry = 12, 14, 7, 7
        return attr

    def post(self, operation: str, size: int, lane: int = 0) -> None:
        """Post one batch of ops on a lane, its queue pair; each has a completion of its own."""
        chain = self.works.get((operation, size, lane))
        self.qps[lane].post_send((chain or self.work_requests(operation, size, lane))[0])

    def work_requests(self, operation: str, size: int, lane: int) -> list[SendWR]:
        """WorkTemplate requests of a batch on a lane, each with the next one, made once."""
        chain: list[SendWR] = []
        for _ in range(self.settings.batch):  # the last one first
            work = SendWR(wr_id=lane, num_sge=1, sg=[self._scatter_entry(size, GRH)],
                          opcode=OPERATIONS[operation], send_flags=self._flags(operation, size),
                          **({"next_wr": chain[0]} if chain else {}))  # fmt: skip
            if operation != "rdma-send":
                work.set_wr_rdma(self.peer["rkey"], self.peer["addr"] + GRH)
            if self.handle is not None:
                work.set_wr_ud(self.handle, self.peer["qpns"][lane], QKEY)
            chain.insert(0, work)
        self.works[operation, size, lane] = chain
        return chain

    def loop(self, operation: str, size: int) -> MessageLoop:
        """Loop in machine code over all lanes, made once."""
        key = (operation, size)
        if key not in self.loops:
            remote = operation != "rdma-send"
            work = WorkTemplate(int(OPERATIONS[operation]), int(self._flags(operation, size)),
                        self.memory.buf + GRH, size, self.memory.lkey,
                        self.peer["addr"] + GRH if remote else 0,
                        self.peer["rkey"] if remote else 0)  # fmt: skip
            self.loops[key] = MessageLoop(
                [native_queue_pair(qp) for qp in self.qps], work, self.settings.depth,
                self.settings.batch, self.done.shared,
            )  # fmt: skip
        return self.loops[key]

    def post_receive(self, size: int, lane: int = 0) -> None:
        """Post a receive buffer for one message; a datagram needs 40 more bytes for its header.

        With a shared receive queue it is for a message on any lane.
        """
        extra = GRH if self.transport == "ud" else 0
        piece = self._scatter_entry(size + extra, GRH - extra)
        queue = self.qps[lane] if self.receives is None else self.receives
        queue.post_recv(RecvWR(wr_id=RECEIVE, num_sge=1, sg=[piece]))

    def close(self) -> None:
        """Destroy everything in reverse order of creation."""
        self.works.clear()
        self.loops.clear()
        for qp in self.qps:
            qp.close()
        for each in (
            *self.connections,
            self.handle,
            self.receives,
            self.memory,
            self.done.queue,
            self.done.channel,
            self.pd,
            self.context,
        ):
            if each is not None:
                each.close()

    @property
    def _queue_length(self) -> int:
        """Completions that may be waiting at once."""
        return 2 * self.settings.qps * self.settings.depth + 2

    def _flags(self, operation: str, size: int) -> int:
        inline = (
            e.IBV_SEND_INLINE if size <= self.settings.inline and operation != "rdma-read" else 0
        )
        return int(e.IBV_SEND_SIGNALED | inline)

    def _mtu_number(self) -> int:
        """Number of the largest packet's payload: 128 B shifted by it.

        Raises
        ------
        DriverFault
            ``unsupported``: another one is asked for than the port can have.
        """
        active = int(self.context.query_port(self.port.number).active_mtu)
        asked = self.settings.mtu
        allowed = [128 << number for number in range(1, active + 1)]
        if asked and asked not in allowed:
            self.context.close()
            raise DriverFault("unsupported", f"path_mtu {asked}; port {self.port.number} of "
                              f"{self.port.device} allows {allowed}")  # fmt: skip
        return allowed.index(asked) + 1 if asked else active

    def _shared_receive_queue(self) -> SRQ:
        return SRQ(self.pd, SrqInitAttr(SrqAttr(max_wr=self.settings.depth * self.settings.qps)))

    def _check_iwarp(self) -> None:
        """Refuse what TCP does not have."""
        lacks = {"path_mtu": self.settings.mtu > 0, self.transport: self.transport != "rc"}
        if self.port.iwarp and any(lacks.values()):
            self.context.close()
            what = " and ".join(k for k, asked in lacks.items() if asked)
            raise DriverFault("unsupported", f"{what} over iWARP, which is TCP; take rc")

    def _check_limits(self) -> None:
        receives = self.settings.depth * self.settings.qps if self.settings.shared else 0
        for what, asked, most in (
            ("ops outstanding on a queue pair", self.settings.depth, self.limits.max_qp_wr),
            ("queue pairs", self.settings.qps, self.limits.max_qp),
            ("completions waiting", self._queue_length, self.limits.max_cqe),
            ("receives of a shared queue", receives, self.limits.max_srq_wr),
        ):
            if asked > most:
                self.context.close()
                raise DriverFault(
                    "unsupported", f"{asked} {what}; {self.port.device} allows {most}"
                )

    def _scatter_entry(self, size: int, at: int) -> SGE:
        return SGE(self.memory.buf + at, size, self.memory.lkey)


def endpoints(
    devices: Sequence[str], settings: EndpointSettings
) -> tuple[RdmaEndpoint, RdmaEndpoint]:
    """Two endpoints that can reach each other, not connected yet."""
    one, other = (rdma_ports.active_port(name) for name in devices)
    gids = rdma_ports.gid_pair(one, other, settings.gid)
    return RdmaEndpoint(one, gids[0], settings), RdmaEndpoint(other, gids[1], settings)


def connected_pair(
    devices: Sequence[str], settings: EndpointSettings
) -> tuple[RdmaEndpoint, RdmaEndpoint]:
    """Two endpoints connected to each other."""
    a, b = endpoints(devices, settings)
    if a.port.iwarp:
        connect_through_cm(a, b)
        return a, b
    a.connect(b.connection_info())
    b.connect(a.connection_info())
    return a, b


def completion_times(ends: Sequence[RdmaEndpoint], counts: Sequence[int], since: int) -> list[int]:
    """Nanoseconds after ``since`` at which each end had its number of completions."""
    order = _in_event_order if ends[0].done.channel else _in_polling_order
    pending, at = list(counts), [0] * len(ends)
    for number in order(ends, pending):
        at[number] = time.perf_counter_ns() - since
    return at


def _in_polling_order(ends: Sequence[RdmaEndpoint], pending: list[int]) -> Iterator[int]:
    """Indices of ends as they complete, by polling each in turn."""
    while any(pending):
        for number, end in enumerate(ends):
            if pending[number] and (got := end.done.count(pending[number])):
                pending[number] -= got
                if not pending[number]:
                    yield number
        if ends[0].done.shared:
            os.sched_yield()


def _in_event_order(ends: Sequence[RdmaEndpoint], pending: list[int]) -> Iterator[int]:
    """Indices of ends as they complete, by sleeping until an event."""
    poller = select.poll()
    by_fd = {end.done.fd: number for number, end in enumerate(ends)}
    for fd in by_fd:
        poller.register(fd, select.POLLIN)
    while any(pending):
        for fd, _ in poller.poll():
            number = by_fd[fd]
            ends[number].done.rearm()
            before = pending[number]
            while pending[number] and (got := ends[number].done.count(pending[number])):
                pending[number] -= got
            if before and not pending[number]:
                yield number
