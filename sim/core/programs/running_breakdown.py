"""Compiled time breakdown of a template while it runs, for a run that has one window.

A *gate* is an op behind whose end all later ops of its rank begin (``program_encoding.py``).  What
is busy before that end is known when it is reached, and is added up there; intervals that go on
behind it are *open*.  A rank has few of them: what would be too many is left to
``time_breakdown.py``, which follows each rank once more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...kernel.jit import Int, jit, jit_without_refcounts
from .layer_boxes import BOX, BOXES, LAYER, NETWORK, WAITING

Array = NDArray[Any]
Arrays = tuple[Array, ...]

IDLE = BOXES - 1
# Columns of a rank: ticks per category except idle; tick summed so far; number of open intervals.
NOW, OPEN, COLUMNS = IDLE, IDLE + 1, IDLE + 2
FIRST, LAST, BUSY, INTERVAL = range(
    4
)  # columns of an open interval: ticks, and the bit of its layer
MOST = 32  # open intervals per rank


@dataclass(frozen=True)
class RunningBreakdown:
    """Boxes of all ranks during a run.

    Parameters
    ----------
    ledger : (ranks, 8) boxes and where each rank is; (0, 8) where nobody asks
    open : (ranks, MOST, 3) intervals that are open
    """

    ledger: NDArray[np.int64]
    open: NDArray[np.int64]

    @classmethod
    def of(cls, ranks: int) -> RunningBreakdown:
        """Breakdown of so many ranks before their first op."""
        return cls(
            np.zeros((ranks, COLUMNS), np.int64), np.zeros((ranks, MOST, INTERVAL), np.int64)
        )

    @property
    def tables(self) -> Arrays:
        """Arrays as kernels take them."""
        return LAYER, BOX, self.ledger, self.open

    def boxes(self, last: int) -> NDArray[np.int64] | None:
        """(7, 2, ranks) ticks in each box, before a step that begins at 0 and in it.

        None where more intervals were open than there is room for.

        Parameters
        ----------
        last : tick at which the step ends
        """
        if (self.ledger[:, OPEN] > MOST).any():
            return None
        _close_intervals(self.ledger, self.open, BOX, last)
        found = np.zeros((BOXES, 2, len(self.ledger)), np.int64)
        found[:IDLE, 1] = self.ledger[:, :IDLE].T
        found[IDLE, 1] = last - found[:IDLE, 1].sum(axis=0)
        return found


@jit_without_refcounts
def note_op(
    breakdown: Arrays, r: Int, column: Int, arrived: Int, start: Int, end: Int, gate: Int
) -> None:
    """Note an op of a rank, or a run of ops of one kind, by its column in a tally.

    A rank waits in the network from the arrival of an op to its start.
    """
    layer_of, box, ledger, intervals = breakdown
    if not len(ledger):
        return
    layer = layer_of[column]
    if gate and ledger[r, OPEN] == 0:
        if layer >= 0:
            ledger[r, box[1 << layer]] += end - start
        if layer == NETWORK:
            ledger[r, box[1 << WAITING]] += start - arrived
        ledger[r, NOW] = end
        return
    if layer >= 0:
        _open_interval(ledger, intervals, r, layer, start, end)
    if layer == NETWORK:
        _open_interval(ledger, intervals, r, WAITING, arrived, start)
    if gate:
        _add_to_boxes(ledger, intervals, box, r, end)


@jit_without_refcounts
def _open_interval(
    ledger: Array, intervals: Array, r: Int, layer: Int, begin: Int, end: Int
) -> None:
    """Add an interval to those of a rank that are open; one that touches another of its layer."""
    n, busy = ledger[r, OPEN], np.int64(1) << layer
    if end <= begin or n > MOST:
        return
    for k in range(n):
        first, last = intervals[r, k, FIRST], intervals[r, k, LAST]
        if intervals[r, k, BUSY] == busy and begin <= last and end >= first:
            intervals[r, k, FIRST], intervals[r, k, LAST] = min(begin, first), max(end, last)
            return
    if n < MOST:
        intervals[r, n, FIRST], intervals[r, n, LAST], intervals[r, n, BUSY] = begin, end, busy
    ledger[r, OPEN] = n + 1


@jit_without_refcounts
def _add_to_boxes(ledger: Array, intervals: Array, box: Array, r: Int, until: Int) -> None:
    """Add up the boxes of a rank to a tick, behind which all begins that is not open."""
    now, n = ledger[r, NOW], ledger[r, OPEN]
    if n > MOST:
        return
    while n > 0 and now < until:
        tick: Int = until
        busy: Int = np.int64(0)
        for k in range(n):
            if intervals[r, k, FIRST] <= now:
                busy |= intervals[r, k, BUSY]
                tick = min(tick, intervals[r, k, LAST])
            else:
                tick = min(tick, intervals[r, k, FIRST])
        if busy:
            ledger[r, box[busy]] += tick - now
        now = tick
        k = 0
        while k < n:
            if intervals[r, k, LAST] > now:
                k += 1
                continue
            n -= 1
            for c in range(INTERVAL):
                intervals[r, k, c] = intervals[r, n, c]
    ledger[r, NOW], ledger[r, OPEN] = until, n


@jit
def _close_intervals(ledger: Array, intervals: Array, box: Array, last: int) -> None:
    for r in range(len(ledger)):
        _add_to_boxes(ledger, intervals, box, r, last)
