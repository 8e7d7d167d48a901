"""One rank's ops and dependencies, as arrays: all that is inferred without its peers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..sim.ops import Kind
from .collective import Collective, collectives, is_collective
from .columns import Event
from .gloo import NetworkWaits, network_waits
from .handover import Handovers, handovers
from .host import GAP, Marks, Pieces, Waits, pieces, visible
from .launched import Launched, launched
from .names import Names, names
from .nest import Nest, Rows, nest
from .steps import Steps
from .streams import StreamWaits, stream_waits
from .sync import HostWaits, Order, host_waits
from .view import View

_QUICK = (
    "t transpose as_strided view reshape expand expand_as detach alias permute squeeze unsqueeze "
    "select slice narrow split chunk unbind flatten empty empty_like empty_strided resolve_conj "
    "resolve_neg result_type is_nonzero size stride numel set_ resize_ lift_fresh numpy_T unfold "
    "diagonal movedim swapaxes _unsafe_view _reshape_alias"
)
QUICK = frozenset({"detach", "alias", *(f"aten::{name}" for name in _QUICK.split())})
"""Operators that touch no numbers: they never count as computing."""


class Part(NamedTuple):
    """Ops of one rank: pieces of host threads, then launched work, then what bridges to work.

    Parameters
    ----------
    kind, line, iteration : (n,)
    start, end : (n,) ticks on the rank's own clock; an op lasts from its readiness to `end`
    owner : (n,) row of the event in the view; -1 for none
    release : (n,) ticks, not before; the smallest int64 for none
    source, target : (e,) dependencies
    collectives : what this rank takes part in; `work` is the row here
    """

    view: View
    steps: Steps
    names: Names
    kind: NDArray[np.uint8]
    line: Rows
    iteration: Rows
    start: Rows
    end: Rows
    owner: Rows
    release: Rows
    source: Rows
    target: Rows
    collectives: list[Collective]
    facts: dict[str, int]


NEVER = np.iinfo(np.int64).min


class Findings(NamedTuple):
    """What was found of one rank before ops are made of it."""

    view: View
    steps: Steps
    tree: Nest
    work: Launched
    pieces: Pieces
    host: HostWaits
    network: NetworkWaits
    threads: Handovers
    streams: StreamWaits
    marks: Marks
    computing: NDArray[np.bool_]  # (rows,) events that compute on the host itself


def findings(view: View, steps: Steps) -> Findings:
    """Read one rank."""
    work = launched(view)
    order = Order(view, work)
    host = host_waits(view, work, order)
    network = network_waits(view, work)
    threads = handovers(view)
    work = work._replace(end=network.end)
    streams = stream_waits(view, work, order, is_collective(view, work))
    waits = Waits(
        *(np.concatenate(c) for c in zip(host.waits, network.waits, threads.waits, strict=True))
    )
    rows = np.flatnonzero(view.on_host)
    tree = nest(rows, view.lines[rows], view.start[rows], view.end[rows])
    marks = _marks(view, work, threads, steps, tree)
    operator, call = (view.kind[tree.row] == k for k in (Event.OP, Event.RUNTIME))
    shown = visible(tree, operator, call)
    computing = _computing(view, tree)
    found = pieces(shown, marks, waits, computing[shown.row])
    return Findings(
        view, steps, tree, work, found, host, network, threads, streams, marks, computing
    )


def _marks(view: View, work: Launched, threads: Handovers, steps: Steps, tree: Nest) -> Marks:
    """Launches, hand-overs, borders of named ranges, and those of steps on every thread."""
    borders = np.concatenate([steps.start, steps.end])[: None if steps.marked else 0]
    lines = np.repeat(np.arange(view.hosts), len(borders))
    at_steps = Marks(lines, np.tile(borders, view.hosts))
    parts = (work.marks(view), threads.marks, at_steps, _ranges(view, tree))
    return Marks(*(np.concatenate(c) for c in zip(*parts, strict=True)))


def _ranges(view: View, tree: Nest) -> Marks:
    """Where the outermost named ranges (data loading, the optimizer's step) begin and end."""
    named = view.kind[tree.row] == Event.ANNOTATION
    within = np.zeros(len(named), np.bool_)
    for level in tree.levels():
        p = tree.parent[level]
        within[level] = within[p] | named[p]
    rows = np.flatnonzero(named & ~within)
    return Marks(np.tile(tree.line[rows], 2), np.concatenate([tree.start[rows], tree.end[rows]]))


def _computing(view: View, tree: Nest) -> NDArray[np.bool_]:
    """Operators that do most of their work themselves, on a rank without a GPU."""
    found = np.zeros(len(view.rows), np.bool_)
    if view.has_gpu:
        return found
    stands = (view.kind[tree.row] == Event.OP) & (2 * tree.own() > tree.end - tree.start)
    quick = np.array([s in QUICK or s.startswith("c10d::") for s in view.trace.strings], np.bool_)
    rows = tree.row[stands]
    found[rows[~quick[view.name[rows]]]] = True
    return found


def part(view: View, steps: Steps, *, serialise: bool) -> Part:
    """Ops and dependencies of one rank."""
    f = findings(view, steps)
    return _Assembly(f, serialise).part()


class _Assembly:
    """Numbers the ops of a rank and collects what depends on what."""

    def __init__(self, f: Findings, serialise: bool):
        self.f, self.serialise = f, serialise
        self.piece_step = self._steps_of_pieces()
        self.work_step = self._steps_of_work()
        self.piece_op = _numbered(self.piece_step >= 0, 0)
        n = int((self.piece_step >= 0).sum())
        self.work_op = _numbered(self.work_step >= 0, n)
        self.edges: list[tuple[Rows, Rows]] = []

    def _steps_of_pieces(self) -> Rows:
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

    def _steps_of_work(self) -> Rows:
        """Step of launched work: that of its launch."""
        work = self.f.work
        step = self.f.steps.of(work.point)
        linked = work.call >= 0
        if linked.any() and self.f.view.has_gpu:  # launched before recording began
            first = work.start[linked].min()
            step[~linked & (work.start < first)] = -1
        return step

    def part(self) -> Part:
        f, p, w = self.f, self.f.pieces, self.f.work
        self._collect()
        piece, work = np.flatnonzero(self.piece_step >= 0), np.flatnonzero(self.work_step >= 0)
        source, target = (np.concatenate(c) for c in zip(*self.edges, strict=True))
        start = np.concatenate([p.start[piece], w.start[work]])
        end = np.concatenate([p.end[piece], w.end[work]])
        owner = np.concatenate([self._owners(piece), w.row[work]])
        found = _Table(
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
        bridged = _bridge(found, len(piece), self._expected(work))
        bridged = _with_returns(bridged, self.work_op[f.network.work])
        return Part(
            f.view,
            f.steps,
            names(f.view, f.tree, w),
            *bridged,
            [c._replace(work=int(self.work_op[c.work])) for c in self._collectives()],
            self._facts(),
        )

    def _collectives(self) -> list[Collective]:
        found = collectives(self.f.view, self.f.work, self.f.tree)
        return [c for c in found if self.work_step[c.work] >= 0]

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

    def _add(self, pairs: tuple[Rows, Rows], mask: NDArray[np.bool_] | None = None) -> None:
        source, target = pairs
        keep = (source >= 0) & (target >= 0)
        if mask is not None:
            keep &= mask
        self.edges.append((source[keep], target[keep]))

    def _chain(self, line: Rows, number: Rows) -> tuple[Rows, Rows]:
        """Each kept piece after the one before it on its thread."""
        kept = np.flatnonzero(number >= 0)
        same = line[kept[1:]] == line[kept[:-1]]
        return number[kept[:-1][same]], number[kept[1:][same]]

    def _recorded_order(self) -> tuple[Rows, Rows]:
        """Launched work after the work that ended last before it began."""
        w = self.f.work
        order = np.argsort(w.end, kind="stable")
        at = np.searchsorted(w.end[order], w.start, side="right") - 1
        before = order[np.maximum(at, 0)]
        fine = (at >= 0) & (before != np.arange(len(order)))
        return np.where(fine, self.work_op[before], -1), self.work_op

    def _owners(self, piece: Rows) -> Rows:
        """Event of each piece; a wait belongs to the call that waits."""
        p, f = self.f.pieces, self.f
        calls = np.full(len(f.network.waits.line) + len(f.threads.waits.line), GAP)
        by_wait = np.concatenate([f.host.call, calls])
        wait = p.wait[piece]
        return np.where(wait >= 0, by_wait[wait] if len(by_wait) else GAP, p.owner[piece])

    def _kinds(self, piece: Rows) -> NDArray[np.uint8]:
        p = self.f.pieces
        owner, wait = p.owner[piece], p.wait[piece]
        kind = np.where(self.f.computing[owner] & (owner >= 0), Kind.COMPUTE, Kind.HOST)
        return np.where((owner < 0) & (wait < 0), Kind.GAP, kind).astype(np.uint8)

    def _work_kinds(self, work: Rows) -> NDArray[np.uint8]:
        view, rows = self.f.view, self.f.work.row[work]
        kind = np.where(view.kind[rows] == Event.COPY, Kind.COPY, Kind.COMPUTE)
        together = is_collective(view, self.f.work)[work]
        return np.where(together, Kind.COLLECTIVE, kind).astype(np.uint8)

    def _releases(
        self, start: Rows, end: Rows, source: Rows, target: Rows, piece: Rows, work: Rows
    ) -> Rows:
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

    def _expected(self, work: Rows) -> tuple[Rows, int]:
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


def _numbered(kept: NDArray[np.bool_], first: int) -> Rows:
    return np.where(kept, np.cumsum(kept) - 1 + first, -1)


class _Table(NamedTuple):
    kind: NDArray[np.uint8]
    line: Rows
    iteration: Rows
    start: Rows
    end: Rows
    owner: Rows
    release: Rows
    source: Rows
    target: Rows


def _bridge(t: _Table, first: int, expected: tuple[Rows, int]) -> _Table:
    """Put a delay, a gap or both before launched work that began later than it was ready.

    What launching usually takes is a delay; the rest nothing explains, and is a gap.
    """
    ready = t.release.copy()
    np.maximum.at(ready, t.target, t.end[t.source])
    launch, lag = expected
    late = np.maximum(t.start - ready, 0)
    late[:first] = 0
    late[ready == NEVER] = 0
    usual = np.full(len(late), lag)
    usual[first:] = np.maximum(launch, lag)
    delayed = np.minimum(late, usual)
    return _with_bridges(t, ready, delayed, late - delayed)


def _with_bridges(t: _Table, ready: Rows, delay: Rows, gap: Rows) -> _Table:
    n = len(t.start)
    delays, gaps = np.flatnonzero(delay), np.flatnonzero(gap)
    delay_op, gap_op = np.full(n, -1), np.full(n, -1)
    delay_op[delays] = n + np.arange(len(delays))
    gap_op[gaps] = n + len(delays) + np.arange(len(gaps))
    head = np.where(gap_op >= 0, gap_op, np.where(delay_op >= 0, delay_op, np.arange(n)))
    both = np.flatnonzero((delay > 0) & (gap > 0))
    late = np.concatenate([delays, gaps])
    release = np.concatenate([t.release, np.full(len(late), NEVER)])
    release[head] = t.release
    release[:n][head != np.arange(n)] = NEVER
    fast = np.setdiff1d(gaps, both)
    kinds = np.repeat([Kind.DELAY, Kind.GAP], [len(delays), len(gaps)]).astype(np.uint8)
    begins = np.concatenate([ready[delays] + gap[delays], ready[gaps]])
    ends = np.concatenate([t.start[delays], ready[gaps] + gap[gaps]])
    return _Table(
        np.concatenate([t.kind, kinds]),
        np.concatenate([t.line, t.line[late]]),
        np.concatenate([t.iteration, t.iteration[late]]),
        np.concatenate([np.maximum(t.start, ready), begins]),
        np.concatenate([np.maximum(t.end, np.maximum(t.start, ready)), ends]),
        np.concatenate([t.owner, t.owner[late]]),
        release,
        np.concatenate([t.source, delay_op[delays], gap_op[both], gap_op[fast]]),
        np.concatenate([head[t.target], delays, delay_op[both], fast]),
    )


def _with_returns(t: _Table, work: Rows) -> _Table:
    """Between a collective on a thread of its own and whoever waits for it: its return.

    It takes no time here; once the other members are known it is how much later this rank's
    thread came back than the first.
    """
    n = len(t.start)
    work = np.unique(work[work >= 0])
    back = np.full(n, -1)
    back[work] = n + np.arange(len(work))
    waited = back[t.source] >= 0
    end = t.end[work]
    return _Table(
        np.concatenate([t.kind, np.full(len(work), Kind.DELAY, np.uint8)]),
        np.concatenate([t.line, t.line[work]]),
        np.concatenate([t.iteration, t.iteration[work]]),
        np.concatenate([t.start, end]),
        np.concatenate([t.end, end]),
        np.concatenate([t.owner, t.owner[work]]),
        np.concatenate([t.release, np.full(len(work), NEVER)]),
        np.concatenate([np.where(waited, back[t.source], t.source), work]),
        np.concatenate([t.target, back[work]]),
    )
