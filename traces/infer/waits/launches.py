"""Launched work: GPU work and gloo's collectives, joined with the calls that launched them."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...column_table import Ints
from ...event_columns import Event
from ..events.cpu_segments import CutPoints
from ..events.rank_trace import RankTrace, rows_by_lane_and_start
from ..events.runtime_calls import STARTS_WORK

ISSUE = re.compile(r"c10d::(?!.*wait)")
EARLIER = np.iinfo(np.int64).min
"""When work was issued that was launched before the recording began."""


class Launches(NamedTuple):
    """Launched work of a rank, sorted by lane and start.

    Parameters
    ----------
    row : row of the work's event in the trace, shape (n,)
    lane, start, end : lane, and times in ticks, shape (n,)
    call : row of the call that launched the work, shape (n,); -1 if not recorded
    issued : start of the launching call in ticks, shape (n,). `EARLIER` for work launched before
        the recording; the start of the work itself if its launch is unknown
    caller_free : time in ticks until which the calling thread was busy with the launch, shape (n,)
    latency : median ticks from the start of a call to the start of its work on an idle stream
    """

    row: Ints
    lane: Ints
    start: Ints
    end: Ints
    call: Ints
    issued: Ints
    caller_free: Ints
    latency: int

    def thread_cuts(self, events: RankTrace) -> CutPoints:
        """Cut points of the calling threads: the time when each launch was finished."""
        called = self.call >= 0
        return CutPoints(events.lane_of_event[self.call[called]], self.caller_free[called])

    def previous_on_lane(self) -> Ints:
        """Index of the previous work on the same lane, shape (n,); -1 for the first."""
        at = np.arange(len(self.lane))
        same = np.concatenate([[False], self.lane[1:] == self.lane[:-1]])[: len(at)]
        return np.where(same, at - 1, -1)


def launches(events: RankTrace) -> Launches:
    """Join GPU work and gloo's collectives with the calls that launched them."""
    row = rows_by_lane_and_start(events, events.is_gpu_work | events.is_gloo_collective)
    call = np.where(events.is_gpu_work[row], _calls_by_correlation(events, row), -1)
    _join_by_external_id(events, row, call)
    gloo = np.flatnonzero(events.is_gloo_collective[row])
    call[gloo] = _issuing_operators(events, row[gloo])
    lane, start, end = events.lane_of_event[row], events.start[row], events.end[row]
    latency = _median_launch_latency(events, lane, start, end, call)
    begin = events.start[call]
    caller_free = np.minimum(np.minimum(begin + latency, events.end[call]), start)
    caller_free = np.where(call >= 0, caller_free, start)
    earlier = events.is_gpu_work[row] & _before_any_launch(lane, start, call)
    issued = np.where(call >= 0, begin, np.where(earlier, EARLIER, start))
    return Launches(row, lane, start, end, call, issued, caller_free, latency)


def _before_any_launch(lane: Ints, start: Ints, call: Ints) -> NDArray[np.bool_]:
    """True where work has no recorded launch and began before all work that has one, shape (n,).

    Work is compared with work of its own lane; if that lane has no recorded launch, with work of
    all lanes.
    """
    known = call >= 0
    if not known.any():
        return known
    first = np.full(int(lane.max()) + 1, np.iinfo(np.int64).max)
    np.minimum.at(first, lane[known], start[known])
    first[first == np.iinfo(np.int64).max] = start[known].min()
    return np.asarray(~known & (start < first[lane]))


def _calls_by_correlation(events: RankTrace, row: Ints) -> Ints:
    """Row of the outermost runtime call with the same correlation number, shape (row,).

    -1 if none.
    """
    calls = np.flatnonzero((events.kind == Event.RUNTIME) & (events.correlation > 0))
    if not len(calls):
        return np.full(len(row), -1, np.int64)
    calls = calls[np.lexsort((events.start[calls], events.correlation[calls]))]
    wanted = events.correlation[row]
    at = np.minimum(np.searchsorted(events.correlation[calls], wanted), len(calls) - 1)
    return np.where(events.correlation[calls[at]] == wanted, calls[at], -1)


def _join_by_external_id(events: RankTrace, row: Ints, call: Ints) -> None:
    """Join work without a correlation number to the launch, or else the operator, of its operator.

    The k-th work of an operator was launched by its k-th launch. Sets the rows in `call`.
    """
    external = events.table["external"]
    lacking = np.flatnonzero(
        events.is_gpu_work[row] & (events.correlation[row] <= 0) & (external[row] > 0)
    )
    if not len(lacking):
        return
    starts = (events.kind == Event.RUNTIME) & events.name_matches(STARTS_WORK)
    launched = _rows_by_external_id(events, starts)
    operators = _rows_by_external_id(events, events.kind == Event.OP)
    for k in lacking[np.argsort(events.start[row[lacking]], kind="stable")].tolist():
        number = int(external[row[k]])
        if queue := launched.get(number):
            call[k] = queue.pop(0)
        elif number in operators:
            call[k] = operators[number][0]


def _rows_by_external_id(events: RankTrace, of: NDArray[np.bool_]) -> dict[int, list[int]]:
    """Rows of events, by external id, each list sorted by start."""
    rows = np.flatnonzero(of)
    by_number: dict[int, list[int]] = {}
    for i in rows[np.argsort(events.start[rows], kind="stable")].tolist():
        by_number.setdefault(int(events.table["external"][i]), []).append(i)
    return by_number


def _issuing_operators(events: RankTrace, row: Ints) -> Ints:
    """Row of the operator that issued each gloo collective, shape (row,); -1 if none.

    The k-th operator of a name and shape issued the k-th collective of that name and shape.
    """
    issues = np.flatnonzero((events.kind == Event.OP) & events.name_matches(ISSUE))
    waiting: dict[tuple[str, str], list[int]] = {}
    for i in issues[np.argsort(events.start[issues], kind="stable")].tolist():
        waiting.setdefault(_name_and_shape(events, i), []).append(i)
    call = np.full(len(row), -1, np.int64)
    for k in np.argsort(events.start[row], kind="stable").tolist():
        queue = waiting.get(_name_and_shape(events, int(row[k])), [])
        if queue and events.start[queue[0]] <= events.start[row[k]]:
            call[k] = queue.pop(0)
    return call


def _name_and_shape(events: RankTrace, row: int) -> tuple[str, str]:
    """Name of a collective without its library's prefix, and the numbers in its shapes."""
    name = re.sub(r"^(c10d::|gloo:)|_", "", events.text(row)).removesuffix("coalesced")
    shapes = int(events.table["shapes"][row])
    text = events.trace.strings[shapes] if shapes >= 0 else ""
    return name, ",".join(re.findall(r"\d+", text))


def _median_launch_latency(
    events: RankTrace, lane: Ints, start: Ints, end: Ints, call: Ints
) -> int:
    """Median ticks from call to start of work whose stream was idle; 0 if there is no such work."""
    if not len(idle := _work_on_idle_stream(events, lane, end, call)):
        return 0
    return max(int(np.median(start[idle] - events.start[call[idle]])), 0)


def _work_on_idle_stream(events: RankTrace, lane: Ints, end: Ints, call: Ints) -> Ints:
    """Indices of work that was launched when its stream was idle."""
    before = np.concatenate([[np.iinfo(np.int64).min], end[:-1]])[: len(end)]
    first = np.concatenate([[True], lane[1:] != lane[:-1]])[: len(lane)]
    free = first | (before <= events.start[call])
    return np.flatnonzero((call >= 0) & free)
