"""A stand-in of pyverbs: devices that complete in any order, late, and with errors.

It holds what is posted to each queue pair and refuses more than the queue pair was made for, as
libibverbs does (``ENOMEM``).  A failed op puts its queue pair into the error state, in which all
that is outstanding fails too, as on every card.  It shows what is asked of a card, not its times.
"""

import random
import sys
from types import ModuleType, SimpleNamespace

ENOMEM = 12
LIMITS = {"max_qp_wr": 4096, "max_qp": 1000, "max_cqe": 100_000,
          "max_qp_rd_atom": 16, "max_qp_init_rd_atom": 16}  # fmt: skip
ENUMS = {
    "IBV_ACCESS_LOCAL_WRITE": 1, "IBV_ACCESS_REMOTE_WRITE": 2, "IBV_ACCESS_REMOTE_READ": 4,
    "IBV_QPT_RC": 2, "IBV_QPT_UC": 3, "IBV_QPT_UD": 4,
    "IBV_WR_RDMA_WRITE": 0, "IBV_WR_SEND": 2, "IBV_WR_RDMA_READ": 4,
    "IBV_WC_SUCCESS": 0, "IBV_SEND_SIGNALED": 2, "IBV_SEND_INLINE": 8,
}  # fmt: skip
BROKEN, FLUSHED = 12, 5  # IBV_WC_RETRY_EXC_ERR, IBV_WC_WR_FLUSH_ERR


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
        self.posted = self.completed = 0
        self.most = {}
        self.attributes, self.handles, self.requests = [], [], []
        self.limits = dict(LIMITS)

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

            def poll(self, most):
                if network.random.random() < network.late:
                    return 0, []
                count = network.random.randint(0, min(most, len(self.waiting)))
                network.random.shuffle(self.waiting)
                taken, self.waiting = self.waiting[:count], self.waiting[count:]
                network.completed += len(taken)
                return len(taken), [pair.complete(work) for pair, work in taken]

            def req_notify(self):
                pass

            def ack_events(self, count):
                pass

        class Pair(Thing):
            made = 0

            def __init__(self, domain, init):
                super().__init__()
                Pair.made += 1
                self.qp_num, self.broken, self.outstanding = Pair.made, False, 0
                self.depth = init.named["cap"].named["max_send_wr"]
                self.queue = init.named["scq"]

            def to_rts(self, attributes):
                network.attributes.append(attributes)

            to_init = to_rtr = to_rts

            def post_send(self, work):
                if self.outstanding >= self.depth:
                    raise PyverbsRDMAError(f"Failed to post send: Errno {ENOMEM}")
                self.outstanding += 1
                network.posted += 1
                network.requests.append(work)
                network.most[self.qp_num] = max(network.most.get(self.qp_num, 0), self.outstanding)
                self.queue.waiting.append((self, work.named["wr_id"]))

            def post_recv(self, work):
                pass

            def complete(self, work):
                self.outstanding -= 1
                status = FLUSHED if self.broken else 0
                if not self.broken and network.random.random() < network.failing:
                    self.broken, status = True, BROKEN
                return SimpleNamespace(wr_id=work, status=status)

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

        classes = {
            "enums": ENUMS,
            "addr": {"AH": Handle, "GID": Thing, "AHAttr": Thing, "GlobalRoute": Thing},
            "cq": {"CQ": Queue, "CompChannel": Channel},
            "device": {"Context": Context, "get_device_list": lambda: [
                SimpleNamespace(name=n.encode()) for n in network.names]},
            "mr": {"MR": Memory}, "pd": {"PD": Thing},
            "qp": {"QP": Pair, "QPAttr": Attributes, "QPCap": Thing, "QPInitAttr": Thing},
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
    monkeypatch.delitem(sys.modules, "foretrace.hil.drivers.rdma_end", raising=False)
    return network
