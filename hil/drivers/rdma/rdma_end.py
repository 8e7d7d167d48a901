"""RDMA endpoint through pyverbs: open device, registered memory, connected queue pairs.

This module is imported only if pyverbs is installed. pyverbs must match the system's rdma-core, so
it comes from the Linux distribution, never from PyPI.
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
    """Settings of an RDMA endpoint.

    Parameters
    ----------
    transport : ``rc``, ``uc`` or ``ud``
    size : maximum bytes of one op
    qps : number of queue pairs
    depth : maximum number of outstanding ops per queue pair
    sleep : True to wait for completions by events, False to poll
    inline : maximum bytes of data inside the work request; 0 for none
    gid : index in the GID table of the first device; -1 to choose an entry by its type
    batch : number of ops per post; the device is notified once per post
    shared : True if all queue pairs take receives from one shared receive queue
    mtu : payload bytes of a packet; 0 for the largest that both ports have
    compiled : True if machine code posts and polls ops
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
    """Completion of one op: its status and the number of its queue pair."""

    status: int
    number: int

    @property
    def good(self) -> bool:
        """True if the op succeeded."""
        return self.status == int(e.IBV_WC_SUCCESS)


class CompletionQueue:
    """Completion queue that is waited for by events or by polling."""

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
        """Wait until n ops have completed. It has no time limit of its own; the client has one.

        Raises
        ------
        DriverFault
            ``broken``: one of the ops failed.
        """
        while n:
            n -= self.count(n) or self._sleep(n)

    def take(self, most: int) -> list[Completion]:
        """Wait for at least one completion; returns at most ``most``, including failed ones."""
        while not (done := self.poll(most)):
            self._let_time_pass()
        return done

    def poll(self, most: int) -> list[Completion]:
        """Completions that are in the queue now, including failed ones; does not wait."""
        return [Completion(c.status, c.qp_num) for c in self.queue.poll(most)[1]]

    def count(self, most: int) -> int:
        """Number of completions in the queue now; DriverFault if one failed."""
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
        """Sleep until the next event; when polling, yield the processor if there is only one."""
        if self.channel is not None:
            self.rearm()
        elif self.shared:
            os.sched_yield()


def refuse_failed(failed: Sequence[Completion], of: int = 1) -> None:
    """Raise if there are failed completions.

    Parameters
    ----------
    failed : the failed completions
    of : number of ops that were posted

    Raises
    ------
    DriverFault
        ``broken``, with the first status and the number of failed ops.
    """
    if failed:
        refuse_failed_ops(len(failed), of, failed[0].status)


def refuse_failed_ops(failed: int, of: int, status: int) -> None:
    """Raise if some ops failed; ``status`` is the completion status of the first failed op."""
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
    """RDMA endpoint: a device with registered memory and queue pairs.

    Parameters
    ----------
    port : port of the device
    gid : GID of the port by which it is reached
    settings : settings of the endpoint
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
        """Maximum size of a datagram, in B."""
        return 128 << int(self.mtu)

    def connection_info(self) -> dict[str, Any]:
        """Information that the peer needs to connect, as plain numbers and text."""
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
        """Connect each queue pair to the peer's queue pair of the same index."""
        self.peer = peer
        way = self.address_vector(peer)
        self.handle = AH(self.pd, attr=way) if self.transport == "ud" else None
        for qp, number in zip(self.qps, peer["qpns"], strict=True):
            qp.to_rts(self.attributes(way, number, peer))

    def address_vector(self, peer: dict[str, Any]) -> AHAttr:
        """Address of the peer: a LID within an InfiniBand subnet, otherwise a GID.

        Raises
        ------
        DriverFault
            ``unsupported``: the device is iWARP.
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
        """Attributes with which a queue pair here connects to the peer's queue pair ``number``."""
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
        """Post one batch of ops on a lane (a queue pair); each op has its own completion."""
        chain = self.works.get((operation, size, lane))
        self.qps[lane].post_send((chain or self.work_requests(operation, size, lane))[0])

    def work_requests(self, operation: str, size: int, lane: int) -> list[SendWR]:
        """Linked work requests of one batch on a lane (a queue pair), created on first use."""
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
        """Machine-code loop over all lanes (queue pairs), created on first use."""
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

        With a shared receive queue the buffer serves any lane (queue pair).
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
        """Required length of the completion queue."""
        return 2 * self.settings.qps * self.settings.depth + 2

    def _flags(self, operation: str, size: int) -> int:
        inline = (
            e.IBV_SEND_INLINE if size <= self.settings.inline and operation != "rdma-read" else 0
        )
        return int(e.IBV_SEND_SIGNALED | inline)

    def _mtu_number(self) -> int:
        """MTU in the encoding of verbs: the payload size is 128 B shifted left by this number.

        Raises
        ------
        DriverFault
            ``unsupported``: the port does not support the requested MTU.
        """
        active = int(self.context.query_port(self.port.number).active_mtu)
        asked = self.settings.mtu
        allowed = [128 << number for number in range(1, active + 1)]
        if asked and asked not in allowed:
            self.context.close()
            raise DriverFault("unsupported", f"path_mtu is {asked}; use one that port "
                              f"{self.port.number} of {self.port.device} allows: "
                              f"{allowed}")  # fmt: skip
        return allowed.index(asked) + 1 if asked else active

    def _shared_receive_queue(self) -> SRQ:
        return SRQ(self.pd, SrqInitAttr(SrqAttr(max_wr=self.settings.depth * self.settings.qps)))

    def _check_iwarp(self) -> None:
        """Refuse settings that iWARP (RDMA over TCP) does not support."""
        lacks = {"path_mtu": self.settings.mtu > 0, self.transport: self.transport != "rc"}
        if self.port.iwarp and any(lacks.values()):
            self.context.close()
            what = " and ".join(k for k, asked in lacks.items() if asked)
            raise DriverFault("unsupported", f"{what} is not supported over iWARP, which is TCP; "
                              "use transport rc, without path_mtu")  # fmt: skip

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
                    "unsupported",
                    f"{asked} {what} are needed; use at most the {most} that {self.port.device} "
                    "allows",
                )

    def _scatter_entry(self, size: int, at: int) -> SGE:
        return SGE(self.memory.buf + at, size, self.memory.lkey)


def endpoints(
    devices: Sequence[str], settings: EndpointSettings
) -> tuple[RdmaEndpoint, RdmaEndpoint]:
    """Create two endpoints that can reach each other, without connecting them."""
    one, other = (rdma_ports.active_port(name) for name in devices)
    gids = rdma_ports.gid_pair(one, other, settings.gid)
    return RdmaEndpoint(one, gids[0], settings), RdmaEndpoint(other, gids[1], settings)


def connected_pair(
    devices: Sequence[str], settings: EndpointSettings
) -> tuple[RdmaEndpoint, RdmaEndpoint]:
    """Create two endpoints and connect them to each other."""
    a, b = endpoints(devices, settings)
    if a.port.iwarp:
        connect_through_cm(a, b)
        return a, b
    a.connect(b.connection_info())
    b.connect(a.connection_info())
    return a, b


def completion_times(ends: Sequence[RdmaEndpoint], counts: Sequence[int], since: int) -> list[int]:
    """Time in ns after ``since`` at which each endpoint had its number of completions."""
    order = _in_event_order if ends[0].done.channel else _in_polling_order
    pending, at = list(counts), [0] * len(ends)
    for number in order(ends, pending):
        at[number] = time.perf_counter_ns() - since
    return at


def _in_polling_order(ends: Sequence[RdmaEndpoint], pending: list[int]) -> Iterator[int]:
    """Yield the index of each endpoint when it has all completions, by polling them in turn."""
    while any(pending):
        for number, end in enumerate(ends):
            if pending[number] and (got := end.done.count(pending[number])):
                pending[number] -= got
                if not pending[number]:
                    yield number
        if ends[0].done.shared:
            os.sched_yield()


def _in_event_order(ends: Sequence[RdmaEndpoint], pending: list[int]) -> Iterator[int]:
    """Yield the index of each endpoint when it has all completions, by waiting for events."""
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
