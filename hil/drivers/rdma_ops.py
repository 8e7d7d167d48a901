"""What is timed between two ends of RDMA: one op, there and back, a stream of ops."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ...sim.errors import DriverFault

if TYPE_CHECKING:
    from .rdma_end import End

Ends = tuple["End", "End"]


def completed(pair: Ends, name: str, size: int) -> int:
    """One op: ns from posting to completion; memory for a message is given before."""
    one, other = pair
    if name == "rdma-send":
        other.expect(size)
    since = time.perf_counter_ns()
    one.post(name, size)
    one.done.wait(1)
    taken = time.perf_counter_ns() - since
    if name == "rdma-send":
        other.done.wait(1)
    return taken


def there_and_back(pair: Ends, size: int) -> int:
    """A message, and one back when it came: ns in all; each completes twice, sent and received."""
    one, other = pair
    one.expect(size)
    other.expect(size)
    since = time.perf_counter_ns()
    one.post("rdma-send", size)
    other.done.wait(1)
    other.post("rdma-send", size)
    one.done.wait(2)
    taken = time.perf_counter_ns() - since
    other.done.wait(1)
    return taken


def stream(pair: Ends, name: str, size: int, depth: int, count: int) -> int:
    """``count`` messages, ``depth`` under way on each queue pair: ns in all."""
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
