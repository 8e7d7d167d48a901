"""RDMA endpoint through pyverbs: open device, registered memory, connected queue pairs.

Imported only where pyverbs is: it must fit the rdma-core of the system, so it comes from the
distribution, never from PyPI.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from pyverbs import enums as e
from pyverbs.addr import AH, GID, AHAttr, GlobalRoute
from pyverbs.cq import CQ, CompChannel
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

from ...sim.errors import DriverFault

PORT, QKEY, GRH = 1, 0x11111111, 40
RIGHTS = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ
TRANSPORTS = {"rc": e.IBV_QPT_RC, "uc": e.IBV_QPT_UC, "ud": e.IBV_QPT_UD}
OPERATIONS = {
    "rdma-send": e.IBV_WR_SEND,
    "rdma-write": e.IBV_WR_RDMA_WRITE,
    "rdma-read": e.IBV_WR_RDMA_READ,
}
EVENTS = "infinibandevent"


def open_device(name: str) -> Context:
    """Context of the device of that name."""
    return Context(name=name)


def gid_index(context: Context) -> int:
    """GID index of RoCEv2 over IPv4; 0 where there is none, as on InfiniBand."""
    for index in range(context.query_port(PORT).gid_tbl_len):
        try:
            gid = str(context.query_gid(PORT, index).gid)
        except Exception:  # pyverbs raises its own error for an empty entry
            continue
        if gid.startswith("0000:0000:0000:0000:0000:ffff"):
            return index
    return 0


class CompletionQueue:
    """Completion queue, waited for by events or by polling."""

    def __init__(self, context: Context, depth: int, sleep: bool):
        before = _event_channel_descriptors()
        self.channel = CompChannel(context) if sleep else None
        self.fd = max(_event_channel_descriptors() - before, default=-1)  # pyverbs does not tell it
        self.queue = CQ(context, depth, channel=self.channel)
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
            n -= self.poll(n) or self._sleep(n)

    def poll(self, n: int) -> int:
        """Number of completions taken from the queue now, at most n."""
        count, done = self.queue.poll(n)
        for each in done:
            if each.status != e.IBV_WC_SUCCESS:
                raise DriverFault("broken", f"a completion has status {each.status}: the peer or "
                                  "the way to it failed")  # fmt: skip
        return int(count)

    def rearm(self) -> None:
        """Acknowledge the pending event and request the next notification."""
        assert self.channel is not None  # noqa: S101  a queue that is slept on
        self.channel.get_cq_event(self.queue)
        self.queue.ack_events(1)
        self.queue.req_notify()

    def _sleep(self, n: int) -> int:
        if self.channel is None:
            os.sched_yield()
        else:
            self.rearm()
        return self.poll(n)


def _event_channel_descriptors() -> set[int]:
    """File descriptors of the event channels that this process has open."""
    found = set()
    for entry in os.scandir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # of the scan itself
            found |= {int(entry.name)} if EVENTS in os.readlink(entry.path) else set()
    return found


class RdmaEndpoint:
    """Endpoint: a device with registered memory and queue pairs."""

    def __init__(self, name: str, transport: str, size: int, qps: int, depth: int, sleep: bool):
        self.transport = transport
        self.handle: AH | None = None
        self.context = open_device(name)
        self.pd = PD(self.context)
        self.done = CompletionQueue(self.context, 2 * qps * depth + 2, sleep)
        self.memory = MR(self.pd, size + GRH, RIGHTS)
        self.gidx = gid_index(self.context)
        cap = QPCap(max_send_wr=depth, max_recv_wr=depth, max_send_sge=1, max_recv_sge=1)
        init = QPInitAttr(qp_type=TRANSPORTS[transport], scq=self.done.queue, rcq=self.done.queue,
                          cap=cap, sq_sig_all=0)  # fmt: skip
        self.qps = [QP(self.pd, init) for _ in range(qps)]
        self.mtu = self.context.query_port(PORT).active_mtu

    @property
    def largest_datagram(self) -> int:
        """Largest datagram, B."""
        return 128 << int(self.mtu)

    def connection_info(self) -> dict[str, Any]:
        """Queue pair numbers, GID, address and key that the peer needs to connect."""
        gid = str(self.context.query_gid(PORT, self.gidx).gid)
        numbers = [qp.qp_num for qp in self.qps]
        return {"qpns": numbers, "gid": gid, "addr": self.memory.buf, "rkey": self.memory.rkey}

    def connect(self, peer: dict[str, Any]) -> None:
        """Connect each queue pair to the peer's of the same index."""
        self.peer = peer
        route = GlobalRoute(dgid=GID(peer["gid"]), sgid_index=self.gidx, hop_limit=64)
        way = AHAttr(gr=route, is_global=1, port_num=PORT)
        self.handle = AH(self.pd, attr=way) if self.transport == "ud" else None
        for qp, number in zip(self.qps, peer["qpns"], strict=True):
            qp.to_rts(self.attributes(way, number))

    def attributes(self, way: AHAttr, number: int) -> QPAttr:
        """Attributes to connect a queue pair to the peer's queue pair ``number``."""
        attr = QPAttr(port_num=PORT)
        if self.transport == "ud":
            attr.qkey = QKEY
            return attr
        attr.qp_access_flags = RIGHTS
        attr.dest_qp_num, attr.path_mtu, attr.ah_attr = number, self.mtu, way
        attr.rq_psn = attr.sq_psn = 0
        if self.transport == "rc":
            attr.max_dest_rd_atomic = attr.max_rd_atomic = 1
            attr.min_rnr_timer, attr.timeout, attr.retry_cnt, attr.rnr_retry = 12, 14, 7, 7
        return attr

    def post(self, operation: str, size: int, qp: int = 0) -> None:
        """Post one op with a signalled completion."""
        work = SendWR(num_sge=1, sg=[self._scatter_entry(size, GRH)], opcode=OPERATIONS[operation],
                      send_flags=e.IBV_SEND_SIGNALED)  # fmt: skip
        if operation != "rdma-send":
            work.set_wr_rdma(self.peer["rkey"], self.peer["addr"] + GRH)
        if self.handle is not None:
            work.set_wr_ud(self.handle, self.peer["qpns"][qp], QKEY)
        self.qps[qp].post_send(work)

    def post_receive(self, size: int) -> None:
        """Post a receive buffer for one message; a datagram needs 40 more bytes for its header."""
        extra = GRH if self.transport == "ud" else 0
        piece = self._scatter_entry(size + extra, GRH - extra)
        self.qps[0].post_recv(RecvWR(num_sge=1, sg=[piece]))

    def close(self) -> None:
        """Destroy everything in reverse order of creation."""
        for qp in self.qps:
            qp.close()
        for each in (
            self.handle,
            self.memory,
            self.done.queue,
            self.done.channel,
            self.pd,
            self.context,
        ):
            if each is not None:
                each.close()

    def _scatter_entry(self, size: int, at: int) -> SGE:
        return SGE(self.memory.buf + at, size, self.memory.lkey)


def connected_pair(devices: Sequence[str], transport: str, size: int, qps: int, depth: int,
           sleep: bool) -> tuple[RdmaEndpoint, RdmaEndpoint]:  # fmt: skip
    """Two endpoints connected to each other."""
    a, b = (RdmaEndpoint(name, transport, size, qps, depth, sleep) for name in devices)
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
            if pending[number] and (got := end.done.poll(pending[number])):
                pending[number] -= got
                if not pending[number]:
                    yield number
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
            while pending[number] and (got := ends[number].done.poll(pending[number])):
                pending[number] -= got
            if before and not pending[number]:
                yield number
