"""Aggregates of a run: first starts, last ends, busy times and time by box, of each rank.

They are kept of every run, and are some hundred bytes per rank; one row per op is kept where asked
for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..engine_api.interface import NEVER

KEEP = ("none", "ranks", "ops")
MOST_OPS = 5_000_000  # above this number, rows are kept only on request
# By benchmarks/commands/sweep.py --cost, the first scenario on 2 to 64 ranks, one core of a
# Zen 4 VM.
BYTES_PER_OP_RUN = 510.0  # peak memory of a simulation, per expanded op
BOXES = (
    "compute",
    "overlapped",
    "exposed_communication",
    "memory",
    "waiting",
    "host",
    "idle",
)
EXPOSED = BOXES.index("exposed_communication")


@dataclass(frozen=True)
class RunAggregates:
    """Ticks of a run, by rank, period, component and kind.

    A run without periods has one window instead, from its first release to its last end; so has
    the whole of several jobs, whose ranks are listed job after job.

    Parameters
    ----------
    ops : number of ops
    first : tick of the first release
    steps : (k,) periods that there are, ascending
    start, end : (k, ranks) first start and last end on each rank; -1 where it has none
    busy : (components, kinds) ticks of slots that were held; int64, or Python integers where the
        slots of a run together held more than int64 does
    moved : (components, kinds) s of work at the full rate, or of holding the whole capacity
    sources : s of ops by where their time comes from
    exposed : (k, ranks) ticks with communication in flight and no compute, in each step's window
    boxes : (7, 1 + k, ranks) ticks in each box of ``activity`` before the first step and in each
        step's window; or None where not kept
    windows : (components, 100) share of time in work in equal windows of the run, or None
    taken : (components, 100) slots taken over all slots in the same windows, or None
    beside : tick of the last end of what is in no step
    under_way : the same of the graph that the run was given
    """

    ops: int
    first: int
    steps: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    busy: NDArray[Any]
    moved: NDArray[np.float64]
    sources: dict[str, int]
    exposed: NDArray[np.int64] | None = None
    boxes: NDArray[np.int64] | None = None
    windows: NDArray[np.float64] | None = None
    taken: NDArray[np.float64] | None = None
    beside: int = NEVER
    under_way: int = NEVER

    @cached_property
    def last(self) -> int:
        """Tick of the last end."""
        return max(int(self.end.max(initial=self.first)), self.first, self.beside)

    @cached_property
    def edges(self) -> NDArray[np.int64]:
        """(k + 1,) ticks at which the first step begins and each step ends on its last rank."""
        if not len(self.steps):
            return np.array([self.first, self.last])
        first = self.start[0][self.start[0] != NEVER].min()
        last = np.maximum.accumulate(self.end.max(axis=1))
        return np.concatenate([[first_period_start_tick(first, self.under_way, last[0])], last])

    @cached_property
    def marks(self) -> NDArray[np.int64]:
        """(k + 2,) ticks: the first release, then the edges; time by box is kept between them."""
        return np.concatenate([[min(self.first, self.edges[0])], self.edges])

    def with_time_breakdown(self, boxes: NDArray[np.int64], keep: str) -> RunAggregates:
        """Aggregates with time by box between the marks, as far as ``keep`` keeps it."""
        found = replace(self, exposed=boxes[EXPOSED, 1:].copy())
        return replace(found, boxes=boxes) if keep == "ranks" else found


def first_period_start_tick(first: int, under_way: int, end: int) -> int:
    """Tick at which the first period begins: where what was under way ends, if it ends in it.

    Parameters
    ----------
    first, end : ticks of its first start and last end
    under_way : tick of the last end of what is in no period

    Examples
    --------
    >>> [first_period_start_tick(0, under_way, 49) for under_way in (30, 90, -1)]
    [30, 0, 0]
    """
    return int(under_way) if first < under_way < end else int(first)


def add_ticks(
    into: NDArray[Any], at: tuple[NDArray[Any], ...], ticks: NDArray[np.int64]
) -> NDArray[Any]:
    """Table with ticks added to its cells; of Python integers where int64 would overflow.

    Times of all ranks add up beyond the range of one: 16,384 of them in ten minutes.

    Examples
    --------
    >>> add_ticks(np.zeros(2, np.int64), (np.array([1, 1]),), np.array([2**62] * 2)).tolist()
    [0, 9223372036854775808]
    """
    most = float(into.sum(dtype=None if into.dtype == object else np.float64))
    if into.dtype != object and most + ticks.sum(dtype=np.float64) < 2.0**62:
        if len(ticks):
            first = first_rows_of_equal_runs(*at)
            cell = np.ravel_multi_index(tuple(a[first] for a in at), into.shape)
            np.add.at(into.reshape(-1), cell, np.add.reduceat(ticks, first))
        return into
    high, low = np.zeros(into.shape, np.int64), np.zeros(into.shape, np.int64)
    np.add.at(high, at, ticks >> 32)
    np.add.at(low, at, ticks & (2**32 - 1))
    return np.asarray(into.astype(object) + high.astype(object) * 2**32 + low)


def first_rows_of_equal_runs(*columns: NDArray[Any]) -> NDArray[np.int64]:
    """First rows of runs of equal rows.

    >>> first_rows_of_equal_runs(np.array([5, 5, 5, 7]), np.array([1, 1, 0, 0])).tolist()
    [0, 2, 3]
    """
    new = np.ones(len(columns[0]), bool)
    new[1:] = False
    for column in columns:
        new[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(new)
