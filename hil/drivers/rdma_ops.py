"""Timed RDMA exchanges between two endpoints: one op, a round trip, a stream of ops."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ...sim.errors import DriverFault

if TYPE_CHECKING:
    from .rdma_end import RdmaEndpoint

Ends = tuple["RdmaEndpoint", "RdmaEndpoint"]


def time_op(pair: Ends, name: str, size: int) -> int:
    """Nanoseconds from posting one op to its completion; a send's receive is posted before."""
    one, other = pair
    if name == "rdma-send":
        other.post_receive(size)
    since = time.perf_counter_ns()
    one.post(name, size)
    one.done.wait(1)
    elapsed = time.perf_counter_ns() - since
    if name == "rdma-send":
        other.done.wait(1)
    return elapsed


def round_trip(pair: Ends, size: int) -> int:
    """Nanoseconds of a message and its reply, each of ``size`` B, by RDMA send."""
    one, other = pair
    one.post_receive(size)
    other.post_receive(size)
    since = time.perf_counter_ns()
    one.post("rdma-send", size)
    other.done.wait(1)
    other.post("rdma-send", size)
    one.done.wait(2)
    elapsed = time.perf_counter_ns() - since
    other.done.wait(1)
    return elapsed


def stream_messages(pair: Ends, name: str, size: int, depth: int, count: int) -> int:
    """Nanoseconds of ``count`` messages, ``depth`` outstanding on each queue pair."""
    one, _ = pair
    lanes = len(one.qps)
    if name == "rdma-send":
        raise DriverFault("unsupported", "a rate of rdma-send; take rdma-write or rdma-read")
    started = min(count, depth * lanes)
    since = time.perf_counter_ns()
    for k in range(started):
        one.post(name, size, k % lanes)
    for k in range(started, count):
        one.done.wait(1)
        one.post(name, size, k % lanes)
    one.done.wait(started)
    return time.perf_counter_ns() - since
