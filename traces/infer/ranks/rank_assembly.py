"""Assembly of a rank's graph: segments and launched work become ops, waits dependencies."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ....sim.facts.ops import Kind
from ...column_table import Ints
from ...event_columns import Event
from ..events.cpu_segments import NO_EVENT, lane_time_keys
from ..events.rank_trace import RankTrace
from ..events.steps import Steps
from ..waits.launches import EARLIER
from .collective import RecordedCollective, is_collective, recorded_collectives
from .gaps import add_collective_returns, add_gaps, count_gaps_as_gpu_time
from .op_provenance import op_provenance
from .rank_analysis import RankAnalysis, rank_analysis
from .rank_graph import NEVER, RankGraph


def rank_graph(events: RankTrace, steps: Steps, *, serialise: bool) -> RankGraph:
    """Infer the ops and dependencies of one rank.

    Parameters
    ----------
    steps : steps to keep; events outside of them are left out
    serialise : True if launched work also waits for the work that ended last before it
    """
    return _RankAssembly(rank_analysis(events, steps), serialise).graph()


IN_FLIGHT, LEFT_OUT = -2, -1
"""Steps of work that was launched before the first, and of work outside of all."""


class _RankAssembly:
    """Builder of a rank's graph: numbers the ops and collects their dependencies."""

    def __init__(self, analysis: RankAnalysis, serialise: bool):
        self.analysis, self.serialise = analysis, serialise
        self.events, self.segments, self.work = analysis.events, analysis.segments, analysis.work
        self.zero = int(analysis.steps.start[0])
        self.work_step = self._steps_of_work()
        self.work_op = np.full(len(self.work.row), -1)
        self.segment_step = self._steps_of_segments()
        self.segment_op = _number_kept_rows(self.segment_step >= 0, 0)
        n = int((self.segment_step >= 0).sum())
        self.work_op = _number_kept_rows(self.work_step != LEFT_OUT, n)
        self.edges: list[tuple[Ints, Ints]] = []

    def _steps_of_segments(self) -> Ints:
        """Index of the step of each segment, shape (segments,); -1 for segments that are left out.

        The main thread is kept from mark to mark. Other threads are kept from their first work to
        the last work that something waits for. A thread that nothing waits for is left out.
        """
        segments = self.segments
        step = self.analysis.steps.position_at(segments.start)
        awaited = self._awaited_segments()
        busy = ((segments.event >= 0) | (segments.wait >= 0)) & ~self._is_unknown_wait
        busy[awaited] = True
        kept = np.flatnonzero((step >= 0) & busy)
        first = np.full(max(self.events.host_lane_count, 1), len(busy))
        last = np.full(max(self.events.host_lane_count, 1), -1)
        np.minimum.at(first, segments.lane[kept], kept)
        np.maximum.at(last, segments.lane[awaited], awaited)
        at, lane = np.arange(len(busy)), segments.lane
        idle = ((at < first[lane]) | (at > last[lane])) & (lane > 0)
        return np.where(idle, -1, step)

    def _awaited_segments(self) -> Ints:
        """Indices of segments that work of the steps, or another thread, waits for."""
        launched = self.work.call >= 0
        launch = self.segments.last_segment_before(self.work.thread_cuts(self.events))
        launch = launch[self.work_step[launched] != LEFT_OUT]
        awaited = self.segments.last_segment_before(self.analysis.thread_waits.cuts)
        both = np.concatenate([launch, awaited])
        return np.unique(both[both >= 0])

    @cached_property
    def _is_unknown_wait(self) -> NDArray[np.bool_]:
        """True where a segment is a wait of unknown cause, shape (segments,)."""
        unknown, segments = self.analysis.unknown, self.segments
        change = np.zeros(len(segments.lane) + 1, np.int64)
        for times, step in ((unknown.start, 1), (unknown.end, -1)):
            at = np.searchsorted(
                *lane_time_keys(segments.lane, segments.start, unknown.lane, times)
            )
            np.add.at(change, at, step)
        return np.asarray((np.cumsum(change)[:-1] > 0) & (segments.end > segments.start))

    def _steps_of_work(self) -> Ints:
        """Index of the step in which each piece of work was launched, shape (work,).

        `IN_FLIGHT` if it was launched before the first step and ended in it; `LEFT_OUT` if it is
        outside of all steps.
        """
        work = self.work
        step = self.analysis.steps.position_at(work.caller_free)
        step[work.issued == EARLIER] = LEFT_OUT
        flying = (step < 0) & (work.issued < self.zero) & (work.end > self.zero)
        return np.where(flying & self.events.is_gpu_work[work.row], IN_FLIGHT, step)

    def graph(self) -> RankGraph:
        events, segments, launches = self.events, self.segments, self.work
        self._collect_dependencies()
        segment = np.flatnonzero(self.segment_step >= 0)
        work = np.flatnonzero(self.work_step != LEFT_OUT)
        source, target = (np.concatenate(c) for c in zip(*self.edges, strict=True))
        begins = np.where(self.work_step == IN_FLIGHT, self.zero, EARLIER)
        start = np.concatenate([segments.start[segment], np.maximum(launches.start, begins)[work]])
        graph = RankGraph(
            events,
            self.analysis.steps,
            op_provenance(events, self.analysis.tree, launches),
            kind=np.concatenate([self._segment_kinds(segment), self._work_kinds(work)]),
            lane=np.concatenate([segments.lane[segment], launches.lane[work]]),
            period=np.concatenate(
                [self.segment_step[segment], np.maximum(self.work_step, -1)[work]]
            ),
            start=start,
            end=np.concatenate([segments.end[segment], launches.end[work]]),
            event=np.concatenate([self._events_of(segment), launches.row[work]]),
            release=self._release_times(start, target),
            source=source,
            target=target,
            collectives=self._collectives(),
            facts=self._inference_counts(),
        )
        with_gaps = add_gaps(
            graph, len(segment), self._launch_latencies()[work], self._median_queue_gap()
        )
        with_gaps = count_gaps_as_gpu_time(
            with_gaps, self.work_op[self.analysis.occupancy.mid_kernel]
        )
        with_gaps = count_gaps_as_gpu_time(
            with_gaps, self.work_op[self._first_work_of_streams()], earlier=True
        )
        return add_collective_returns(with_gaps, self.work_op[self.analysis.network_waits.work])

    def _collectives(self) -> list[RecordedCollective]:
        recorded = recorded_collectives(self.events, self.work, self.analysis.tree)
        return [
            c._replace(work=int(self.work_op[c.work]), in_flight=bool(step == IN_FLIGHT))
            for c in recorded
            if (step := self.work_step[c.work]) != LEFT_OUT
        ]

    def _first_work_of_streams(self) -> Ints:
        """Indices of work that is the first on its stream and follows a wait for another stream."""
        waits = self.analysis.stream_waits
        told = np.unique(np.concatenate([waits.work, waits.unresolved]))
        first: Ints = told[self.work.previous_on_lane()[told] < 0]
        return first

    def _collect_dependencies(self) -> None:
        """Collect all dependencies between kept ops."""
        analysis, segments, work = self.analysis, self.segments, self.work
        host, network, threads = analysis.host_waits, analysis.network_waits, analysis.thread_waits
        self._add_dependencies(self._program_order_pairs())
        before = work.previous_on_lane()
        self._add_dependencies((_ops_at(before, self.work_op), self.work_op))
        launched = np.flatnonzero(work.call >= 0)
        at = segments.last_segment_before(work.thread_cuts(self.events))
        self._add_dependencies((_ops_at(at, self.segment_op), self.work_op[launched]))
        # op after each wait; waits are numbered as rank_analysis joins them: host, network, threads
        resumed = np.full(int(segments.wait.max(initial=-1)) + 1, -1, np.int64)
        resumed[segments.wait[segments.wait >= 0]] = self.segment_op[segments.wait >= 0]
        hosts = len(host.waits.lane)
        networks = hosts + len(network.waits.lane)
        self._add_dependencies((self.work_op[host.work], resumed[host.wait]))
        self._add_dependencies((self.work_op[network.work], resumed[hosts:networks]))
        done = segments.last_segment_before(threads.cuts)
        self._add_dependencies((_ops_at(done, self.segment_op), resumed[networks:]))
        streams = analysis.stream_waits
        self._add_dependencies((self.work_op[streams.awaited], self.work_op[streams.work]))
        self._add_dependencies(
            (self.work_op[analysis.occupancy.awaited], self.work_op[analysis.occupancy.work])
        )
        if self.serialise:
            self._add_dependencies(self._recorded_order_pairs())

    def _add_dependencies(self, pairs: tuple[Ints, Ints]) -> None:
        source, target = pairs
        keep = (source >= 0) & (target >= 0)
        self.edges.append((source[keep], target[keep]))

    def _program_order_pairs(self) -> tuple[Ints, Ints]:
        """Dependencies (source, target) between consecutive kept segments of a thread."""
        kept = np.flatnonzero(self.segment_op >= 0)
        lane = self.segments.lane[kept]
        same = lane[1:] == lane[:-1]
        return self.segment_op[kept[:-1][same]], self.segment_op[kept[1:][same]]

    def _recorded_order_pairs(self) -> tuple[Ints, Ints]:
        """Dependencies (source, target) of launched work on the work that ended last before it.

        Work of zero duration waits for other work at the same instant only if it comes later.
        """
        work = self.work
        order = np.lexsort((work.start, work.end))
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        ended = np.searchsorted(work.end[order], work.start, side="right")
        at = np.minimum(ended, place) - 1
        return np.where(at >= 0, self.work_op[order[np.maximum(at, 0)]], -1), self.work_op

    def _events_of(self, segment: Ints) -> Ints:
        """Event of each segment; for a wait, the call that waits or the work that is awaited."""
        analysis = self.analysis
        unknown = np.full(len(analysis.thread_waits.waits.lane), NO_EVENT)
        awaited = self.work.row[analysis.network_waits.work]
        by_wait = np.concatenate([analysis.host_waits.call, awaited, unknown])
        wait, own = self.segments.wait[segment], self.segments.event[segment]
        return np.where(wait >= 0, by_wait[wait] if len(by_wait) else NO_EVENT, own)

    def _segment_kinds(self, segment: Ints) -> NDArray[np.uint8]:
        """Kind of each segment: compute, host, or gap."""
        event, wait = self.segments.event[segment], self.segments.wait[segment]
        computing = self.analysis.computing[event] & (event >= 0)
        kind = np.where(computing, Kind.COMPUTE, Kind.HOST)
        gap = ((event < 0) & (wait < 0)) | self._is_unknown_wait[segment]
        return np.where(gap, Kind.GAP, kind).astype(np.uint8)

    def _work_kinds(self, work: Ints) -> NDArray[np.uint8]:
        """Kind of launched work: compute, copy, or collective."""
        copies = self.events.kind[self.work.row[work]] == Event.COPY
        kind = np.where(copies, Kind.COPY, Kind.COMPUTE)
        collective = is_collective(self.events, self.work)[work]
        return np.where(collective, Kind.COLLECTIVE, kind).astype(np.uint8)

    def _release_times(self, start: Ints, target: Ints) -> Ints:
        """Earliest start of each op in ticks, shape (n,); NEVER if an op waits only for other ops.

        It is given for ops that wait for no op, and for those behind left-out work on a stream.
        """
        release = np.full(len(start), NEVER)
        free = np.ones(len(start), np.bool_)
        free[target] = False
        release[free] = start[free]
        work, before = self.work, self.work.previous_on_lane()
        kept = self.work_step != LEFT_OUT
        cut = np.flatnonzero((before >= 0) & kept & ~kept[before])
        op = self.work_op[cut]
        release[op] = np.maximum(release[op], np.minimum(work.end[before[cut]], work.start[cut]))
        return release

    def _launch_latencies(self) -> Ints:
        """Usual ticks from the end of a launching call to the start of its work, shape (work,)."""
        work = self.work
        launching = work.caller_free - np.where(
            work.call >= 0, self.events.start[work.call], work.caller_free
        )
        return np.maximum(work.latency - launching, 0)

    def _median_queue_gap(self) -> int:
        """Median ticks between consecutive work on a stream, if the second work was queued."""
        work, before = self.work, self.work.previous_on_lane()
        queued = (before >= 0) & (work.call >= 0) & (work.end[before] > work.caller_free)
        lag = (work.start - work.end[before])[queued]
        return int(np.median(lag)) if len(lag) else 0

    def _inference_counts(self) -> dict[str, int]:
        """Numbers of recorded, inferred and unresolved launches and waits; ticks of host time."""
        analysis = self.analysis
        host, streams, room = analysis.host_waits, analysis.stream_waits, analysis.occupancy.work
        kept = self.work_step != LEFT_OUT
        inferred = host.inferred + streams.inferred + len(room)
        threads = np.unique(self.segments.lane[self.segment_step >= 0])
        unknown = np.isin(analysis.unknown.lane, threads).sum()
        unresolved = int(unknown) + len(streams.unresolved)
        return {
            "unlinked": int(((self.work.call < 0) & kept).sum()),
            "launched": int(kept.sum()),
            "in_flight": int((self.work_step == IN_FLIGHT).sum()),
            "left_out": int(len(kept) - kept.sum()),
            "inferred": inferred,
            "resolved": len(host.wait) + len(streams.work) + len(room) - inferred,
            "unresolved": unresolved + analysis.network_waits.unresolved,
            "unawaited": self._count_unawaited_threads(),
            **self._host_ticks(),
        }

    def _count_unawaited_threads(self) -> int:
        """Number of threads active in the steps but left out, as nothing waits for them."""
        lane, kept = self.segments.lane, self.segment_step >= 0
        busy = (self.analysis.steps.position_at(self.segments.start) >= 0) & (
            self.segments.event >= 0
        )
        return len(np.setdiff1d(lane[busy], lane[kept]))

    def _host_ticks(self) -> dict[str, int]:
        """Ticks of host threads by activity, from the first to the last segment of each thread."""
        kept = np.flatnonzero(self.segment_step >= 0)
        lane, lasts = self.segments.lane[kept], (self.segments.end - self.segments.start)[kept]
        gap = self._segment_kinds(kept) == Kind.GAP
        new = np.flatnonzero(np.append(True, lane[1:] != lane[:-1])[: len(lane)])
        last = np.append(new[1:], len(lane)) - 1 if len(new) else new
        whole = (self.segments.end[kept[last]] - self.segments.start[kept[new]]).sum()
        idle = self.analysis.idle
        polls = idle.take(
            idle.is_cause_known
            & (idle.poll > 0)
            & (self.analysis.steps.position_at(idle.start) >= 0)
        )
        poll = (polls.until - polls.start).sum()
        return {
            "work": int(lasts[~gap].sum()),
            "wait": int(whole - lasts.sum() - poll),
            "poll": int(poll),
            "unknown": int(lasts[gap].sum()),
        }


def _number_kept_rows(kept: NDArray[np.bool_], first: int) -> Ints:
    """Number the kept rows, ascending from `first`; -1 for other rows."""
    return np.where(kept, np.cumsum(kept) - 1 + first, -1)


def _ops_at(positions: Ints, ops: Ints) -> Ints:
    """Op at each index; -1 where the index is -1."""
    return np.append(ops, -1)[positions]
