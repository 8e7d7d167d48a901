"""Waits of host calls for GPU work: synchronisation, blocking copies, blocking launches.

If the profiler recorded a synchronisation (``cuda_sync``), the wait is exact. Otherwise it is
inferred from the order of launches, records and waits, and counted as inferred. No inferred
dependency contradicts a recorded time. A copy that ended within its call was waited for. A copy
from pageable memory is staged by the calling thread after the earlier work on its stream has ended.
A long call without anything to wait for is a wait of unknown cause.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...column_table import Ints
from ...event_columns import Event
from ..events.cpu_segments import WaitSpans
from ..events.rank_trace import RankTrace
from ..events.runtime_calls import DEVICE_SYNC, EVENT_SYNC, STREAM_SYNC
from .launch_queue import full_queue_launches
from .launches import EARLIER, Launches

COPY = re.compile(r"(cuda|hip|cu)Memcpy")
STAGED = re.compile(r"Memcpy HtoD \(Pageable")
STREAM_WAITS = re.compile(r"(cuda|hip|cu)StreamWaitEvent")
RECORD = re.compile(r"(cuda|hip|cu)EventRecord")
SHORT = 1e-4  # s: a synchronisation that took less had nothing to wait for


class HostWaits(NamedTuple):
    """Waits of host calls that return when launched work has ended.

    Parameters
    ----------
    waits : thread and time span of each wait, shape (w,)
    wait, work : index of a wait, and index of work that it waits for, shape (e,); a wait may have
        several
    call : row of the call that waits, shape (w,)
    inferred : number of waits inferred from the order of launches
    unknown : rows of long calls for which nothing to wait for was found, shape (u,)
    """

    waits: WaitSpans
    wait: Ints
    work: Ints
    call: Ints
    inferred: int
    unknown: Ints


class SyncRecord(NamedTuple):
    """Profiler record of a synchronisation (``cuda_sync``).

    -1 for fields that were not recorded.
    """

    stream: int
    awaited_stream: int
    awaited_record: int


class LaunchOrder:
    """Launched work of each lane (stream or thread), in order of launch."""

    def __init__(self, events: RankTrace, work: Launches):
        self.events, self.work = events, work
        known = (work.call >= 0) | (work.issued == EARLIER)
        self.lanes = _launches_by_group(events, work, work.lane, known)

    def last_work(self, lane: int, before: int, ended: int) -> int:
        """Index of the last work launched onto a lane before `before` that ended by `ended`.

        Both are times in ticks. -1 if there is no such work.
        """
        times, works = self.lanes.get(lane, (np.empty(0), np.empty(0, np.int64)))
        at = int(np.searchsorted(times, before)) - 1
        while at >= 0 and self.work.end[works[at]] > ended:
            at -= 1
        return int(works[at]) if at >= 0 else -1

    def lane_of_thread(self, thread: int, before: int) -> int:
        """Lane of a thread's last launch before time `before` (ticks); -1 if there is none."""
        times, works = self._launches_by_thread.get(thread, (np.empty(0), np.empty(0, np.int64)))
        at = int(np.searchsorted(times, before)) - 1
        return int(self.work.lane[works[at]]) if at >= 0 else -1

    @cached_property
    def _launches_by_thread(self) -> dict[int, tuple[Ints, Ints]]:
        events, work = self.events, self.work
        known = (work.call >= 0) & events.is_gpu_work[work.row]
        return _launches_by_group(events, work, events.lane_of_event[work.call], known)

    @cached_property
    def stream_of_lane(self) -> dict[int, int]:
        """GPU stream number of each lane; -1 for threads of a communication library."""
        by_lane = dict.fromkeys(self.lanes, -1)
        rows = self.work.row[self.events.is_gpu_work[self.work.row]]
        streams = self.events.table["stream"][rows].tolist()
        return by_lane | dict(zip(self.events.lane_of_event[rows].tolist(), streams, strict=True))

    def awaited_work(self, call: int, sync: SyncRecord, lanes: Iterable[int]) -> list[int]:
        """Last work on each lane that a synchronisation call waits for.

        This is work launched before the awaited event was recorded, or before the call if that is
        unknown.
        """
        known = sync.awaited_record >= 0 and sync.awaited_record in self._call_start_of_correlation
        before = (
            self._call_start_of_correlation[sync.awaited_record]
            if known
            else int(self.events.start[call])
        )
        last = [self.last_work(lane, before, np.iinfo(np.int64).max) for lane in lanes]
        return [work for work in last if work >= 0]

    @cached_property
    def _call_start_of_correlation(self) -> dict[int, int]:
        """Start time of the first runtime call with each correlation number."""
        rows = np.flatnonzero(self.events.kind == Event.RUNTIME)[::-1]
        times = self.events.start[rows].tolist()
        return dict(zip(self.events.correlation[rows].tolist(), times, strict=True))


def _launches_by_group(
    events: RankTrace, work: Launches, group: Ints, known: NDArray[np.bool_]
) -> dict[int, tuple[Ints, Ints]]:
    """Launch times and indices of known work for each group, sorted by launch."""
    by_group = {}
    for one in np.unique(group).tolist():
        mine = np.flatnonzero(known & (group == one))
        when = work.issued[mine]
        order = np.lexsort((work.start[mine], when))
        by_group[one] = when[order], mine[order]
    return by_group


def host_waits(events: RankTrace, work: Launches, order: LaunchOrder) -> HostWaits:
    """Find the calls that waited, and the launched work that each waited for."""
    syncs = sync_records(events)
    awaited_by: list[tuple[int, list[int]]] = []
    inferred, unknown = 0, []
    for call, kind in _waiting_calls(events, work):
        if call in syncs:
            awaited = _recorded_work(order, call, syncs[call])
        else:
            awaited = _inferred_work(events, work, order, call, kind)
            inferred += kind != "device" and bool(awaited)
        if awaited:
            awaited_by.append((call, awaited))
        elif events.dur[call] > SHORT * events.trace.resolution:
            unknown.append(call)
    return _build_host_waits(events, work, awaited_by, inferred, np.array(unknown, np.int64))


def _build_host_waits(
    events: RankTrace,
    work: Launches,
    awaited_by: list[tuple[int, list[int]]],
    inferred: int,
    unknown: Ints,
) -> HostWaits:
    """Build the table of waits from pairs (call, indices of the work that it waits for)."""
    call = np.array([c for c, _ in awaited_by], np.int64)
    wait = np.array([i for i, (_, a) in enumerate(awaited_by) for _ in a], np.int64)
    awaited = np.array([w for _, a in awaited_by for w in a], np.int64)
    until = events.start[call].copy()
    np.maximum.at(until, wait, work.end[awaited])
    return HostWaits(
        WaitSpans(events.lane_of_event[call], events.start[call], until),
        wait,
        awaited,
        call,
        inferred,
        unknown,
    )


def _waiting_calls(events: RankTrace, work: Launches) -> list[tuple[int, str]]:
    """Calls that may wait, as (row, kind), sorted by start."""
    runtime = events.kind == Event.RUNTIME
    calls = [
        (int(r), kind)
        for kind, pattern in (
            ("device", DEVICE_SYNC),
            ("stream", STREAM_SYNC),
            ("event", EVENT_SYNC),
        )
        for r in np.flatnonzero(runtime & events.name_matches(pattern))
    ]
    copied, before = _copies_waited_for(events, work)
    awaited = dict(zip(copied.tolist(), before.tolist(), strict=True))
    launched, ended = full_queue_launches(events, work)
    awaited |= dict(zip(work.call[launched].tolist(), ended.tolist(), strict=True))
    calls += [(call, f"work {k}") for call, k in awaited.items()]
    return sorted(calls, key=lambda c: int(events.start[c[0]]))


def _copies_waited_for(events: RankTrace, work: Launches) -> tuple[Ints, Ints]:
    """Copies whose calls waited for the copy or for earlier work, as (call, awaited work)."""
    named = events.name_matches(COPY) & (events.kind == Event.RUNTIME)
    of = np.flatnonzero((work.call >= 0) & (events.kind[work.row] == Event.COPY))
    of = of[named[work.call[of]]]
    call = work.call[of]
    before = work.previous_on_lane()[of]
    begins, returns = events.start[call], events.end[call]
    own = work.end[of] <= returns
    staged = events.name_matches(STAGED)[work.row[of]] & (before >= 0) & (work.start[of] < returns)
    staged &= work.end[before] > begins
    known = own | staged
    return call[known], np.where(own, of, before)[known]


def _inferred_work(
    events: RankTrace, work: Launches, order: LaunchOrder, call: int, kind: str
) -> list[int]:
    """Indices of the work that a call waited for, inferred from the order of launches."""
    if kind.startswith("work"):
        return [int(kind.split()[1])]
    before, ended = int(events.start[call]), int(events.end[call])
    candidates = {lane: order.last_work(lane, before, ended) for lane in order.lanes}
    candidates = {lane: k for lane, k in candidates.items() if k >= 0}
    if kind == "device":
        return list(candidates.values())
    own = order.lane_of_thread(int(events.lane_of_event[call]), before)
    if kind == "stream" and own in candidates:
        return [candidates[own]]
    latest = max(candidates.values(), key=lambda k: int(work.end[k]), default=-1)
    return [latest] if latest >= 0 else []


def sync_records(events: RankTrace) -> dict[int, SyncRecord]:
    """Synchronisations that ``cuda_sync`` events recorded, by row of the waiting call."""
    syncs = events.trace.syncs
    if not len(syncs):
        return {}
    position = {int(r): i for i, r in enumerate(events.rows)}
    columns = zip(*(syncs[c].tolist() for c in SyncRecord._fields), strict=True)
    by_correlation = {
        int(events.correlation[position[row]]): SyncRecord(*record)
        for row, record in zip(syncs["event"].tolist(), columns, strict=True)
        if row in position
    }
    calls = np.flatnonzero(events.kind == Event.RUNTIME).tolist() if by_correlation else []
    return {
        c: by_correlation[int(events.correlation[c])]
        for c in calls
        if int(events.correlation[c]) in by_correlation
    }


def _recorded_work(order: LaunchOrder, call: int, sync: SyncRecord) -> list[int]:
    """Indices of the work that a call waited for, as the profiler recorded it."""
    stream = sync.awaited_stream if sync.awaited_stream >= 0 else sync.stream
    lanes = [lane for lane in order.lanes if stream < 0 or order.stream_of_lane[lane] == stream]
    return order.awaited_work(call, sync, lanes)
