"""Streams that wait for other streams (``cudaStreamWaitEvent`` and its kin).

The profiler rarely says which event a stream waited for.  What it leaves is an order: launches,
records and waits of each thread.  Three readings of it, in this order, and only where the awaited
work had ended when the waiting work began:

1. *evidence*: the waiting work began right when work of another stream ended, and nothing else
   explains when it began;
2. *hand-over*: the thread launched onto another stream just before it called the wait (and
   recorded an event since, where records are in the trace);
3. *first out*: the oldest collective that this stream has not waited for yet.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..column_table import Integers
from ..event_columns import Event
from .host_waits import RECORD, STREAM_WAITS, Order, resolved
from .launches import Launches
from .rank_trace import RankTrace

NEAR = 2e-6  # s: work that begins within this of an end was released by it


class StreamWaits(NamedTuple):
    """Dependencies between streams.

    Parameters
    ----------
    work, awaited : (e,) positions of launched work
    inferred, unresolved : how many were inferred; how many waits led to none
    """

    work: Integers
    awaited: Integers
    inferred: int
    unresolved: int


def stream_waits(
    view: RankTrace, work: Launches, order: Order, collective: NDArray[np.bool_]
) -> StreamWaits:
    """Find what streams waited for."""
    calls = np.flatnonzero((view.kind == Event.RUNTIME) & view.named(STREAM_WAITS))
    if not len(calls):
        return StreamWaits(np.empty(0, np.int64), np.empty(0, np.int64), 0, 0)
    return _Reader(view, work, order, collective).read(calls)


class _Reader:
    """Goes through the launches and waits of a rank in their order."""

    def __init__(
        self, view: RankTrace, work: Launches, order: Order, collective: NDArray[np.bool_]
    ):
        self.view, self.work, self.order, self.collective = view, work, order, collective
        self.exact = resolved(view)
        self.previous = work.previous()
        self.waited: set[tuple[int, int]] = set()  # (line, collective it has waited for)
        self.issued: list[int] = []  # collectives, in the order of their launches
        self.first: dict[int, int] = {}  # line to the first of them that it has not waited for
        self.launches: dict[int, int] = {}  # thread to its last launch so far
        self.current: dict[int, int] = {}  # thread to the line of its last launch, not collectives
        self.near = int(NEAR * view.trace.resolution)
        self.pairs: list[tuple[int, int]] = []
        self.guesses: set[tuple[int, int]] = set()
        self.unresolved = 0
        self.records = self._records()

    def _records(self) -> dict[int, Integers]:
        """When each thread recorded events."""
        view = self.view
        rows = np.flatnonzero(view.named(RECORD) & (view.kind == Event.RUNTIME))
        threads = np.unique(view.lines[rows]).tolist()
        return {t: np.sort(view.start[rows[view.lines[rows] == t]]) for t in threads}

    def read(self, calls: Integers) -> StreamWaits:
        pending: dict[int, list[int]] = {}  # thread to its waits that no launch followed yet
        for time, thread, call, launch in self._in_order(calls):
            if launch < 0:
                pending.setdefault(thread, []).append(call)
                continue
            for waiter in self._whose(thread, launch, pending):
                pending[waiter] = self._launch(launch, pending[waiter])
            self.launches[thread] = time
            if self.collective[launch]:
                self.issued.append(launch)
            else:
                self.current[thread] = int(self.work.line[launch])
        pairs = np.array(sorted(set(self.pairs)), np.int64).reshape(-1, 2)
        return StreamWaits(pairs[:, 0], pairs[:, 1], len(self.guesses), self.unresolved)

    def _whose(self, thread: int, launch: int, pending: dict[int, list[int]]) -> list[int]:
        """Threads whose waits a launch honours: its own, and those that used the same stream."""
        line = int(self.work.line[launch])
        return [
            t
            for t, calls in pending.items()
            if calls and (t == thread or self.current.get(t) == line)
        ]

    def _in_order(self, calls: Integers) -> list[tuple[int, int, int, int]]:
        """(time, thread, call, launched work or -1) of waits and launches, by time."""
        view, work = self.view, self.work
        known = np.flatnonzero((work.call >= 0) & view.on_gpu[work.row])
        events = [(int(view.start[c]), int(view.lines[c]), c, -1) for c in calls.tolist()]
        events += [
            (int(view.start[c]), int(view.lines[c]), c, k)
            for k, c in zip(known.tolist(), work.call[known].tolist(), strict=True)
        ]
        return sorted(events)

    def _launch(self, k: int, waits: list[int]) -> list[int]:
        """Resolve the waits before a launch; returns those that are of other streams."""
        later = [c for c in waits if c in self.exact and not self._is_for(c, k)]
        mine = [c for c in waits if c not in later]
        for call in mine:
            awaited = self._exact(call) if call in self.exact else self._infer(k, call)
            if awaited < 0:
                self.unresolved += 1
                continue
            if call not in self.exact:
                self.guesses.add((k, awaited))
            self.waited.add((int(self.work.line[k]), awaited))
            self.pairs.append((k, awaited))
        return later

    def _is_for(self, call: int, k: int) -> bool:
        return self.order.streams[int(self.work.line[k])] == self.exact[call]["stream"]

    def _exact(self, call: int) -> int:
        said = self.exact[call]
        time = self.order.recorded_at(said["awaited_record"])
        before = int(self.view.start[call]) if time is None else time
        for line in self.order.lines:
            if self.order.streams[line] == said["awaited_stream"]:
                return self.order.last(line, before, np.iinfo(np.int64).max)
        return -1

    def _infer(self, k: int, call: int) -> int:
        work, mine = self.work, int(self.work.line[k])
        before, begins = int(self.view.start[call]), int(work.start[k])
        ended = {
            line: found
            for line in self.order.lines
            if line != mine and (found := self.order.last(line, before, begins)) >= 0
        }
        found = self._by_evidence(k, ended)
        return found if found >= 0 else self._by_order(k, call, ended)

    def _by_evidence(self, k: int, ended: dict[int, int]) -> int:
        """The work that released this one, if its start has no other explanation."""
        work = self.work
        latest = max(ended.values(), key=lambda j: int(work.end[j]), default=-1)
        if latest < 0:
            return -1
        begins = int(work.start[k])
        before = int(work.end[self.previous[k]]) if self.previous[k] >= 0 else 0
        launched = int(self.view.start[work.call[k]]) + work.latency
        explained = begins - max(before, launched) <= self.near
        return -1 if explained or begins - int(work.end[latest]) > self.near else latest

    def _by_order(self, k: int, call: int, ended: dict[int, int]) -> int:
        thread, when = int(self.view.lines[call]), int(self.view.start[call])
        if self.collective[k]:
            last = self.current.get(thread, -1)
        else:
            last = self.order.line_of_thread(thread, when)
        awaited = ended.get(last, -1)
        if awaited >= 0 and not self.collective[awaited]:
            return awaited if self._recorded_since_launch(thread, when) else -1
        return -1 if self.collective[k] else self._first_out(k)

    def _recorded_since_launch(self, thread: int, when: int) -> bool:
        """Whether an event was recorded after the thread's last launch; so where none ever is."""
        if not self.records:
            return True
        times = self.records.get(thread, np.empty(0))
        at = int(np.searchsorted(times, when)) - 1
        return at >= 0 and bool(times[at] >= self.launches.get(thread, 0))

    def _first_out(self, k: int) -> int:
        work, mine = self.work, int(self.work.line[k])
        first = self.first.get(mine, 0)
        while first < len(self.issued) and (mine, self.issued[first]) in self.waited:
            first += 1
        self.first[mine] = first
        for j in self.issued[first:]:
            fresh = (mine, j) not in self.waited and work.line[j] != mine
            if fresh and work.end[j] <= work.start[k]:
                return j
        return -1
