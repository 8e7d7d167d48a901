"""Who waits for launched work: host calls, and streams that wait for other streams.

Where the profiler resolved a synchronisation (``cuda_sync``) it is exact.  Otherwise it is
inferred from the order of launches, records and waits, and counted as inferred; no inferred
dependency contradicts a recorded time.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..column_table import Integers
from ..event_columns import Event
from .cpu_segments import WaitSpans
from .launches import Launches
from .rank_trace import RankTrace

WHOLE = re.compile(r"(cuda|hip)(DeviceSynchronize|CtxSynchronize)|cuCtxSynchronize")
STREAM = re.compile(r"(cuda|hip|cu)StreamSynchronize")
EVENT = re.compile(r"(cuda|hip|cu)EventSynchronize")
COPY = re.compile(r"(cuda|hip|cu)Memcpy")
STREAM_WAITS = re.compile(r"(cuda|hip|cu)StreamWaitEvent")
RECORD = re.compile(r"(cuda|hip|cu)EventRecord")


class HostWaits(NamedTuple):
    """Calls that return when launched work has ended.

    Parameters
    ----------
    waits : Waits
    wait, work : (e,) number of the wait, position of the awaited work; several for one wait
    call : (w,) row of the call that waits
    inferred : waits whose object is not recorded
    unresolved : calls for which nothing was found to wait for
    """

    waits: WaitSpans
    wait: Integers
    work: Integers
    call: Integers
    inferred: int
    unresolved: int


class Order:
    """Launched work in the order of launches, for each line."""

    def __init__(self, view: RankTrace, work: Launches):
        self.view, self.work = view, work
        self.lines = _launches(view, work, work.line, work.call >= 0)

    def last(self, line: int, before: int, ended: int) -> int:
        """The last work launched onto a line before one instant that ended by another; else -1."""
        times, works = self.lines.get(line, (np.empty(0), np.empty(0, np.int64)))
        at = int(np.searchsorted(times, before)) - 1
        while at >= 0 and self.work.end[works[at]] > ended:
            at -= 1
        return int(works[at]) if at >= 0 else -1

    def line_of_thread(self, thread: int, before: int) -> int:
        """Line onto which a thread launched last; -1 if none."""
        times, works = self._by_thread.get(thread, (np.empty(0), np.empty(0, np.int64)))
        at = int(np.searchsorted(times, before)) - 1
        return int(self.work.line[works[at]]) if at >= 0 else -1

    @cached_property
    def _by_thread(self) -> dict[int, tuple[Integers, Integers]]:
        view, work = self.view, self.work
        known = (work.call >= 0) & view.on_gpu[work.row]
        return _launches(view, work, view.lines[work.call], known)

    @cached_property
    def streams(self) -> dict[int, int]:
        """Number of the GPU stream of each line; -1 for threads of a communication library."""
        found = dict.fromkeys(self.lines, -1)
        rows = self.work.row[self.view.on_gpu[self.work.row]]
        streams = self.view.events["stream"][rows].tolist()
        return found | dict(zip(self.view.lines[rows].tolist(), streams, strict=True))

    def recorded_at(self, correlation: int) -> int | None:
        """When an event was recorded, given the correlation of the call; None if not recorded."""
        return self._calls.get(correlation) if correlation >= 0 else None

    @cached_property
    def _calls(self) -> dict[int, int]:
        rows = np.flatnonzero(self.view.kind == Event.RUNTIME)[::-1]
        times = self.view.start[rows].tolist()
        return dict(zip(self.view.correlation[rows].tolist(), times, strict=True))


def _launches(
    view: RankTrace, work: Launches, group: Integers, known: NDArray[np.bool_]
) -> dict[int, tuple[Integers, Integers]]:
    """When known work was launched, and which it is, ascending: of each group apart."""
    found = {}
    for one in np.unique(group).tolist():
        mine = np.flatnonzero(known & (group == one))
        when = view.start[work.call[mine]]
        order = np.lexsort((work.start[mine], when))
        found[one] = when[order], mine[order]
    return found


def host_waits(view: RankTrace, work: Launches, order: Order) -> HostWaits:
    """Find what the host waited for."""
    exact = resolved(view)
    found: list[tuple[int, list[int]]] = []
    inferred = unresolved = 0
    for call, kind in _calls(view, work):
        if call in exact:
            awaited = _exact(view, order, call, exact[call])
        else:
            awaited = _awaited(view, work, order, call, kind)
            inferred += kind != "device" and bool(awaited)
        unresolved += not awaited
        if awaited:
            found.append((call, awaited))
    return _as_waits(view, work, found, inferred, unresolved)


def _as_waits(
    view: RankTrace,
    work: Launches,
    found: list[tuple[int, list[int]]],
    inferred: int,
    unresolved: int,
) -> HostWaits:
    call = np.array([c for c, _ in found], np.int64)
    wait = np.array([i for i, (_, a) in enumerate(found) for _ in a], np.int64)
    awaited = np.array([w for _, a in found for w in a], np.int64)
    until = view.start[call].copy()
    np.maximum.at(until, wait, work.end[awaited])
    return HostWaits(
        WaitSpans(view.lines[call], view.start[call], until),
        wait,
        awaited,
        call,
        inferred,
        unresolved,
    )


def _calls(view: RankTrace, work: Launches) -> list[tuple[int, str]]:
    """Calls that may wait, in order."""
    runtime = view.kind == Event.RUNTIME
    calls = [
        (int(r), kind)
        for kind, pattern in (("device", WHOLE), ("stream", STREAM), ("event", EVENT))
        for r in np.flatnonzero(runtime & view.named(pattern))
    ]
    copying = np.flatnonzero((work.call >= 0) & (view.kind[work.row] == Event.COPY))
    copies = view.named(COPY)
    calls += [
        (int(work.call[k]), f"own {k}")
        for k in copying.tolist()
        if copies[work.call[k]] and work.end[k] <= view.end[work.call[k]]
    ]
    return sorted(calls, key=lambda c: int(view.start[c[0]]))


def _awaited(view: RankTrace, work: Launches, order: Order, call: int, kind: str) -> list[int]:
    """What a call waited for, as far as the order of launches tells."""
    if kind.startswith("own"):
        return [int(kind.split()[1])]
    before, ended = int(view.start[call]), int(view.end[call])
    candidates = {line: order.last(line, before, ended) for line in order.lines}
    candidates = {line: k for line, k in candidates.items() if k >= 0}
    if kind == "device":
        return list(candidates.values())
    own = order.line_of_thread(int(view.lines[call]), before)
    if kind == "stream" and own in candidates:
        return [candidates[own]]
    latest = max(candidates.values(), key=lambda k: int(work.end[k]), default=-1)
    return [latest] if latest >= 0 else []


def resolved(view: RankTrace) -> dict[int, dict[str, int]]:
    """What ``cuda_sync`` events say of the calls with the same correlation."""
    syncs = view.trace.syncs
    if not len(syncs):
        return {}
    position = {int(r): i for i, r in enumerate(view.rows)}
    by_correlation: dict[int, dict[str, int]] = {}
    for i, row in enumerate(syncs["event"].tolist()):
        if row in position:
            said = {k: int(syncs[k][i]) for k in ("stream", "awaited_stream", "awaited_record")}
            by_correlation[int(view.correlation[position[row]])] = said
    if not by_correlation:
        return {}
    calls = np.flatnonzero(view.kind == Event.RUNTIME).tolist()
    return {
        c: by_correlation[int(view.correlation[c])]
        for c in calls
        if int(view.correlation[c]) in by_correlation
    }


def _exact(view: RankTrace, order: Order, call: int, said: dict[str, int]) -> list[int]:
    """What the profiler says a host call waited for: an event, a stream, or everything."""
    before, ended = int(view.start[call]), np.iinfo(np.int64).max
    record = order.recorded_at(said["awaited_record"])
    stream = said["awaited_stream"] if said["awaited_stream"] >= 0 else said["stream"]
    lines = [ln for ln in order.lines if stream < 0 or order.streams[ln] == stream]
    found = [order.last(ln, record if record is not None else before, ended) for ln in lines]
    return [k for k in found if k >= 0]
