"""Aggregates of a run per rank: first starts, last ends, busy times, and the time breakdown.

Every run keeps them, at some hundred bytes per rank; one row per op is kept only on request or for
small runs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..engine_api.interface import NEVER, State

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
    """Aggregated times of a run, by rank, period, component and kind of op; in ticks unless noted.

    A run without periods has one window instead, from its first release to its last end. So has
    the union of several jobs, whose ranks are listed job after job.

    Parameters
    ----------
    ops : number of ops
    first : tick of the first release
    steps : (k,) numbers of the periods, ascending
    start, end : (k, ranks) first start and last end of each period on each rank; -1 if it has no op
        there
    busy : (components, kinds) busy time in ticks, summed over slots; int64, or Python integers if
        the sum exceeds int64
    work_seconds : (components, kinds) time in s that the work of ops takes at the component's full
        rate; for a capacity, the time for which the held amounts would fill it completely
    sources : total duration of ops in ticks, by the source of their times
    exposed : (k, ranks) ticks with communication in flight but no compute, in each period's window
    boxes : (7, 1 + k, ranks) ticks in each category of the time breakdown, before the first period
        and in each period's window; None if not kept
    windows : (components, 100) fraction of time in which each component works, in 100 equal windows
        of the run; None if not kept
    taken : (components, 100) fraction of slots in use, in the same windows; None if not kept
    last_outside_periods : tick of the last end of ops that belong to no period
    last_outside_periods_of_graph : tick of the last end of ops without a period in the graph that
        the run was given
    dropped : (components,) number of ops sent to each component that were dropped, since no queue
        had room; None without bounded queues
    """

    ops: int
    first: int
    steps: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    busy: NDArray[Any]
    work_seconds: NDArray[np.float64]
    sources: dict[str, int]
    exposed: NDArray[np.int64] | None = None
    boxes: NDArray[np.int64] | None = None
    windows: NDArray[np.float64] | None = None
    taken: NDArray[np.float64] | None = None
    last_outside_periods: int = NEVER
    last_outside_periods_of_graph: int = NEVER
    dropped: NDArray[np.int64] | None = None

    @cached_property
    def last(self) -> int:
        """Tick of the last end of any op."""
        return max(int(self.end.max(initial=self.first)), self.first, self.last_outside_periods)

    @cached_property
    def edges(self) -> NDArray[np.int64]:
        """Period boundaries in ticks, shape (k + 1,): start of the first, then end of each.

        A period ends when its last rank does.
        """
        if not len(self.steps):
            return np.array([self.first, self.last])
        first = self.start[0][self.start[0] != NEVER].min()
        last = np.maximum.accumulate(self.end.max(axis=1))
        outside = self.last_outside_periods_of_graph
        return np.concatenate([[first_period_start_tick(first, outside, last[0])], last])

    @cached_property
    def breakdown_bounds(self) -> NDArray[np.int64]:
        """Ticks that bound the intervals of the time breakdown, shape (k + 2,).

        They are the first release, and the boundaries of the k periods.
        """
        return np.concatenate([[min(self.first, self.edges[0])], self.edges])

    def with_time_breakdown(self, boxes: NDArray[np.int64], keep: str) -> RunAggregates:
        """Copy with the exposed communication from a time breakdown.

        With ``keep="ranks"``, the copy has the complete breakdown too.
        """
        found = replace(self, exposed=boxes[EXPOSED, 1:].copy())
        return replace(found, boxes=boxes) if keep == "ranks" else found


def first_period_start_tick(first: int, under_way: int, end: int) -> int:
    """Start tick of the first period: its first start, or the end of earlier overlapping ops.

    Parameters
    ----------
    first, end : ticks of the first start and the last end of the first period
    under_way : tick of the last end of ops that are in no period

    Examples
    --------
    >>> [first_period_start_tick(0, under_way, 49) for under_way in (30, 90, -1)]
    [30, 0, 0]
    """
    return int(under_way) if first < under_way < end else int(first)


def add_ticks(
    into: NDArray[Any], at: tuple[NDArray[Any], ...], ticks: NDArray[np.int64]
) -> NDArray[Any]:
    """Add ticks to cells of a table; it becomes a table of Python integers before int64 overflows.

    Summed over many ranks, times exceed int64: 16,384 ranks in ten minutes.

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


def add_dropped_ops(
    into: NDArray[np.int64], slot: NDArray[np.int32], state: NDArray[np.uint8]
) -> None:
    """Count the dropped ops of graphs, by component.

    Parameters
    ----------
    slot : (places,) slot component of each place, or (graphs, places)
    state : (graphs, ops) number of each op's state

    Examples
    --------
    >>> found = np.zeros(2, np.int64)
    >>> add_dropped_ops(found, np.array([1, 0], np.int32), np.array([[5, 2], [5, 2]], np.uint8))
    >>> found.tolist()
    [0, 2]
    """
    slots = np.broadcast_to(slot[..., : state.shape[1]], state.shape)
    np.add.at(into, slots[state == State.DROPPED], 1)


def first_rows_of_equal_runs(*columns: NDArray[Any]) -> NDArray[np.int64]:
    """First row of each run of equal consecutive rows.

    >>> first_rows_of_equal_runs(np.array([5, 5, 5, 7]), np.array([1, 1, 0, 0])).tolist()
    [0, 2, 3]
    """
    new = np.ones(len(columns[0]), bool)
    new[1:] = False
    for column in columns:
        new[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(new)
