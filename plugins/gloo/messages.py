"""gloo's all-reduce over TCP, simulated message by message on hosts behind rate-limited ports.

A segment is sent only after its receiver has notified the sender that it is ready. With two ranks
the notification travels with the data. With three or more, it leaves through a port that is busy
with data for another neighbour, and waits behind up to two segments. So a rank that arrives late
by more than the delay of a port keeps one link of the ring idle, and never catches up.

The model follows gloo's sources at cc44198 (``allreduce.cc``, ``transport/tcp/pair.cc``), torch's
process group with its two threads, and Linux's TCP and netem.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Any

from ...sim.units import ByteRate, Bytes, Seconds

SEGMENT = 1 << 20  # B, at most; and at least two to a rank's part
FLIGHT = 2  # outstanding segment requests of a rank
PREAMBLE = 48  # B before a segment; alone it is a notification
PAYLOAD, AROUND = 1448, 66  # B of a full frame, and of its headers with time stamps
BURST = 45 * PAYLOAD  # B that TCP hands over at once: full frames below 64 KiB
THREADS = 2  # of a rank, which do its collectives

Hook = Callable[..., None]


@dataclass
class Lan:
    """Event simulation of hosts on one bridge, each behind a port that sends in arrival order.

    Parameters
    ----------
    ranks : number of ranks, one per host
    rate : rate of a port in B/s
    delay : delay of a port before it sends, in s
    message : processor time to handle one message, in s
    processors : number of processors that the ranks share; 0 for one each

    Examples
    --------
    >>> lan = Lan(2, rate=1e9, delay=1e-6)
    >>> lan.send(0, 934, print, "here"); lan.run(); round(lan.now * 1e6, 3)
    here
    2.0
    """

    ranks: int
    rate: ByteRate
    delay: Seconds
    message: Seconds = 0.0
    processors: int = 1
    now: Seconds = 0.0
    _events: list[tuple[float, int, Hook, tuple[Any, ...]]] = field(default_factory=list)
    _count: int = 0

    def __post_init__(self) -> None:
        self._sent = [0.0] * self.ranks
        self._free = [0.0] * (self.processors or self.ranks)

    def schedule(self, when: Seconds, callback: Hook, *args: Any) -> None:
        """Schedule a callback; callbacks of the same time run in the order they were scheduled."""
        self._count += 1
        heapq.heappush(self._events, (when, self._count, callback, args))

    def run(self) -> None:
        """Run events until none is left."""
        while self._events:
            self.now, _, callback, args = heapq.heappop(self._events)
            callback(*args)

    def occupy_processor(self, rank: int, callback: Hook, *args: Any) -> None:
        """Occupy the rank's processor for the time of one message, then call ``callback``."""
        mine = rank % len(self._free)
        self._free[mine] = max(self.now, self._free[mine]) + self.message
        self.schedule(self._free[mine], callback, *args)

    def send(self, to: int, size: Bytes, callback: Hook, *args: Any) -> None:
        """Send one burst of frames through the port of the receiver, then call ``callback``."""
        wire = size + AROUND * max(1, ceil(size / PAYLOAD))
        self._sent[to] = max(self._sent[to], self.now + self.delay) + wire / self.rate
        self.schedule(self._sent[to], callback, *args)

    def stream(self, source: int, to: int, size: Bytes, callback: Hook, *args: Any) -> None:
        """Send data in acknowledged bursts; ``callback`` is called when the last one arrives."""
        for left in range(int(size), 0, -BURST):
            last = left <= BURST
            self.send(to, min(left, BURST), self._deliver_message, source, to, last, callback, args)

    def _deliver_message(
        self, source: int, to: int, last: bool, callback: Hook, args: tuple[Any, ...]
    ) -> None:
        self.send(source, 0, _ignore_acknowledgement)
        if last:
            self.occupy_processor(to, callback, *args)


def _ignore_acknowledgement() -> None:
    """Do nothing: an acknowledgement only occupies its port."""


class RingAllReduce:
    """One ring all-reduce: every rank receives from the next rank and sends to the previous one.

    Parameters
    ----------
    lan : network that it crosses
    size : number of bytes to reduce
    ended : callback that is called with each rank that has received its complete result
    """

    def __init__(self, lan: Lan, size: Bytes, ended: Hook):
        self.lan, self.ended, n = lan, ended, lan.ranks
        parts = ceil(max(ceil(size / SEGMENT), FLIGHT * n) / n)
        self.lap = parts * (n - 1)  # segments that a rank receives per lap
        self.segment = ceil(size / (parts * n))
        self.posted, self.got, self.sent = [0] * n, [0] * n, [0] * n
        self.ready = [0] * n  # notifications from the previous rank that it is ready for a segment

    def _segments_done_before_request(self, k: int) -> int:
        """Number of segments that must be received and sent before segment ``k`` is requested.

        Between the two laps of the ring, these are all segments of the first lap.
        """
        lap, at = divmod(k, self.lap)
        return k - FLIGHT + 1 if at >= FLIGHT else lap * self.lap

    def request_segments(self, rank: int) -> None:
        """Request as many segments as the segments already received and sent allow."""
        while min(self.got[rank], self.sent[rank]) >= self._segments_done_before_request(
            self.posted[rank]
        ):
            if self.posted[rank] == 2 * self.lap:
                self.ended(rank)
                return
            self.posted[rank] += 1
            self._send_preamble(rank, +1, self._on_request)
            self._send_preamble(rank, -1, None)
            self._send_next_segment(rank)

    def _send_preamble(self, rank: int, direction: int, callback: Hook | None) -> None:
        """Send a preamble to a neighbour (``direction`` +1 or -1); ``callback`` handles it."""
        to = (rank + direction) % self.lan.ranks
        if callback is None:
            self.lan.send(to, PREAMBLE, _ignore_acknowledgement)
        else:
            self.lan.send(to, PREAMBLE, self.lan.occupy_processor, to, callback, to)

    def _on_request(self, rank: int) -> None:
        self.ready[rank] += 1
        if self._send_next_segment(rank):
            self.request_segments(rank)

    def _send_next_segment(self, rank: int) -> bool:
        """Send the next segment if it is available and was requested; True if it was sent."""
        if not (self.ready[rank] and self.sent[rank] < self.posted[rank]):
            return False
        self.ready[rank] -= 1
        self.sent[rank] += 1
        to = (rank - 1) % self.lan.ranks
        self.lan.stream(rank, to, PREAMBLE + self.segment, self._on_segment, to)
        return True

    def _on_segment(self, rank: int) -> None:
        self.got[rank] += 1
        self.request_segments(rank)


class AllReduceCalls:
    """Sequence of all-reduces called by every rank and executed by its communication threads.

    Parameters
    ----------
    lan : network that they cross
    size : size of each all-reduce in B
    call_times : time in s at which each rank calls each all-reduce, shape (ranks, calls)
    """

    def __init__(self, lan: Lan, size: Bytes, call_times: Sequence[Sequence[Seconds]]):
        self.lan = lan
        self.ends = [[0.0] * len(row) for row in call_times]
        self.waiting: list[deque[int]] = [deque() for _ in call_times]
        self.idle = [THREADS] * len(call_times)
        self.rings = [
            RingAllReduce(lan, size, self._end_hook(k)) for k in range(len(call_times[0]))
        ]
        order = sorted(
            (t, rank, k) for rank, row in enumerate(call_times) for k, t in enumerate(row)
        )
        for t, rank, k in order:
            lan.schedule(t, self._on_call, rank, k)

    def _end_hook(self, k: int) -> Hook:
        return lambda rank: self._on_end(rank, k)

    def _on_call(self, rank: int, k: int) -> None:
        self.waiting[rank].append(k)
        self._take_next_call(rank)

    def _take_next_call(self, rank: int) -> None:
        if self.waiting[rank] and self.idle[rank]:
            self.idle[rank] -= 1
            self.lan.occupy_processor(
                rank, self.rings[self.waiting[rank].popleft()].request_segments, rank
            )

    def _on_end(self, rank: int, k: int) -> None:
        self.ends[rank][k] = self.lan.now
        self.idle[rank] += 1
        self._take_next_call(rank)


def all_reduce_end_times(
    lan: Lan, size: Bytes, call_times: Sequence[Sequence[Seconds]]
) -> list[list[Seconds]]:
    """Time in s at which each rank has the result of each all-reduce, shape (calls, ranks).

    Parameters
    ----------
    lan : network; it must not have been used before
    size : size of each all-reduce in B
    call_times : time in s at which each rank calls each all-reduce, shape (ranks, calls)

    Examples
    --------
    Times are relative to the minimum that the port rate allows. If one rank calls late, two ranks
    lose no time after that call, but four ranks do.

    >>> def took(n: int, late: float) -> float:
    ...     call_times = [[0.0] for _ in range(n - 1)] + [[late]]
    ...     lan = Lan(n, rate=1.25e9, delay=5e-6, processors=0)
    ...     ends = all_reduce_end_times(lan, 1 << 20, call_times)
    ...     return max(max(row) for row in ends) - late
    >>> bound = lambda n: 2 * (n - 1) / n * (1 << 20) / 1.25e9
    >>> [round(took(2, late) / bound(2), 2) for late in (0, 40e-6)]
    [1.07, 1.07]
    >>> [round(took(4, late) / bound(4), 2) for late in (0, 40e-6)]
    [1.08, 1.34]

    References
    ----------
    Patarasu, Yuan 2009, doi:10.1016/j.jpdc.2008.09.002 (the ring).
    """
    calls = AllReduceCalls(lan, size, call_times)
    lan.run()
    return calls.ends
