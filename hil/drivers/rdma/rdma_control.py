"""Timing of RDMA control-path calls: each call on its own, with setup and cleanup untimed."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..gpu.gpu_memory import exported_gpu_memory, register_gpu_memory

if TYPE_CHECKING:
    from .rdma_end import RdmaEndpoint

CALLS = ("open", "alloc-pd", "create-cq", "reg-mr", "reg-gpu", "create-qp",
         "modify-init", "modify-rtr", "modify-rts")  # fmt: skip
OPS = tuple(f"host:verbs-{call}" for call in CALLS)
DEPTH, SMALL = 64, 64


def call_times(name: str, device: str, peer: str, size: int, n: int) -> NDArray[np.float64]:
    """Time of each of n executions of a control-path call in ns, shape (n,).

    Parameters
    ----------
    name : name of the call, as in ``OPS`` without the kind
    size : bytes to register, for ``reg-mr``, and for ``reg-gpu``, which registers GPU memory
    """
    call = name.removeprefix("verbs-")
    measure = _transition_time if call.startswith("modify") else _creation_time
    return np.array([measure(call, device, peer, size) for _ in range(n)], np.float64)


def _time_call(call: Callable[[], Any]) -> tuple[int, Any]:
    since = time.perf_counter_ns()
    result = call()
    return time.perf_counter_ns() - since, result


def _creation_time(call: str, device: str, peer: str, size: int) -> int:
    """Time to create one object in ns; objects that it depends on are created before, untimed."""
    from pyverbs.cq import CQ
    from pyverbs.mr import MR
    from pyverbs.pd import PD
    from pyverbs.qp import QP, QPCap, QPInitAttr

    from .rdma_end import RIGHTS, TRANSPORTS, open_device

    with ExitStack() as stack:

        def kept(thing: Any) -> Any:
            stack.callback(thing.close)
            return thing

        if call == "open":
            elapsed, thing = _time_call(lambda: open_device(device))
            kept(thing)
            return elapsed
        context = kept(open_device(device))
        if call in ("alloc-pd", "create-cq"):
            elapsed, thing = _time_call(
                lambda: PD(context) if call == "alloc-pd" else CQ(context, DEPTH)
            )
            kept(thing)
            return elapsed
        domain = kept(PD(context))
        if call == "reg-mr":
            elapsed, thing = _time_call(lambda: MR(domain, size, RIGHTS))
            kept(thing)
            return elapsed
        if call == "reg-gpu":
            file, whole = stack.enter_context(exported_gpu_memory(size))
            elapsed, thing = _time_call(lambda: register_gpu_memory(domain, file, whole, RIGHTS))
            kept(thing)
            return elapsed
        queue = kept(CQ(context, DEPTH))
        cap = QPCap(max_send_wr=DEPTH, max_recv_wr=DEPTH, max_send_sge=1, max_recv_sge=1)
        init = QPInitAttr(qp_type=TRANSPORTS["rc"], scq=queue, rcq=queue, cap=cap)
        elapsed, thing = _time_call(lambda: QP(domain, init))
        kept(thing)
        return elapsed


def _transition_time(call: str, device: str, peer: str, size: int) -> int:
    """Time of one state transition of a queue pair (init, rtr, rts), in ns."""
    from .rdma_end import EndpointSettings, endpoints

    ends = endpoints((device, peer), EndpointSettings("rc", SMALL))
    try:
        return _transition_times(*ends)[call]
    finally:
        for end in ends:
            end.close()


def _transition_times(one: RdmaEndpoint, other: RdmaEndpoint) -> dict[str, int]:
    info = other.connection_info()
    attr = one.attributes(one.address_vector(info), info["qpns"][0], info)
    qp = one.qps[0]
    return {
        "modify-init": _time_call(lambda: qp.to_init(attr))[0],
        "modify-rtr": _time_call(lambda: qp.to_rtr(attr))[0],
        "modify-rts": _time_call(lambda: qp.to_rts(attr))[0],
    }
