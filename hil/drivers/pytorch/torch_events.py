"""GPU timing with torch: a pair of CUDA events around each repeat, queued ahead of the device.

A host needs longer to launch a small kernel than the GPU to run it. Events that the GPU reaches as
soon as they are recorded would then time the host. So a sleep kernel keeps the GPU busy until all
repeats are queued.

A GPU takes some microseconds from one event to the next even for an empty kernel, so a short warm
op is called several times between two events. On an H100, a kernel that takes 1.0 us in a graph
takes 4.3 us alone between two events.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..linux.timer import Call

LEAST, MOST, LONGER = 1 << 18, 1 << 28, 8  # cycles: about 0.15 ms to 0.15 s; each try that longer
EMPTY = 200  # pairs around nothing
LONG, MOST_CALLS = 100_000, 320  # ns between two events; calls of a batch, which its queue holds


class EventTimer:
    """Timer that uses pairs of CUDA events on the current stream of one device.

    Parameters
    ----------
    torch : the torch module
    device : device to time; it must be the current one
    """

    def __init__(self, torch: Any, device: Any):
        self.cuda, self.device = torch.cuda, device
        self.holds: dict[object, int] = {}
        self.inner: dict[object, int] = {}
        self.pair = float(np.median(self._time_ahead(lambda: None, EMPTY, None, "", 1)[0]))
        """ns of a pair around nothing: stated, not taken off, since kernels overlap some of it."""

    def time_repeats(
        self, call: Call, n: int, restore: Call | None = None, key: object = ""
    ) -> tuple[NDArray[np.float64], dict[str, float]]:
        """Time of each repeat in ns, shape (n,), and facts of the timing.

        Fact ``inner`` is the number of calls between two events, if it is not 1. Fact ``ahead`` is
        0 if the host queued too slowly; the times then include host time. This happens if an op
        waits for the device, or launches more kernels than the device's queue holds.

        Parameters
        ----------
        call : launches the op
        n : number of repeats
        restore : restores the context, outside the timed part; None for a warm op
        key : identifies the op; the length of its sleep kernel is remembered by this key
        """
        inner = 1 if restore is not None else self._calls_between_events(call, n, key)
        ns, ahead = self._time_ahead(call, n, restore, key, inner)
        facts: dict[str, float] = {} if inner == 1 else {"inner": inner}
        return ns, facts if ahead else {**facts, "ahead": 0}

    def _calls_between_events(self, call: Call, n: int, key: object) -> int:
        """Number of calls of a warm op between two events: 1 for a long one.

        It is as small as needed for the host to queue all of them.
        """
        if (key, n) not in self.inner:
            ns, ahead = self._time_ahead(call, n, None, key, 1)
            once = max(float(np.median(ns)), 1.0)
            inner = max(1, min(round(LONG / once), MOST_CALLS // n)) if ahead else 1
            while inner > 1 and not self._time_ahead(call, n, None, key, inner)[1]:
                inner //= 2
            self.inner[key, n] = inner
        return self.inner[key, n]

    def _time_ahead(
        self, call: Call, n: int, restore: Call | None, key: object, inner: int
    ) -> tuple[NDArray[np.float64], bool]:
        """Time of each repeat in ns, and True if all were queued before the GPU began.

        The GPU sleeps longer until they are.
        """
        place = (key, n, inner)
        hold = self.holds.get(place, LEAST)
        ns, ahead = self._time_batch(call, n, restore, hold, inner)
        while not ahead and 0 < hold < MOST:
            hold *= LONGER
            ns, ahead = self._time_batch(call, n, restore, hold, inner)
        self.holds[place] = hold if ahead else 0
        return ns, ahead

    def time_concurrent(
        self, calls: Sequence[Call], n: int
    ) -> tuple[NDArray[np.float64], dict[str, float]]:
        """Time in ns from the common start to the end of each of k ops, shape (n, k).

        Each op runs on its own stream. The facts are those of ``time_repeats``.
        """
        streams = [self.cuda.Stream(self.device) for _ in calls]
        for call in calls:
            call()
        hold = LEAST
        while not self._time_round(calls, streams, hold)[1] and hold < MOST:
            hold *= LONGER
        rounds = [self._time_round(calls, streams, hold) for _ in range(n)]
        every = all(a for _, a in rounds)
        return np.array([ns for ns, _ in rounds]), {} if every else {"ahead": 0}

    def _time_round(
        self, calls: Sequence[Call], streams: Sequence[Any], hold: int
    ) -> tuple[list[float], bool]:
        """Time of each op in ns, and True if all were queued before the device started.

        ``hold`` is the length of the sleep kernel, in GPU cycles.
        """
        begin = self.cuda.Event(enable_timing=True)
        ends = [self.cuda.Event(enable_timing=True) for _ in calls]
        self.cuda.synchronize(self.device)
        self.cuda._sleep(hold)
        begin.record()
        for call, stream, end in zip(calls, streams, ends, strict=True):
            stream.wait_event(begin)
            with self.cuda.stream(stream):
                call()
                end.record()
        ahead = not begin.query()
        self.cuda.synchronize(self.device)
        return [begin.elapsed_time(end) * 1e6 for end in ends], ahead

    def _time_batch(
        self, call: Call, n: int, restore: Call | None, hold: int, inner: int
    ) -> tuple[NDArray[np.float64], bool]:
        """Time of each repeat in ns, shape (n,), and True if all were queued before the GPU began.

        ``hold`` is the length of the sleep kernel, in GPU cycles; 0 for none. ``inner`` is the
        number of calls in a repeat.
        """
        if restore is None:
            call()  # so that the first repeat is warm too
        pairs = [[self.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(n)]
        self.cuda.synchronize(self.device)
        if hold:
            self.cuda._sleep(hold)  # the only kernel of torch with a settable duration
        for begin, end in pairs:
            if restore is not None:
                restore()
            begin.record()
            for _ in range(inner):
                call()
            end.record()
        ahead = not pairs[0][0].query()
        self.cuda.synchronize(self.device)
        return np.array([b.elapsed_time(e) * 1e6 / inner for b, e in pairs]), ahead
