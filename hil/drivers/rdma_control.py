"""The calls that set RDMA up, each timed on its own: set up before and undone after, untimed."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from .rdma_end import End

CALLS = ("open", "alloc-pd", "create-cq", "reg-mr", "create-qp",
         "modify-init", "modify-rtr", "modify-rts")  # fmt: skip
OPS = tuple(f"host:verbs-{call}" for call in CALLS)
DEPTH, SMALL = 64, 64


def times(name: str, device: str, peer: str, size: int, n: int) -> NDArray[np.float64]:
    """How long each of n calls took, ns.

    Parameters
    ----------
    name : as in ``OPS``, without the kind
    size : B, of ``reg-mr``
    """
    call = name.removeprefix("verbs-")
    how = _moved if call.startswith("modify") else _made
    return np.array([how(call, device, peer, size) for _ in range(n)], np.float64)


def _timed(call: Callable[[], Any]) -> tuple[int, Any]:
    since = time.perf_counter_ns()
    result = call()
    return time.perf_counter_ns() - since, result


def _made(call: str, device: str, peer: str, size: int) -> int:
    """One object, with all that it needs made before and closed after it."""
    from pyverbs.cq import CQ
    from pyverbs.mr import MR
    from pyverbs.pd import PD
    from pyverbs.qp import QP, QPCap, QPInitAttr

    from .rdma_end import RIGHTS, TRANSPORTS, opened

    with ExitStack() as stack:

        def kept(thing: Any) -> Any:
            stack.callback(thing.close)
            return thing

        if call == "open":
            taken, made = _timed(lambda: opened(device))
            kept(made)
            return taken
        context = kept(opened(device))
        if call in ("alloc-pd", "create-cq"):
            taken, made = _timed(lambda: PD(context) if call == "alloc-pd" else CQ(context, DEPTH))
            kept(made)
            return taken
        domain = kept(PD(context))
        if call == "reg-mr":
            taken, made = _timed(lambda: MR(domain, size, RIGHTS))
            kept(made)
            return taken
        queue = kept(CQ(context, DEPTH))
        cap = QPCap(max_send_wr=DEPTH, max_recv_wr=DEPTH, max_send_sge=1, max_recv_sge=1)
        init = QPInitAttr(qp_type=TRANSPORTS["rc"], scq=queue, rcq=queue, cap=cap)
        taken, made = _timed(lambda: QP(domain, init))
        kept(made)
        return taken


def _moved(call: str, device: str, peer: str, size: int) -> int:
    """One step of a queue pair towards sending, the steps before it untimed."""
    from .rdma_end import End

    ends = [End(name, "rc", SMALL, 1, 1, sleep=False) for name in (device, peer)]
    try:
        return _steps(*ends)[call]
    finally:
        for end in ends:
            end.close()


def _steps(one: End, other: End) -> dict[str, int]:
    from pyverbs.addr import GID, AHAttr, GlobalRoute

    from .rdma_end import PORT

    told = other.to_dict()
    route = GlobalRoute(dgid=GID(told["gid"]), sgid_index=one.gidx, hop_limit=64)
    attr = one.attributes(AHAttr(gr=route, is_global=1, port_num=PORT), told["qpns"][0])
    qp = one.qps[0]
    return {
        "modify-init": _timed(lambda: qp.to_init(attr))[0],
        "modify-rtr": _timed(lambda: qp.to_rtr(attr))[0],
        "modify-rts": _timed(lambda: qp.to_rts(attr))[0],
    }
