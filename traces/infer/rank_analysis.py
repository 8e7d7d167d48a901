"""What is found of one rank's events before ops are made of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..event_columns import Event
from .call_tree import Nest, nest
from .collective import is_collective
from .cpu_segments import Marks, Pieces, Waits, pieces, visible
from .host_waits import HostWaits, Order, host_waits
from .launches import Launched, launched
from .network_waits import NetworkWaits, network_waits
from .rank_trace import View
from .steps import Steps
from .stream_waits import StreamWaits, stream_waits
from .thread_waits import Handovers, handovers

_QUICK = (
    "t transpose as_strided view reshape expand expand_as detach alias permute squeeze unsqueeze "
    "select slice narrow split chunk unbind flatten empty empty_like empty_strided resolve_conj "
    "resolve_neg result_type is_nonzero size stride numel set_ resize_ lift_fresh numpy_T unfold "
    "diagonal movedim swapaxes _unsafe_view _reshape_alias"
)
QUICK = frozenset({"detach", "alias", *(f"aten::{name}" for name in _QUICK.split())})
"""Operators that touch no numbers: they never count as computing."""


class Findings(NamedTuple):
    """One rank, read.

    Parameters
    ----------
    tree : all events of host threads
    computing : (rows,) events that compute on the host itself
    """

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
    computing: NDArray[np.bool_]


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
