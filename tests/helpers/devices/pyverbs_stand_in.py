"""A stand-in of pyverbs: devices that complete in any order, late, and with errors.

It holds what is posted to each queue pair and refuses more than the queue pair was made for, as
libibverbs does (``ENOMEM``), receives and shared receive queues alike; a message without a receive
and a completion queue that overflows are errors of whoever posted. A failed op puts its queue pair
into the error state, in which all that is outstanding fails too, as on every card. Below it has
libibverbs' structures and functions, so that machine code can post and poll. It shows what is
asked of a card, not its times.
"""

import ctypes
import random
import sys
from types import ModuleType, SimpleNamespace

ENOMEM = 12
LIMITS = {"max_qp_wr": 4096, "max_qp": 1000, "max_cqe": 100_000, "max_srq_wr": 4096,
          "max_qp_rd_atom": 16, "max_qp_init_rd_atom": 16}  # fmt: skip
ENUMS = {
    "IBV_ACCESS_LOCAL_WRITE": 1, "IBV_ACCESS_REMOTE_WRITE": 2, "IBV_ACCESS_REMOTE_READ": 4,
    "IBV_QPT_RC": 2, "IBV_QPT_UC": 3, "IBV_QPT_UD": 4,
    "IBV_WR_RDMA_WRITE": 0, "IBV_WR_SEND": 2, "IBV_WR_RDMA_READ": 4,
    "IBV_WC_SUCCESS": 0, "IBV_SEND_SIGNALED": 2, "IBV_SEND_INLINE": 8,
}  # fmt: skip
SEND = 2
BROKEN, FLUSHED = 12, 5  # IBV_WC_RETRY_EXC_ERR, IBV_WC_WR_FLUSH_ERR
POST = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
POLL = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)


class NativeContext(ctypes.Structure):
    """``struct ibv_context``: a device and its 33 functions, of which two matter here."""

    _fields_ = (("device", ctypes.c_void_p), ("functions", ctypes.c_void_p * 33))


class NativeQueue(ctypes.Structure):
    """``struct ibv_cq``, its beginning."""

    _fields_ = (("context", ctypes.c_void_p), ("rest", ctypes.c_uint64 * 4))


class NativeCompletion(ctypes.Structure):
    """``struct ibv_wc``."""

    _fields_ = (("wr_id", ctypes.c_uint64), ("status", ctypes.c_int),
                ("before", ctypes.c_uint32 * 4), ("qp_num", ctypes.c_uint32),
                ("after", ctypes.c_uint32 * 4))  # fmt: skip


class PyverbsRDMAError(Exception):
    """What pyverbs raises."""


class Network:
    """All that was made, and how completions come.

    Parameters
    ----------
    seed : of the order of completions
    late : share of polls that find nothing
    failing : share of ops that fail
    names : devices
    """

    def __init__(self, seed=0, late=0.3, failing=0.0, names=("rxe1", "rxe2")):
        self.random, self.late, self.failing, self.names = random.Random(seed), late, failing, names
        self.posted = self.completed = self.doorbells = self.starved = self.overflowed = 0
        self.most = {}
        self.attributes, self.handles, self.requests, self.shared = [], [], [], []
        self.pairs = {}
        self.limits = dict(LIMITS)
        self.listeners, self.taken, self.refused = {}, set(), ""  # of rdma_cm
        self.native = NativeContext()
        self.queues = {}
        self.calls = POST(self.post_native), POLL(self.poll_native)
        for place, call in zip((25, 11), self.calls, strict=True):
            self.native.functions[place] = ctypes.cast(call, ctypes.c_void_p)

    def post_native(self, pair, batch, bad):
        """``post_send`` as a device's library has it: a chain of ``struct ibv_send_wr``."""
        from foretrace.hil.drivers.rdma.rdma_loop import ScatterGatherEntry, WorkRequest

        posted, at = next(p for p in self.pairs.values() if ctypes.addressof(p) == pair), batch
        self.doorbells += 1
        while at:
            work = WorkRequest.from_address(at)
            piece = ScatterGatherEntry.from_address(work.elements)
            given = SimpleNamespace(given=(piece.addr, piece.length, piece.lkey))
            named = {"wr_id": work.lane, "opcode": work.operation, "send_flags": work.flags,
                     "sg": [given]}  # fmt: skip
            try:
                posted.post_one(SimpleNamespace(named=named, rdma=(work.rkey, work.remote)))
            except PyverbsRDMAError:
                return ENOMEM
            at = work.next
        return 0

    def poll_native(self, queue, most, found):
        """``poll_cq`` as a device's library has it: into an array of ``struct ibv_wc``."""
        taken = self.queues[queue].poll(most)[1]
        for place, done in enumerate(taken):
            at = found + place * ctypes.sizeof(NativeCompletion)
            NativeCompletion.from_address(at).wr_id = done.wr_id
            NativeCompletion.from_address(at).status = done.status
        return len(taken)

    def module(self):
        """The modules of pyverbs, by name."""
        network = self

        class Thing:
            def __init__(self, *given, **named):
                self.given, self.named = given, named

            def close(self):
                self.closed = True

        class Context(Thing):
            def query_device(self):
                return SimpleNamespace(**network.limits)

            def query_port(self, number):
                return SimpleNamespace(active_mtu=3)

        class Memory(Thing):
            buf, rkey, lkey = 4096, 7, 8

        class Channel(Thing):
            def get_cq_event(self, queue):
                pass

        class Queue(Thing):
            def __init__(self, context, cqe, channel=None):
                super().__init__()
                self.cqe, self.waiting = cqe, []
                self.native = NativeQueue(ctypes.addressof(network.native))
                network.queues[ctypes.addressof(self.native)] = self

            def poll(self, most):
                if network.random.random() < network.late:
                    return 0, []
                count = network.random.randint(0, min(most, len(self.waiting)))
                network.random.shuffle(self.waiting)
                taken, self.waiting = self.waiting[:count], self.waiting[count:]
                return len(taken), [pair.complete(work) for pair, work in taken]

            def put(self, pair, work):
                network.overflowed += len(self.waiting) >= self.cqe
                self.waiting.append((pair, work))

            def req_notify(self):
                pass

            def ack_events(self, count):
                pass

        class Receives(Thing):
            """Receives that wait for messages: of one queue pair, or shared."""

            def __init__(self, domain, init):
                super().__init__()
                self.most, self.waiting = init.given[0].named["max_wr"], []
                network.shared.append(self)

            def post_recv(self, work):
                if len(self.waiting) >= self.most:
                    raise PyverbsRDMAError(f"Failed to post recv: Errno {ENOMEM}")
                self.waiting.append(work.named["wr_id"])

        class Pair(ctypes.Structure):
            """A queue pair, which begins as ``struct ibv_qp`` does."""

            made = 0
            _fields_ = (("context", ctypes.c_void_p), ("_", ctypes.c_void_p * 2),
                        ("send_cq", ctypes.c_void_p), ("__", ctypes.c_void_p * 2),
                        ("handle", ctypes.c_uint32), ("qp_num", ctypes.c_uint32))  # fmt: skip

            def __init__(self, domain, init):
                Pair.made += 1
                self.queue, self.peer = init.named["scq"], 0
                native = ctypes.addressof(self.queue.native)
                super().__init__(ctypes.addressof(network.native), send_cq=native)
                self.qp_num, self.broken, self.outstanding = Pair.made, False, 0
                self.depth = init.named["cap"].named["max_send_wr"]
                self.most = init.named["cap"].named["max_recv_wr"]
                self.receives = init.named.get("srq")
                self.waiting = []
                network.pairs[self.qp_num] = self

            def close(self):
                network.pairs.pop(self.qp_num, None)

            def to_rts(self, attributes):
                network.attributes.append(attributes)
                self.peer = getattr(attributes, "dest_qp_num", 0)

            to_init = to_rtr = to_rts

            def post_send(self, work):
                network.doorbells += 1
                while work is not None:
                    self.post_one(work)
                    work = work.named.get("next_wr")

            def post_one(self, work):
                if self.outstanding >= self.depth:
                    raise PyverbsRDMAError(f"Failed to post send: Errno {ENOMEM}")
                self.outstanding += 1
                network.posted += 1
                network.requests.append(work)
                network.most[self.qp_num] = max(network.most.get(self.qp_num, 0), self.outstanding)
                self.queue.put(self, (work.named["wr_id"], work.named["opcode"]))

            def post_recv(self, work):
                if len(self.waiting) >= self.most:
                    raise PyverbsRDMAError(f"Failed to post recv: Errno {ENOMEM}")
                self.waiting.append(work.named["wr_id"])

            def complete(self, work):
                name, opcode = work
                if opcode is None:  # a receive, which the sender's completion put here
                    return SimpleNamespace(wr_id=name, status=0, qp_num=self.qp_num)
                self.outstanding -= 1
                network.completed += 1
                status = FLUSHED if self.broken else 0
                if not self.broken and network.random.random() < network.failing:
                    self.broken, status = True, BROKEN
                if opcode == SEND and not status:
                    network.pairs[self.peer].receive()
                return SimpleNamespace(wr_id=name, status=status, qp_num=self.qp_num)

            def receive(self):
                waiting = self.receives.waiting if self.receives else self.waiting
                if waiting:
                    self.queue.put(self, (waiting.pop(0), None))
                else:
                    network.starved += 1

        class Handle(Thing):
            def __init__(self, domain, attr):
                super().__init__(domain, attr=attr)
                network.handles.append(self)

        class Work(Thing):
            def set_wr_rdma(self, rkey, addr):
                self.rdma = rkey, addr

            def set_wr_ud(self, handle, number, key):
                self.ud = number, key

        class Attributes(SimpleNamespace):
            pass

        class Connection(Thing):
            """An identifier of rdma_cm; what it says comes by the events of its channel."""

            def __init__(self, creator, listen_id=None):
                super().__init__()
                self.channel = creator if listen_id is None else listen_id.channel
                self.request = getattr(creator, "request", None)

            def bind_addr(self, info):
                self.at = info.named["src"], info.named["src_service"]
                if self.at in network.taken:
                    raise PyverbsRDMAError("Failed to bind: Address already in use")

            def listen(self, most):
                network.listeners[self.at] = self

            def resolve_addr(self, info):
                self.to = info.named["dst"], info.named["dst_service"]
                self.channel.events.append(("ADDR_RESOLVED", None))

            def resolve_route(self):
                self.channel.events.append(("ROUTE_RESOLVED", None))

            def connect(self, how):
                listener = network.listeners[self.to]
                listener.channel.events.append(("CONNECT_REQUEST", (self, how)))

            def accept(self, how):
                asks, asked = self.request
                numbers = asked.named["qp_num"], how.named["qp_num"]
                for own, other in (numbers, numbers[::-1]):
                    network.pairs[own].peer = other
                for channel in (asks.channel, self.channel):
                    channel.events.append((network.refused or "ESTABLISHED", None))

        class Channelled(Thing):
            def __init__(self):
                super().__init__()
                self.events = []

        class Event(Thing):
            def __init__(self, channel):
                super().__init__()
                self.kind, self.request = channel.events.pop(0)

            def event_str(self):
                return f"RDMA_CM_EVENT_{self.kind}"

            def ack_cm_event(self):
                pass

        classes = {
            "cmid": {"CMID": Connection, "CMEventChannel": Channelled, "CMEvent": Event,
                     "AddrInfo": Thing, "ConnParam": Thing},
            "librdmacm_enums": {"RAI_PASSIVE": 1},
            "pyverbs_error": {"PyverbsError": PyverbsRDMAError},
            "enums": ENUMS,
            "addr": {"AH": Handle, "GID": Thing, "AHAttr": Thing, "GlobalRoute": Thing},
            "cq": {"CQ": Queue, "CompChannel": Channel},
            "device": {"Context": Context, "get_device_list": lambda: [
                SimpleNamespace(name=n.encode()) for n in network.names]},
            "mr": {"MR": Memory}, "pd": {"PD": Thing},
            "qp": {"QP": Pair, "QPAttr": Attributes, "QPCap": Thing, "QPInitAttr": Thing},
            "srq": {"SRQ": Receives, "SrqAttr": Thing, "SrqInitAttr": Thing},
            "wr": {"SGE": Thing, "RecvWR": Thing, "SendWR": Work},
        }  # fmt: skip
        modules = {"pyverbs": ModuleType("pyverbs")}
        for name, content in classes.items():
            part = modules[f"pyverbs.{name}"] = ModuleType(f"pyverbs.{name}")
            vars(part).update(content)
            setattr(modules["pyverbs"], name, part)
        return modules


def install(monkeypatch, network):
    """Put the stand-in in pyverbs' place, until the test ends."""
    for name, module in network.module().items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delitem(sys.modules, "foretrace.hil.drivers.rdma.rdma_end", raising=False)
    return network
