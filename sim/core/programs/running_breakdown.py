"""Time breakdown of an SPMD graph, computed during the run; for runs with a single window.

A *gate* is an op after whose end all later ops of its rank begin (``program_encoding.py``). When a
gate ends, all activity before it is known and can be summed. Intervals that extend beyond the gate
stay *open*. If a rank has too many open intervals, ``time_breakdown.py`` replays its program after
the run instead.
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
    """Time per category of all ranks, updated during a run.

    Parameters
    ----------
    ledger : (ranks, 8) per rank: ticks in each category except ``idle``, tick up to which activity
        is summed, number of open intervals; (0, 8) if no breakdown is requested
    open : (ranks, MOST, 3) open intervals: first and last tick, and the layer
    """

    ledger: NDArray[np.int64]
    open: NDArray[np.int64]

    @classmethod
    def of(cls, ranks: int) -> RunningBreakdown:
        """Empty breakdown for the given number of ranks."""
        return cls(
            np.zeros((ranks, COLUMNS), np.int64), np.zeros((ranks, MOST, INTERVAL), np.int64)
        )

    @property
    def tables(self) -> Arrays:
        """Arrays of the breakdown, in the order that kernels expect."""
        return LAYER, BOX, self.ledger, self.open

    def boxes(self, last: int) -> NDArray[np.int64] | None:
        """Ticks per category, (7, 2, ranks), before and during an iteration that begins at 0.

        None if a rank had too many open intervals.

        Parameters
        ----------
        last : tick at which the iteration ends
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
    """Record an op of a rank, or consecutive ops of one kind.

    The rank counts as waiting from the arrival of a network op to its start.

    Parameters
    ----------
    column : tally column of the ops (kind and role), which determines their layer
    arrived, start, end : ticks of the op's arrival on the rank, its start and its end
    gate : 1 if all later ops of the rank start after its end, else 0
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
    """Add a busy interval to a rank's open intervals, or extend one that it touches."""
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
    """Sum a rank's open intervals by category up to a tick; all later activity begins after it."""
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
