"""One rank's ops and dependencies, as arrays: all that is inferred without its peers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...sim.ops import Kind
from ..column_table import Integers
from ..event_columns import Event
from .collective import RecordedCollective, collectives, is_collective
from .cpu_segments import GAP
from .gaps import NEVER, RankOps, add_gaps, with_returns
from .op_provenance import OpProvenance, op_provenance
from .rank_analysis import RankAnalysis, analyse_rank
from .rank_trace import RankTrace
from .steps import Steps


@dataclass(frozen=True)
class RankGraph(RankOps):
    """Ops of one rank: pieces of host threads, then launched work, then what bridges to work.

    Parameters
    ----------
    collectives : what this rank takes part in; ``work`` is the row here
    """

    view: RankTrace
    steps: Steps
    origins: OpProvenance
    collectives: list[RecordedCollective]
    facts: dict[str, int]


def rank_graph(view: RankTrace, steps: Steps, *, serialise: bool) -> RankGraph:
    """Ops and dependencies of one rank."""
    f = analyse_rank(view, steps)
    return _Assembly(f, serialise).part()


class _Assembly:
    """Numbers the ops of a rank and collects what depends on what."""

    def __init__(self, f: RankAnalysis, serialise: bool):
        self.f, self.serialise = f, serialise
        self.piece_step = self._steps_of_pieces()
        self.work_step = self._steps_of_work()
        self.piece_op = _numbered(self.piece_step >= 0, 0)
        n = int((self.piece_step >= 0).sum())
        self.work_op = _numbered(self.work_step >= 0, n)
        self.edges: list[tuple[Integers, Integers]] = []

    def _steps_of_pieces(self) -> Integers:
        """Step of each piece; -1 for those left out."""
        p = self.f.pieces
        step = self.f.steps.of(p.start)
        busy = (p.owner >= 0) | (p.wait >= 0)
        awaited = p.at(self.f.threads.marks)
        busy[awaited[awaited >= 0]] = True
        kept = np.flatnonzero((step >= 0) & busy)
        # the main thread is followed from mark to mark, others from their first to their last work
        first = np.full(max(self.f.view.hosts, 1), len(busy))
        last = np.full(max(self.f.view.hosts, 1), -1)
        np.minimum.at(first, p.line[kept], kept)
        np.maximum.at(last, p.line[kept], kept)
        at = np.arange(len(busy))
        idle = ((at < first[p.line]) | (at > last[p.line])) & (p.line > 0)
        return np.where(idle, -1, step)

    def _steps_of_work(self) -> Integers:
        """Step of launched work: that of its launch."""
        work = self.f.work
        step = self.f.steps.of(work.point)
        linked = work.call >= 0
        if linked.any() and self.f.view.has_gpu:  # launched before recording began
            first = work.start[linked].min()
            step[~linked & (work.start < first)] = -1
        return step

    def part(self) -> RankGraph:
        f, p, w = self.f, self.f.pieces, self.f.work
        self._collect()
        piece, work = np.flatnonzero(self.piece_step >= 0), np.flatnonzero(self.work_step >= 0)
        source, target = (np.concatenate(c) for c in zip(*self.edges, strict=True))
        start = np.concatenate([p.start[piece], w.start[work]])
        end = np.concatenate([p.end[piece], w.end[work]])
        owner = np.concatenate([self._owners(piece), w.row[work]])
        found = RankOps(
            np.concatenate([self._kinds(piece), self._work_kinds(work)]),
            np.concatenate([p.line[piece], w.line[work]]),
            np.concatenate([self.piece_step[piece], self.work_step[work]]),
            start,
            end,
            owner,
            self._releases(start, end, source, target, piece, work),
            source,
            target,
        )
        bridged = add_gaps(found, len(piece), self._expected(work))
        bridged = with_returns(bridged, self.work_op[f.network.work])
        return RankGraph(
            **vars(bridged),
            view=f.view,
            steps=f.steps,
            origins=op_provenance(f.view, f.tree, w),
            collectives=self._collectives(),
            facts=self._facts(),
        )

    def _collectives(self) -> list[RecordedCollective]:
        found = collectives(self.f.view, self.f.work, self.f.tree)
        kept = [c for c in found if self.work_step[c.work] >= 0]
        return [c._replace(work=int(self.work_op[c.work])) for c in kept]

    def _collect(self) -> None:
        """All dependencies between kept ops."""
        f, p, w = self.f, self.f.pieces, self.f.work
        self._add(self._chain(p.line, self.piece_op))
        self._add((self.work_op[w.previous()], self.work_op), w.previous() >= 0)
        called = np.flatnonzero(w.call >= 0)
        at = p.at(w.marks(f.view))
        self._add((self.piece_op[at], self.work_op[called]), at >= 0)
        marker = np.full(int(p.wait.max(initial=-1)) + 1, -1, np.int64)
        marker[p.wait[p.wait >= 0]] = self.piece_op[p.wait >= 0]
        hosts, networks = len(f.host.waits.line), len(f.network.waits.line)
        self._add((self.work_op[f.host.work], marker[f.host.wait]))
        self._add((self.work_op[f.network.work], marker[hosts : hosts + networks]))
        done = p.at(f.threads.marks)
        self._add((self.piece_op[done], marker[hosts + networks :]), done >= 0)
        self._add((self.work_op[f.streams.awaited], self.work_op[f.streams.work]))
        if self.serialise:
            self._add(self._recorded_order())

    def _add(self, pairs: tuple[Integers, Integers], mask: NDArray[np.bool_] | None = None) -> None:
        source, target = pairs
        keep = (source >= 0) & (target >= 0)
        if mask is not None:
            keep &= mask
        self.edges.append((source[keep], target[keep]))

    def _chain(self, line: Integers, number: Integers) -> tuple[Integers, Integers]:
        """Each kept piece after the one before it on its thread."""
        kept = np.flatnonzero(number >= 0)
        same = line[kept[1:]] == line[kept[:-1]]
        return number[kept[:-1][same]], number[kept[1:][same]]

    def _recorded_order(self) -> tuple[Integers, Integers]:
        """Launched work after the work that ended last before it began."""
        w = self.f.work
        order = np.argsort(w.end, kind="stable")
        at = np.searchsorted(w.end[order], w.start, side="right") - 1
        before = order[np.maximum(at, 0)]
        fine = (at >= 0) & (before != np.arange(len(order)))
        return np.where(fine, self.work_op[before], -1), self.work_op

    def _owners(self, piece: Integers) -> Integers:
        """Event of each piece; a wait belongs to the call that waits, or to what is awaited."""
        p, f = self.f.pieces, self.f
        unknown = np.full(len(f.threads.waits.line), GAP)
        by_wait = np.concatenate([f.host.call, f.work.row[f.network.work], unknown])
        wait = p.wait[piece]
        return np.where(wait >= 0, by_wait[wait] if len(by_wait) else GAP, p.owner[piece])

    def _kinds(self, piece: Integers) -> NDArray[np.uint8]:
        p = self.f.pieces
        owner, wait = p.owner[piece], p.wait[piece]
        kind = np.where(self.f.computing[owner] & (owner >= 0), Kind.COMPUTE, Kind.HOST)
        return np.where((owner < 0) & (wait < 0), Kind.GAP, kind).astype(np.uint8)

    def _work_kinds(self, work: Integers) -> NDArray[np.uint8]:
        view, rows = self.f.view, self.f.work.row[work]
        kind = np.where(view.kind[rows] == Event.COPY, Kind.COPY, Kind.COMPUTE)
        together = is_collective(view, self.f.work)[work]
        return np.where(together, Kind.COLLECTIVE, kind).astype(np.uint8)

    def _releases(
        self,
        start: Integers,
        end: Integers,
        source: Integers,
        target: Integers,
        piece: Integers,
        work: Integers,
    ) -> Integers:
        """Ops that wait for nothing kept, or for something left out, begin no earlier than that."""
        release = np.full(len(start), NEVER)
        free = np.ones(len(start), np.bool_)
        free[target] = False
        release[free] = start[free]
        w = self.f.work
        before = w.previous()
        cut = np.flatnonzero((before >= 0) & (self.work_step >= 0) & (self.work_step[before] < 0))
        rows = self.work_op[cut]
        release[rows] = np.maximum(release[rows], np.minimum(w.end[before[cut]], w.start[cut]))
        return release

    def _expected(self, work: Integers) -> tuple[Integers, int]:
        """Ticks that launching, and beginning after other work, usually take."""
        view, w = self.f.view, self.f.work
        point = w.point - np.where(w.call >= 0, view.start[w.call], w.point)
        launch = np.maximum(w.latency - point, 0)
        before = w.previous()
        queued = (before >= 0) & (w.call >= 0) & (w.end[before] > w.point)
        lag = (w.start - w.end[before])[queued]
        return launch[work], int(np.median(lag)) if len(lag) else 0

    def _facts(self) -> dict[str, int]:
        f = self.f
        return {
            "unlinked": int(((f.work.call < 0) & (self.work_step >= 0)).sum()),
            "launched": int((self.work_step >= 0).sum()),
            "inferred": f.host.inferred + f.streams.inferred,
            "resolved": len(f.host.wait)
            + len(f.streams.work)
            - f.host.inferred
            - f.streams.inferred,
            "unresolved": f.host.unresolved + f.streams.unresolved + f.network.unresolved,
        }


def _numbered(kept: NDArray[np.bool_], first: int) -> Integers:
    return np.where(kept, np.cumsum(kept) - 1 + first, -1)
