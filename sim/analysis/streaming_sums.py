"""Aggregates of a run, computed during the run from finished graphs, without one row per op.

The results equal those of :mod:`.op_sums`. The time breakdown needs all ops of a rank that may
overlap, so ops are kept until no open op can reach back to them. The held amounts of a graph are
counted when the graph is over, since they have been released by then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..engine_api.interface import MAX_TICK, NEVER, OVER, ComponentTable, HeldOpTimes, State
from ..facts.ops import Kind
from ..facts.system import System
from ..record.aggregates import BOXES, EXPOSED, RunAggregates, add_dropped_ops, add_ticks
from ..record.schedule import SubmittedRun, ranks_of
from ..units import Seconds, seconds
from .activity import LAYERS, BusyIntervals, box_ticks_of_places, layer_of_ops
from .same_ops_graphs import SameOpsGraphs, Ticks, group_graphs_by_ops

LATE = np.iinfo(np.int64).max
NETWORK, IDLE = LAYERS.index("network"), BOXES.index("idle")


class StreamingSums:
    """Aggregates of one job, updated with each batch of ended ops.

    Parameters
    ----------
    system, parts, tick : system, component table and tick length of the run
    first : tick at which the job arrived
    given : int or None
        Index of the graph whose periods count; None for all graphs.
    keep : detail level, ``none`` or ``ranks``
    compiled : True if compiled kernels may be used
    """

    def __init__(
        self,
        system: System,
        parts: ComponentTable,
        tick: Seconds,
        first: int,
        given: int | None,
        keep: str,
        *,
        compiled: bool,
    ):
        self.first, self.given, self.keep = first, given, keep
        self.tick, self.whole = tick, parts.capacity
        self.busy: NDArray[Any] = np.zeros((len(parts), len(Kind)), np.int64)
        self.moved = np.zeros((len(parts), len(Kind)))
        self.sources: dict[str, int] = {}
        self.spans = PeriodSpans(first)
        boxes = list(range(len(BOXES))) if keep == "ranks" else [EXPOSED]
        self.line = RankBoxTicks(boxes, first, compiled)
        self.ranks, self.last_outside_periods = 0, NEVER
        self.held_yet: list[SameOpsGraphs] = []  # graphs that are not over and hold amounts
        self.held_late: list[
            SameOpsGraphs
        ] = []  # graphs that released amounts after the last end so far
        self.waited_yet: list[
            BusyIntervals
        ] = []  # waits for capacities whose time is not yet certain
        self.rate = system.components.column(lambda c: c.rate or np.inf, np.float64)
        self.bounded = parts.queues is not None
        self.dropped = np.zeros(len(parts), np.int64)  # in graphs that are over
        self.dropped_yet = self.dropped  # in the others

    def add(
        self,
        held: HeldOpTimes,
        own: Sequence[int],
        runs: Sequence[SubmittedRun],
        now: int,
    ) -> None:
        """Add the ops that ended since the last call.

        Parameters
        ----------
        own : numbers of the graphs in memory that belong to the job
        runs : submitted run of each graph in memory
        """
        until, rows = now, []
        groups = list(group_graphs_by_ops(held, own, runs, self.given))
        self.held_yet, self.waited_yet = [], []
        if self.bounded:
            self._count_dropped_ops(groups)
        for group in groups:
            self.ranks = max(self.ranks, ranks_of(group.run))
            if group.fresh.any():
                self._sum_group(group)
                rows.append(_busy_intervals(group))
            if group.amount.size:
                over = group.over[:, None]
                self.moved += self._held_seconds(group, group.granted, group.returned, over)
                self.held_late.append(group)
                self.held_yet += [group] * (not over.all())
                waits = CapacityWaits.of(group)
                rows.append(waits.busy(group, waits.settled))
                self.waited_yet.append(waits.busy(group, waits.open))
                until = min(until, waits.reached)
        latest = max(self.spans.last, self.last_outside_periods)
        self.held_late = [g for g in self.held_late if (g.returned > latest)[g.over].any()]
        for group in groups:
            until = min(until, _earliest_open_tick(group, self.spans))
        self.line.add(rows, self.spans.marks(), until, self.ranks)

    def _count_dropped_ops(self, groups: Sequence[SameOpsGraphs]) -> None:
        """Count dropped ops: for good in graphs that are over, and again in all others."""
        self.dropped_yet = np.zeros_like(self.dropped)
        for group in groups:
            slot, state = group.slots[group.shape], group.state[:, : len(group.run.graph)]
            add_dropped_ops(self.dropped, slot[group.over], state[group.over])
            add_dropped_ops(self.dropped_yet, slot[~group.over], state[~group.over])

    def _sum_group(self, group: SameOpsGraphs) -> None:
        run, n = group.run, len(group.run.graph)
        block, fresh, end = run.graph.explicit, group.fresh[:, :n], group.end[:, :n]
        own = fresh & group.own[:, None]
        if own.any():
            start = np.where(own, group.start[:, :n], LATE).min(axis=0)
            self.spans.add(run, start, np.where(own, end, NEVER).max(axis=0))
        outside = fresh & ~group.own[:, None]
        if outside.any():
            self.last_outside_periods = max(self.last_outside_periods, int(end[outside].max()))
        took = np.where(fresh, end - group.start[:, :n], 0)
        if took.sum(dtype=np.float64) < 2.0**62:
            took = np.add.reduceat(took, group.heads, axis=0)
            parts = [(np.arange(len(took)), took)]
        else:
            parts = [(group.shape[k : k + 1], took[k : k + 1]) for k in range(len(took))]
        slots = group.slots
        for shape, ticks in parts:
            row, place = np.nonzero(slots[shape] >= 0)
            op = block.op_of_place[place]
            at = slots[shape[row], place], block.ops.kind[op]
            self.busy = add_ticks(self.busy, at, ticks[row, op])
        self._add_by_source(group, parts)
        self._add_work(group)

    def _add_by_source(self, group: SameOpsGraphs, parts: Sequence[tuple[Ticks, Ticks]]) -> None:
        """Add the ticks of ops, (m, n) by shape number, to the sources of their timing."""
        answers = [run.answers for run in group.shapes]
        first = np.cumsum([0, *(len(one.sources) for one in answers)])
        source = np.stack([one.source for one in answers]) + first[:-1, None]
        sums: NDArray[Any] = np.zeros(first[-1], np.int64)
        for shape, ticks in parts:
            sums = add_ticks(sums, (source[shape].ravel(),), ticks.ravel())
        ended = np.logical_or.reduceat(group.fresh.any(axis=1), group.heads)
        texts = (text for one in answers for text in one.sources)
        which = np.repeat(ended, np.diff(first)).tolist()
        for there, text, t in zip(which, texts, sums.tolist(), strict=True):
            if there:
                self.sources[text] = self.sources.get(text, 0) + t

    def _add_work(self, group: SameOpsGraphs) -> None:
        """Add the work of ended ops, as s at full rate."""
        usages = [run.answers.timing.usage for run in group.shapes]
        used = [
            (usage, work)
            for usage, work in zip(usages, group.work, strict=True)
            if usage is not None
        ]
        if not used:
            return
        uses = np.diff([usage.indptr for usage, _ in used])
        kind = np.tile(group.run.graph.ops.kind, len(used))
        component = np.concatenate([usage.component for usage, _ in used])
        weight = np.concatenate([usage.weight for usage, _ in used])
        row = np.repeat(np.arange(uses.size), uses.ravel())
        work = np.concatenate([work for _, work in used])[row] * weight / self.rate[component]
        np.add.at(self.moved, (component, kind[row]), work)

    def _held_seconds(
        self, group: SameOpsGraphs, start: Ticks, end: Ticks, where: NDArray[np.bool_]
    ) -> NDArray[np.float64]:
        """(components, kinds) time in s that ops held capacities, times the fraction held.

        The columns are the kinds of op.
        """
        claims, found = group.run.lowered.claims, np.zeros_like(self.moved)
        took = np.where(where & (group.granted != NEVER), end - start, 0)
        share = group.amount / self.whole[claims.component]
        held = (share * seconds(took, self.tick)).sum(axis=0)
        np.add.at(found, (claims.component, group.run.graph.ops.kind[claims.op]), held)
        return found

    def used_seconds(self, last: int) -> NDArray[np.float64]:
        """(components, kinds) work of ops as s at full rate, plus time of held capacities.

        The holding time is weighted by the fraction held, and counted up to tick ``last``.
        """
        found = self.moved.copy()
        for group in self.held_yet:
            kept = np.where(group.returned == NEVER, last, np.minimum(group.returned, last))
            start = np.minimum(group.granted, last)
            found += self._held_seconds(group, start, kept, ~group.over[:, None])
        for group in self.held_late:
            start, end = np.maximum(group.granted, last), np.maximum(group.returned, last)
            found -= self._held_seconds(group, start, end, group.over[:, None])
        return found

    def aggregates(self, ops: int) -> RunAggregates:
        """Aggregates of the job at the end of the run.

        Parameters
        ----------
        ops : number of ops that were submitted
        """
        steps, start, end = self.spans.table(self.ranks)
        found = RunAggregates(
            ops, self.first, steps, start, end, self.busy, self.moved, self.sources,
            last_outside_periods=max(self.last_outside_periods, self.spans.last_outside_periods),
            last_outside_periods_of_graph=self.spans.last_outside_periods,
            dropped=self.dropped + self.dropped_yet if self.bounded else None,
        )  # fmt: skip
        found = replace(found, work_seconds=self.used_seconds(found.last))
        self.line.add(self.waited_yet, self.line.marks, self.line.until, self.ranks)
        boxes = self.line.between(found.breakdown_bounds, self.ranks)
        if self.keep == "ranks":
            return found.with_time_breakdown(boxes, "ranks")
        return replace(found, exposed=boxes[0, 1:].copy())


class CapacityWaits(NamedTuple):
    """Waits for capacities in graphs of equal shape (same ops and structure).

    Tables have one row per graph and one column per op that holds an amount.

    Parameters
    ----------
    op : (m,) row of each op in its graph
    asked, granted : ticks of request and grant; `granted` is NEVER if the op did not wait or still
        waits
    settled : True if it is now certain that the op waited
    open : True if the wait may still change: the op may be resumed and wait again
    reached : earliest tick at which an open wait may begin
    """

    op: Ticks
    asked: Ticks
    granted: Ticks
    settled: NDArray[np.bool_]
    open: NDArray[np.bool_]
    reached: int

    @classmethod
    def of(cls, group: SameOpsGraphs) -> CapacityWaits:
        """Collect the waits for capacities in graphs of equal shape."""
        op, heads = np.unique(group.run.lowered.claims.op, return_index=True)
        waited = group.asked < group.granted
        asked = np.minimum.reduceat(np.where(waited, group.asked, MAX_TICK), heads, axis=1)
        granted = np.maximum.reduceat(np.where(waited, group.granted, NEVER), heads, axis=1)
        over, state = group.over[:, None], group.state[:, op]
        gone = over & ((state == State.CANCELLED) | (state == State.DROPPED))
        unsettled = ~over & (state != State.ENDED)
        ever = granted != NEVER
        waits = waited | ((group.asked != NEVER) & (group.granted == NEVER))
        since = np.minimum.reduceat(np.where(waits, group.asked, LATE), heads, axis=1)
        reached = int(np.where(unsettled, since, LATE).min(initial=LATE))
        settled = ever & (group.fresh[:, op] | gone)
        return cls(op.astype(np.int64), asked, granted, settled, ever & unsettled, reached)

    def busy(self, group: SameOpsGraphs, which: NDArray[np.bool_]) -> BusyIntervals:
        """Selected waits as busy intervals of the network layer: zero length, early arrival."""
        of = group.run.graph.explicit.op_of_place
        place = np.flatnonzero(np.isin(of, self.op))
        at = np.searchsorted(self.op, of[place])
        these = which[:, at]
        rank = np.broadcast_to(group.run.rank[place], these.shape)[these]
        granted = self.granted[:, at][these]
        network = np.full(len(rank), NETWORK, np.int8)
        return BusyIntervals(rank, network, self.asked[:, at][these], granted, granted)


class PeriodSpans:
    """First start and last end of the ops of each period on each rank.

    Ops without a period form a period of their own, used only if there is no other.
    """

    def __init__(self, origin: int) -> None:
        self.origin = origin  # first tick of the run
        self._row: dict[int, int] = {}
        self._start = np.full((4, 1), LATE)
        self._end = np.full((4, 1), NEVER, np.int64)

    def add(self, run: SubmittedRun, start: Ticks, end: Ticks) -> None:
        """Add first start and last end of each op of a graph, (n,) each; NEVER if not ended."""
        block, rank = run.graph.explicit, run.rank
        there = np.flatnonzero(end[block.op_of_place] != NEVER)
        op = block.op_of_place[there]
        periods, which = np.unique(block.ops.period[op], return_inverse=True)
        rows = np.array([self._row.setdefault(p, len(self._row)) for p in periods.tolist()], int)
        self._grow_tables(len(self._row), 1 + int(rank.max(initial=-1)))
        at: Any = rows[which], rank[there]
        np.minimum.at(self._start, at, start[op])
        np.maximum.at(self._end, at, end[op])

    def _grow_tables(self, rows: int, ranks: int) -> None:
        have = self._start.shape
        size = have[0] if rows <= have[0] else max(rows, 2 * have[0]), max(have[1], ranks)
        if size != have:
            start, end = np.full(size, LATE), np.full(size, NEVER, np.int64)
            start[: have[0], : have[1]], end[: have[0], : have[1]] = self._start, self._end
            self._start, self._end = start, end

    def table(self, ranks: int) -> tuple[Ticks, Ticks, Ticks]:
        """Period numbers; then first start and last end, (periods, ranks), -1 if missing."""
        self._grow_tables(1, ranks)
        steps = self._period_numbers
        rows = [self._row[p] for p in steps] or [self._row.setdefault(-1, 0)]
        start, end = self._start[rows], self._end[rows]
        start[start == LATE] = NEVER
        return np.array(steps, np.int64), start, end

    @property
    def last(self) -> int:
        """Tick of the last end so far."""
        return int(self._end.max())

    @property
    def last_outside_periods(self) -> int:
        """Tick of the last end of an op without a period."""
        return int(self._end[self._row[-1]].max()) if -1 in self._row else NEVER

    @property
    def _period_numbers(self) -> list[int]:
        return sorted(p for p in self._row if p >= 0)

    @property
    def first(self) -> tuple[int, int]:
        """Lowest period so far and its earliest start tick; both ``LATE`` before any."""
        if not self._period_numbers:
            return LATE, LATE
        period = self._period_numbers[0]
        return period, int(self._start[self._row[period]].min())

    def marks(self) -> Ticks:
        """Boundary ticks of the windows if no further op ended, ascending."""
        rows = [self._row[p] for p in self._period_numbers]
        if not rows:
            return np.array([self.origin])
        first = [self.origin, self.first[1], max(self.origin, self.last_outside_periods)]
        return np.unique(np.append(self._end[rows].max(axis=1), first))


class RankBoxTicks:
    """Time breakdown of ranks between boundary ticks, for the part of the run that is complete.

    Boundaries may be replaced while the run continues. A boundary that disappears was not final:
    the start of a period stays, and its end only moves into the part that is not yet complete.

    Parameters
    ----------
    boxes : indices of the categories that are kept
    first : tick of the first boundary
    """

    def __init__(self, boxes: Sequence[int], first: int, compiled: bool):
        self.which, self.compiled = list(boxes), compiled
        self.marks = np.array([first])
        # One column per interval between marks; the last interval is open.
        self.boxes = np.zeros((len(self.which), 1, 0), np.int64)
        self.until = first
        self.rows = BusyIntervals.of([])  # intervals that end after `until`

    def add(self, rows: Sequence[BusyIntervals], marks: Ticks, until: int, ranks: int) -> None:
        """Add busy intervals of ended ops; no later call may add activity before tick ``until``."""
        self.rows = BusyIntervals.of([self.rows, *rows])
        self._divide_at_marks(marks, ranks)
        if until <= self.until:
            return
        inner = self.marks[(self.marks > self.until) & (self.marks < until)]
        edges = np.concatenate([[self.until], inner, [until]])
        found = box_ticks_of_places(self.rows, edges, ranks, compiled=self.compiled)
        piece = np.searchsorted(self.marks, edges[:-1], side="right") - 1
        _add_at_columns(self.boxes, piece, found[self.which])
        self.rows, self.until = self.rows.after(until), until

    def _divide_at_marks(self, marks: Ticks, ranks: int) -> None:
        """Divide the sums at new boundaries; only the last, incomplete piece may be split."""
        old, boxes = self.marks, np.zeros((len(self.which), len(marks), ranks), np.int64)
        piece = np.searchsorted(marks, old, side="right") - 1
        _add_at_columns(boxes[:, :, : self.boxes.shape[2]], piece, self.boxes)
        self.marks, self.boxes = marks, boxes

    def between(self, marks: Ticks, ranks: int) -> NDArray[np.int64]:
        """Ticks per kept category between the final boundaries, (categories, windows, ranks)."""
        self.add([], np.unique(marks), int(marks[-1]), ranks)
        sums = np.zeros((len(self.which), len(self.marks) + 1, ranks), np.int64)
        np.cumsum(self.boxes, axis=1, out=sums[:, 1:])
        found = np.diff(sums[:, np.searchsorted(self.marks, marks)], axis=1)
        if IDLE in self.which:  # also before a rank had its first op
            found[IDLE] += np.diff(marks)[:, None] - found.sum(axis=0)
        return found

    def total(self, first: int, last: int, ranks: int) -> NDArray[np.int64]:
        """Ticks in each kept category in one window over the complete run, (categories, ranks)."""
        self.add([], self.marks, last, ranks)
        found: NDArray[np.int64] = self.boxes.sum(axis=1)
        if IDLE in self.which:
            found[IDLE] += last - first - found.sum(axis=0)
        return found


def merge_job_aggregates(
    sums: Sequence[StreamingSums], kept: Sequence[RunAggregates]
) -> RunAggregates:
    """Combine the aggregates of several jobs into one window; their ranks are listed job after job.

    Parameters
    ----------
    kept : aggregates of each job
    """
    first = min(k.first for k in kept)
    ends = (max(int(k.end.max(initial=NEVER)), k.last_outside_periods) for k in kept)
    last = max(first, *ends)  # a job without ended ops does not extend the window
    sources: dict[str, int] = {}
    for one in kept:
        for text, t in one.sources.items():
            sources[text] = sources.get(text, 0) + t
    boxes = np.concatenate([s.line.total(first, last, s.ranks) for s in sums], axis=1)
    start = np.concatenate([np.where(k.start < 0, LATE, k.start).min(axis=0) for k in kept])
    busy = np.sum([k.busy for k in kept], axis=0, dtype=object)
    bounded = sums[0].bounded
    found = RunAggregates(
        sum(k.ops for k in kept),
        first,
        np.empty(0, np.int64),
        np.where(start == LATE, NEVER, start)[None],
        np.concatenate([k.end.max(axis=0) for k in kept])[None],
        busy if busy.max(initial=0) >= 2**62 else busy.astype(np.int64),
        np.sum([s.used_seconds(last) for s in sums], axis=0),
        sources,
        last_outside_periods=last,
        dropped=np.sum([s.dropped + s.dropped_yet for s in sums], axis=0) if bounded else None,
    )
    windows = np.stack([np.zeros_like(boxes), boxes], axis=1)  # nothing precedes the only window
    if sums[0].keep == "ranks":
        return found.with_time_breakdown(windows, "ranks")
    return replace(found, exposed=windows[0, 1:].copy())


def _add_at_columns(pieces: NDArray[np.int64], at: NDArray[Any], more: NDArray[np.int64]) -> None:
    """Add ``more``, (categories, m, ranks) ticks, to the m columns ``at`` of ``pieces``."""
    where: Any = (slice(None), at)
    np.add.at(pieces, where, more)


def _earliest_open_tick(group: SameOpsGraphs, spans: PeriodSpans) -> int:
    """Earliest tick at which activity of an op that has not ended may still be counted."""
    block = group.run.graph.explicit
    op, (period, began) = block.op_of_place, spans.first
    layer, state, start = layer_of_ops(group.run.graph)[op], group.state[:, op], group.start[:, op]
    live = ~np.isin(state, [*OVER])
    waits = (layer == NETWORK) & (group.arrived != NEVER)
    # An op without a layer may still be the first of the first period.
    counts = (layer >= 0) | (start < began) | (block.ops.period[op] < period)
    runs = (state == State.RUNNING) & counts
    since = np.minimum(np.where(waits, group.arrived, LATE), np.where(runs, start, LATE))
    return int(np.where(live, since, LATE).min(initial=LATE))


def _busy_intervals(group: SameOpsGraphs) -> BusyIntervals:
    """Busy intervals of the ops that ended and keep a layer busy."""
    block = group.run.graph.explicit
    op = block.op_of_place
    layer = layer_of_ops(group.run.graph)[op]
    fresh = group.fresh[:, op] & (layer >= 0)
    start, end, arrived = group.start[:, op], group.end[:, op], group.arrived
    arrived = np.where(arrived == NEVER, start, arrived)
    rank, kind = np.broadcast_to(group.run.rank, fresh.shape), np.broadcast_to(layer, fresh.shape)
    return BusyIntervals(rank[fresh], kind[fresh], arrived[fresh], start[fresh], end[fresh])
