"""Timed RDMA exchanges between two endpoints: one op, a round trip, a stream of ops."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ...sim.errors import DriverFault

if TYPE_CHECKING:
    from .rdma_end import RdmaEndpoint

Ends = tuple["RdmaEndpoint", "RdmaEndpoint"]
READINGS = 101  # of what our own code costs


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
    """Nanoseconds of ``count`` messages, ``depth`` outstanding on each queue pair.

    A message is posted to the queue pair that has completed one, whichever that is, so that none
    ever has more than ``depth``.  After a failed one nothing is posted, and all that is outstanding
    is waited for.

    Raises
    ------
    DriverFault
        ``broken``: ops failed; how many of those that were posted.
    """
    one, _ = pair
    if name == "rdma-send":
        raise DriverFault("unsupported", "a rate of rdma-send; take rdma-write or rdma-read")
    from .rdma_end import refuse_failed

    lanes = len(one.qps)
    posted = min(count, depth * lanes)
    done, failed = 0, []
    since = time.perf_counter_ns()
    for k in range(posted):
        one.post(name, size, k % lanes)
    while done < posted:
        for completion in one.done.take(posted - done):
            done += 1
            if not completion.good:
                failed.append(completion)
            elif posted < count and not failed:
                one.post(name, size, completion.work)
                posted += 1
    elapsed = time.perf_counter_ns() - since
    refuse_failed(failed, posted)
    return elapsed


def own_cost(pair: Ends) -> float:
    """Nanoseconds that our code adds to a polled op, at least: one reading, one empty poll."""
    one, _ = pair
    costs = []
    for _ in range(READINGS):
        since = time.perf_counter_ns()
        one.done.poll(1)
        costs.append(time.perf_counter_ns() - since)
    return float(sorted(costs)[READINGS // 2])
