"""GPU timing with torch: a pair of events around each repeat, queued ahead of the device.

A host takes longer to launch a small kernel than the GPU to do it.  Events that the GPU reaches as
soon as they are recorded would then time the host, so the GPU is held until all is queued.

Tested against a stand-in of a GPU (``tests/helpers/devices/cuda_stand_in.py``); not on a real one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..linux.timer import Call

LEAST, MOST, LONGER = 1 << 18, 1 << 28, 8  # cycles: about 0.15 ms to 0.15 s; each try that longer
EMPTY = 200  # pairs around nothing


class EventTimer:
    """Timer that uses pairs of events on the current stream of one device.

    Parameters
    ----------
    torch : the module
    device : the current one
    """

    def __init__(self, torch: Any, device: Any):
        self.cuda, self.device = torch.cuda, device
        self.holds: dict[object, int] = {}
        self.pair = float(np.median(self.time_repeats(lambda: None, EMPTY)[0]))
        """ns of a pair around nothing: stated, not taken off, since kernels overlap some of it."""

    def time_repeats(
        self, call: Call, n: int, restore: Call | None = None, key: object = ""
    ) -> tuple[NDArray[np.float64], dict[str, float]]:
        """(n,) ns of each repeat, and facts: ``ahead`` is 0 where the host queued too slowly.

        Such ops wait for the device or launch more than its queue holds: their times include the
        host's.

        Parameters
        ----------
        call : launches the op
        n : repeats
        restore : brings the context about, outside of what is timed; None for a warm op
        key : of what took how long to queue; a hold that once was enough is taken again
        """
        hold = self.holds.get((key, n), LEAST)
        ns, ahead = self._time_batch(call, n, restore, hold)
        while not ahead and 0 < hold < MOST:
            hold *= LONGER
            ns, ahead = self._time_batch(call, n, restore, hold)
        self.holds[key, n] = hold if ahead else 0
        return ns, {} if ahead else {"ahead": 0}

    def time_concurrent(
        self, calls: Sequence[Call], n: int
    ) -> tuple[NDArray[np.float64], dict[str, float]]:
        """(n, k) ns from the common start until each of k ops is done, each on its own stream.

        Facts as those of ``time_repeats``.
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
        """Times of each op, ns, and whether the device had not begun when the last was queued."""
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
        self, call: Call, n: int, restore: Call | None, hold: int
    ) -> tuple[NDArray[np.float64], bool]:
        """(n,) ns, and whether the device had not begun when the last repeat was queued."""
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
            call()
            end.record()
        ahead = not pairs[0][0].query()
        self.cuda.synchronize(self.device)
        return np.array([b.elapsed_time(e) * 1e6 for b, e in pairs]), ahead
