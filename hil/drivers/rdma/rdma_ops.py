"""Timed RDMA exchanges between two endpoints: one op, a round trip, a stream of messages."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ....sim.errors import DriverFault

if TYPE_CHECKING:
    from .rdma_end import Completion, RdmaEndpoint

Ends = tuple["RdmaEndpoint", "RdmaEndpoint"]
READINGS = 101  # of what our own code costs


def time_op(pair: Ends, name: str, size: int) -> int:
    """Time in ns from posting one op to its completion; the receive of a send is posted before."""
    one, other = pair
    if name == "rdma-send":
        other.post_receive(size)
    if one.settings.compiled:
        elapsed = loop_time(pair, name, size, 1)
    else:
        since = time.perf_counter_ns()
        one.post(name, size)
        one.done.wait(1)
        elapsed = time.perf_counter_ns() - since
    if name == "rdma-send":
        other.done.wait(1)
    return elapsed


def loop_time(pair: Ends, name: str, size: int, count: int) -> int:
    """Time in ns of ``count`` ops, posted and polled in machine code; 0 ops time one empty poll.

    Raises
    ------
    DriverFault
        ``broken``: ops failed, or the device refused a post.
    """
    ns, posted, failed, status, refused = pair[0].loop(name, size).run(count)
    if refused:
        raise DriverFault("broken", f"post send or poll: {os.strerror(refused)} after {posted} ops")
    from .rdma_end import refuse_failed_ops

    refuse_failed_ops(failed, posted, status)
    return ns


def round_trip_time(pair: Ends, size: int) -> int:
    """Time in ns of a message and its reply, each of ``size`` B, by RDMA send."""
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


def message_stream_time(pair: Ends, name: str, size: int, depth: int, count: int) -> int:
    """Time in ns of ``count`` messages, with ``depth`` outstanding on each queue pair.

    A new batch is posted to the queue pair that has just completed one, so that none exceeds
    ``depth``. A send is complete when it was also received. After a failure nothing more is posted,
    and all outstanding messages are waited for.

    Raises
    ------
    DriverFault
        ``broken``: ops failed; with their number and the number of posted ops.
    """
    if pair[0].settings.compiled and name != "rdma-send":
        return loop_time(pair, name, size, count)
    return MessageStream(pair, name, size, depth).run(count)


class MessageStream:
    """Stream of RDMA messages on several lanes (queue pairs), posted by Python."""

    def __init__(self, pair: Ends, name: str, size: int, depth: int):
        self.one, self.other = pair
        self.name, self.size, self.depth = name, size, depth
        lanes = len(self.one.qps)
        self.posted, self.sent, self.received = ([0] * lanes for _ in range(3))
        self.failed: list[Completion] = []
        self.left = 0  # messages that are still to be posted

    def run(self, count: int) -> int:
        """Send ``count`` messages; returns the time in ns."""
        from .rdma_end import refuse_failed

        lanes = range(len(self.posted))
        self.left = count
        since = time.perf_counter_ns()
        for _ in range(self.depth // self.one.settings.batch):
            for lane in lanes:
                self._fill(lane, once=True)
        while self._wait():
            pass
        elapsed = time.perf_counter_ns() - since
        refuse_failed(self.failed, sum(self.posted))
        return elapsed

    def _wait(self) -> bool:
        """Wait for completions, first of sends, then of receives.

        Returns False if nothing is outstanding.
        """
        posted = sum(self.posted)
        if under_way := posted - sum(self.sent):
            self._complete(self.one.done.take(under_way))
        elif not self.failed and (unread := posted - sum(self.received)):
            self._complete_receives(self.other.done.take(unread))
        else:
            return False
        return True

    def _fill(self, lane: int, once: bool = False) -> None:
        """Post as many batches as a lane has room for; at most one if ``once``."""
        batch = self.one.settings.batch
        done = min(self.sent[lane], self.received[lane])
        while self.left and not self.failed and self.posted[lane] - done + batch <= self.depth:
            if self.name == "rdma-send":  # each has its receive before it leaves
                for _ in range(batch):
                    self.other.post_receive(self.size, lane)
            self.one.post(self.name, self.size, lane)
            self.posted[lane] += batch
            self.left -= batch
            if once:
                return

    def _complete(self, completions: Sequence[Completion]) -> None:
        """Count completed sends and receives; post more batches if there is room."""
        for completion in completions:
            lane = self.one.lane_by_number[completion.number]
            self.sent[lane] += 1
            if self.name != "rdma-send":
                self.received[lane] += 1
            self._note(completion)
            self._fill(lane)
        if self.name == "rdma-send":
            self._complete_receives(self.other.done.poll(len(completions)))

    def _complete_receives(self, completions: Sequence[Completion]) -> None:
        """Count completed receives, and post more batches on lanes that have room."""
        for completion in completions:
            lane = self.other.lane_by_number[completion.number]
            self.received[lane] += 1
            self._note(completion)
            self._fill(lane)

    def _note(self, completion: Completion) -> None:
        if not completion.good:
            self.failed.append(completion)


def polling_overhead(pair: Ends, name: str, compiled: bool) -> float:
    """Lower bound of the time that this code adds to a polled op, in ns.

    It is the median time of one clock reading and one empty poll.
    """
    one, _ = pair
    if compiled:
        costs = [loop_time(pair, name, one.settings.size, 0) for _ in range(READINGS)]
        return float(sorted(costs)[READINGS // 2])
    costs = []
    for _ in range(READINGS):
        since = time.perf_counter_ns()
        one.done.poll(1)
        costs.append(time.perf_counter_ns() - since)
    return float(sorted(costs)[READINGS // 2])
