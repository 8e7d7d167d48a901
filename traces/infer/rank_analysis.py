"""What is found of one rank's events before ops are made of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..event_columns import Event
from .call_tree import CallTree, call_tree
from .collective import is_collective
from .cpu_segments import CpuSegments, Marks, WaitSpans, cpu_segments, visible
from .host_waits import HostWaits, Order, host_waits
from .launches import Launches, launches_of
from .network_waits import NetworkWaits, network_waits
from .rank_trace import RankTrace
from .steps import Steps
from .stream_waits import StreamWaits, stream_waits
from .thread_waits import ThreadWaits, thread_waits

_QUICK = (
    "t transpose as_strided view reshape expand expand_as detach alias permute squeeze unsqueeze "
    "select slice narrow split chunk unbind flatten empty empty_like empty_strided resolve_conj "
    "resolve_neg result_type is_nonzero size stride numel set_ resize_ lift_fresh numpy_T unfold "
    "diagonal movedim swapaxes _unsafe_view _reshape_alias"
)
QUICK = frozenset({"detach", "alias", *(f"aten::{name}" for name in _QUICK.split())})
"""Operators that touch no numbers: they never count as computing."""


class RankAnalysis(NamedTuple):
    """One rank, read.

    Parameters
    ----------
    tree : all events of host threads
    computing : (rows,) events that compute on the host itself
    """

    view: RankTrace
    steps: Steps
    tree: CallTree
    work: Launches
    pieces: CpuSegments
    host: HostWaits
    network: NetworkWaits
    threads: ThreadWaits
    streams: StreamWaits
    marks: Marks
    computing: NDArray[np.bool_]


def analyse_rank(view: RankTrace, steps: Steps) -> RankAnalysis:
    """Read one rank."""
    work = launches_of(view)
    order = Order(view, work)
    host = host_waits(view, work, order)
    network = network_waits(view, work)
    threads = thread_waits(view)
    work = work._replace(end=network.end)
    streams = stream_waits(view, work, order, is_collective(view, work))
    waits = WaitSpans(
        *(np.concatenate(c) for c in zip(host.waits, network.waits, threads.waits, strict=True))
    )
    rows = np.flatnonzero(view.on_host)
    tree = call_tree(rows, view.lines[rows], view.start[rows], view.end[rows])
    marks = _marks(view, work, threads, steps, tree)
    operator, call = (view.kind[tree.row] == k for k in (Event.OP, Event.RUNTIME))
    shown = visible(tree, operator, call)
    computing = _computing(view, tree)
    found = cpu_segments(shown, marks, waits, computing[shown.row])
    return RankAnalysis(
        view, steps, tree, work, found, host, network, threads, streams, marks, computing
    )


def _marks(
    view: RankTrace, work: Launches, threads: ThreadWaits, steps: Steps, tree: CallTree
) -> Marks:
    """Launches, hand-overs, borders of named ranges, and those of steps on every thread."""
    borders = np.concatenate([steps.start, steps.end])[: None if steps.marked else 0]
    lines = np.repeat(np.arange(view.hosts), len(borders))
    at_steps = Marks(lines, np.tile(borders, view.hosts))
    parts = (work.marks(view), threads.marks, at_steps, _ranges(view, tree))
    return Marks(*(np.concatenate(c) for c in zip(*parts, strict=True)))


def _ranges(view: RankTrace, tree: CallTree) -> Marks:
    """Where the outermost named ranges (data loading, the optimizer's step) begin and end."""
    named = view.kind[tree.row] == Event.ANNOTATION
    within = np.zeros(len(named), np.bool_)
    for level in tree.levels():
        p = tree.parent[level]
        within[level] = within[p] | named[p]
    rows = np.flatnonzero(named & ~within)
    return Marks(np.tile(tree.line[rows], 2), np.concatenate([tree.start[rows], tree.end[rows]]))


def _computing(view: RankTrace, tree: CallTree) -> NDArray[np.bool_]:
    """Operators that do most of their work themselves, on a rank without a GPU."""
    found = np.zeros(len(view.rows), np.bool_)
    if view.has_gpu:
        return found
    stands = (view.kind[tree.row] == Event.OP) & (2 * tree.own() > tree.end - tree.start)
    quick = np.array([s in QUICK or s.startswith("c10d::") for s in view.trace.strings], np.bool_)
    rows = tree.row[stands]
    found[rows[~quick[view.name[rows]]]] = True
    return found
