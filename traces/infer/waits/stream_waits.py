"""Waits of GPU streams for other streams (``cudaStreamWaitEvent`` and similar calls).

The profiler rarely records which event a stream waited for, but it records the order of launches,
event records and waits of each thread. From this order three rules infer the awaited work. They
apply in this order, and only if the awaited work had ended when the waiting work began:

1. *evidence*: the waiting work began just when work of another stream ended, and nothing else
   explains its start;
2. *hand-over*: the thread launched onto another stream just before it called the wait (and recorded
   an event since, if the trace has event records);
3. *first out*: the oldest collective that this stream has not waited for yet.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...column_table import Ints
from ...event_columns import Event
from ..events.rank_trace import RankTrace
from .host_waits import RECORD, STREAM_WAITS, LaunchOrder, SyncRecord, sync_records
from .launches import Launches

NEAR = 2e-6  # s: work that begins this soon after an end was released by it


class StreamWaits(NamedTuple):
    """Waits of work on one stream for work on another stream.

    Parameters
    ----------
    work, awaited : index of the work that waits, and of the work it waits for, shape (e,)
    inferred : number of waits that were inferred from the order of launches
    unresolved : indices of work after a wait call for which nothing to wait for was found, shape
        (u,)
    """

    work: Ints
    awaited: Ints
    inferred: int
    unresolved: Ints


def stream_waits(
    events: RankTrace, work: Launches, order: LaunchOrder, collective: NDArray[np.bool_]
) -> StreamWaits:
    """Find the waits of GPU work on one stream for work on another, from recorded wait calls.

    Parameters
    ----------
    collective : True where work is a collective, shape (work,)
    """
    calls = np.flatnonzero((events.kind == Event.RUNTIME) & events.name_matches(STREAM_WAITS))
    if not len(calls):
        none = np.empty(0, np.int64)
        return StreamWaits(none, none, 0, none)
    return _LaunchReplay(events, work, order, collective).resolve_calls(calls)


class _LaunchReplay:
    """Replay of a rank's launches and wait calls in order of time, to resolve each wait call."""

    def __init__(
        self, events: RankTrace, work: Launches, order: LaunchOrder, collective: NDArray[np.bool_]
    ):
        self.events, self.work, self.order, self.collective = events, work, order, collective
        self.syncs = sync_records(events)
        self.previous = work.previous_on_lane()
        self.waited: set[tuple[int, int]] = set()  # (lane, collective it has waited for)
        self.issued: list[int] = []  # collectives, in the order of their launches
        self.first: dict[int, int] = {}  # lane to the first of them that it has not waited for
        self.launches: dict[int, int] = {}  # thread to its last launch so far
        self.current: dict[int, int] = {}  # thread to the lane of its last launch, not collectives
        self.near = int(NEAR * events.trace.resolution)
        self.pairs: list[tuple[int, int]] = []
        self.inferred: set[tuple[int, int]] = set()
        self.unresolved: list[int] = []
        self.records = self._record_ticks_by_thread()

    def _record_ticks_by_thread(self) -> dict[int, Ints]:
        """Times in ticks at which each thread recorded CUDA events, ascending."""
        events = self.events
        rows = np.flatnonzero(events.name_matches(RECORD) & (events.kind == Event.RUNTIME))
        threads = np.unique(events.lane_of_event[rows]).tolist()
        return {t: np.sort(events.start[rows[events.lane_of_event[rows] == t]]) for t in threads}

    def resolve_calls(self, calls: Ints) -> StreamWaits:
        """Resolve the wait calls in the given rows: find the work that each waits for."""
        pending: dict[int, list[int]] = {}  # thread to its waits that no launch followed yet
        for time, thread, call, launch in self._waits_and_launches_by_time(calls):
            if launch < 0:
                pending.setdefault(thread, []).append(call)
                continue
            for waiter in self._waiting_threads(thread, launch, pending):
                pending[waiter] = self._resolve_before_launch(launch, pending[waiter])
            self.launches[thread] = time
            if self.collective[launch]:
                self.issued.append(launch)
            else:
                self.current[thread] = int(self.work.lane[launch])
        pairs = np.array(sorted(set(self.pairs)), np.int64).reshape(-1, 2)
        unresolved = np.array(self.unresolved, np.int64)
        return StreamWaits(pairs[:, 0], pairs[:, 1], len(self.inferred), unresolved)

    def _waiting_threads(
        self, thread: int, launch: int, pending: dict[int, list[int]]
    ) -> list[int]:
        """Threads whose wait calls apply to a launch: its own, and those using its stream."""
        lane = int(self.work.lane[launch])
        return [
            t
            for t, calls in pending.items()
            if calls and (t == thread or self.current.get(t) == lane)
        ]

    def _waits_and_launches_by_time(self, calls: Ints) -> list[tuple[int, int, int, int]]:
        """Wait calls and launches as (time, thread, call, launched work or -1), sorted by time."""
        events, work = self.events, self.work
        known = np.flatnonzero((work.call >= 0) & events.is_gpu_work[work.row])
        calls_and_launches = [
            (int(events.start[c]), int(events.lane_of_event[c]), c, -1) for c in calls.tolist()
        ]
        calls_and_launches += [
            (int(events.start[c]), int(events.lane_of_event[c]), c, k)
            for k, c in zip(known.tolist(), work.call[known].tolist(), strict=True)
        ]
        return sorted(calls_and_launches)

    def _resolve_before_launch(self, k: int, waits: list[int]) -> list[int]:
        """Resolve the wait calls before launched work `k`.

        Returns calls that apply to other streams.
        """
        later = [c for c in waits if c in self.syncs and not self._applies_to(c, k)]
        mine = [c for c in waits if c not in later]
        for call in mine:
            awaited = (
                self._recorded_work(call)
                if call in self.syncs
                else self._infer_awaited_work(k, call)
            )
            if awaited < 0:
                self.unresolved.append(k)
                continue
            if call not in self.syncs:
                self.inferred.add((k, awaited))
            self.waited.add((int(self.work.lane[k]), awaited))
            self.pairs.append((k, awaited))
        return later

    def _applies_to(self, call: int, k: int) -> bool:
        return self.order.stream_of_lane[int(self.work.lane[k])] == self.syncs[call].stream

    def _recorded_work(self, call: int) -> int:
        """Index of the work that a wait call waits for, as the profiler recorded it; -1 if none."""
        sync: SyncRecord = self.syncs[call]
        lanes = [k for k in self.order.lanes if self.order.stream_of_lane[k] == sync.awaited_stream]
        return next(iter(self.order.awaited_work(call, sync, lanes[:1])), -1)

    def _infer_awaited_work(self, k: int, call: int) -> int:
        """Work that work `k` waits for because of a wait call, inferred by the rules.

        -1 if none.
        """
        work, mine = self.work, int(self.work.lane[k])
        before, begins = int(self.events.start[call]), int(work.start[k])
        ended = {
            lane: last
            for lane in self.order.lanes
            if lane != mine and (last := self.order.last_work(lane, before, begins)) >= 0
        }
        awaited = self._work_by_start_time(k, ended)
        return awaited if awaited >= 0 else self._work_by_launch_order(k, call, ended)

    def _work_by_start_time(self, k: int, ended: dict[int, int]) -> int:
        """Index of the work whose end released work `k`; -1 if another cause explains its start."""
        work = self.work
        latest = max(ended.values(), key=lambda j: int(work.end[j]), default=-1)
        if latest < 0:
            return -1
        begins = int(work.start[k])
        before = int(work.end[self.previous[k]]) if self.previous[k] >= 0 else 0
        launched = int(self.events.start[work.call[k]]) + work.latency
        explained = begins - max(before, launched) <= self.near
        return -1 if explained or begins - int(work.end[latest]) > self.near else latest

    def _work_by_launch_order(self, k: int, call: int, ended: dict[int, int]) -> int:
        """Work that work `k` waits for by rule hand-over, otherwise by rule first out.

        -1 if none.
        """
        thread, when = int(self.events.lane_of_event[call]), int(self.events.start[call])
        if self.collective[k]:
            last = self.current.get(thread, -1)
        else:
            last = self.order.lane_of_thread(thread, when)
        awaited = ended.get(last, -1)
        if awaited >= 0 and not self.collective[awaited]:
            return awaited if self._recorded_since_launch(thread, when) else -1
        return -1 if self.collective[k] else self._oldest_unawaited_collective(k)

    def _recorded_since_launch(self, thread: int, when: int) -> bool:
        """True if the thread recorded a CUDA event after its last launch.

        Also True if the trace has no such records.
        """
        if not self.records:
            return True
        times = self.records.get(thread, np.empty(0))
        at = int(np.searchsorted(times, when)) - 1
        return at >= 0 and bool(times[at] >= self.launches.get(thread, 0))

    def _oldest_unawaited_collective(self, k: int) -> int:
        """Oldest collective that ended before work `k` began and that its stream has not awaited.

        Or -1.
        """
        work, mine = self.work, int(self.work.lane[k])
        first = self.first.get(mine, 0)
        while first < len(self.issued) and (mine, self.issued[first]) in self.waited:
            first += 1
        self.first[mine] = first
        for j in self.issued[first:]:
            fresh = (mine, j) not in self.waited and work.lane[j] != mine
            if fresh and work.end[j] <= work.start[k]:
                return j
        return -1
