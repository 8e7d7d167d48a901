"""Analysis of one rank's events: launches, waits and CPU segments, before ops are made of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...event_columns import Event
from ..events.call_tree import CallTree, call_tree
from ..events.cpu_segments import (
    CpuSegments,
    CutPoints,
    WaitSpans,
    cpu_segments,
    segment_naming_tree,
)
from ..events.device_use import gpu_in_header, uses_device
from ..events.rank_trace import RankTrace
from ..events.runtime_calls import HOST_WAIT
from ..events.steps import Steps
from ..waits.host_waits import HostWaits, LaunchOrder, host_waits
from ..waits.idle_calls import IdleCalls, idle_calls
from ..waits.launches import EARLIER, Launches, launches
from ..waits.network_waits import NetworkWaits, network_waits
from ..waits.occupancy_waits import OccupancyWaits, occupancy_waits
from ..waits.stream_waits import StreamWaits, stream_waits
from ..waits.thread_waits import ThreadWaits, thread_waits
from .collective import is_collective

_QUICK = (
    "t transpose as_strided view reshape expand expand_as detach alias permute squeeze unsqueeze "
    "select slice narrow split chunk unbind flatten empty empty_like empty_strided resolve_conj "
    "resolve_neg result_type is_nonzero size stride numel set_ resize_ lift_fresh numpy_T unfold "
    "diagonal movedim swapaxes _unsafe_view _reshape_alias"
)
QUICK = frozenset({"detach", "alias", *(f"aten::{name}" for name in _QUICK.split())})
"""Operators that touch no numbers: they never count as computing."""


class RankAnalysis(NamedTuple):
    """Launches, waits and CPU segments of one rank.

    Parameters
    ----------
    tree : call tree of all events of host threads
    work : GPU work and gloo's collectives, with the calls that launched them
    segments : activity of each host thread over time, cut where another op may wait
    computing : True where an event is an operator that computes on the host itself, shape (events,)
    unknown : waits of host threads whose cause is unknown
    idle : calls in which host threads waited or polled
    """

    events: RankTrace
    steps: Steps
    tree: CallTree
    work: Launches
    segments: CpuSegments
    host_waits: HostWaits
    network_waits: NetworkWaits
    thread_waits: ThreadWaits
    stream_waits: StreamWaits
    occupancy: OccupancyWaits
    computing: NDArray[np.bool_]
    unknown: IdleCalls
    idle: IdleCalls


def rank_analysis(events: RankTrace, steps: Steps) -> RankAnalysis:
    """Find the launches, waits and CPU segments of one rank."""
    work = launches(events)
    order = LaunchOrder(events, work)
    host, threads = host_waits(events, work, order), thread_waits(events)
    idle = _without_thread_waits(idle_calls(events, work), threads.waits)
    known, unknown = (
        idle.take(idle.is_cause_known),
        _add_unknown_synchronisations(events, idle.take(~idle.is_cause_known), host),
    )
    host, threads = _add_idle_host_waits(host, known), _add_idle_thread_waits(threads, known)
    network = network_waits(events, work)
    work = _move_launches_after_waits(events, work, host)._replace(end=network.end)
    streams = stream_waits(events, work, order, is_collective(events, work))
    waits = WaitSpans(
        *(np.concatenate(c) for c in zip(host.waits, network.waits, threads.waits, strict=True))
    )
    rows = np.flatnonzero(events.is_host_work)
    tree = call_tree(rows, events.lane_of_event[rows], events.start[rows], events.end[rows])
    cuts = _thread_cuts(events, work, threads, unknown, steps, tree)
    operator, call = (events.kind[tree.row] == k for k in (Event.OP, Event.RUNTIME))
    shown = segment_naming_tree(tree, operator, call)
    computing = _computing_operators(events, tree)
    segments = cpu_segments(shown, cuts, waits, computing[shown.row])
    room = occupancy_waits(events, work, streams)
    return RankAnalysis(
        events, steps, tree, work, segments, host, network, threads, streams, room,
        computing, unknown, idle,
    )  # fmt: skip


def _without_thread_waits(idle: IdleCalls, waits: WaitSpans) -> IdleCalls:
    """Idle calls without those that are already known to wait for another thread."""
    if not len(idle.lane) or not len(waits.lane):
        return idle
    inside = (
        (idle.lane[:, None] == waits.lane)
        & (waits.start < idle.end[:, None])
        & (waits.until > idle.start[:, None])
    )
    return idle.take(~inside.any(1))


def _add_unknown_synchronisations(
    events: RankTrace, unknown: IdleCalls, host: HostWaits
) -> IdleCalls:
    """Waits of unknown cause, including synchronisation calls."""
    row, none = host.unknown, np.full(len(host.unknown), -1)
    end = events.end[row]
    calls = IdleCalls(
        events.lane_of_event[row], events.start[row], end, row, end, none, none, none + 1
    )
    return IdleCalls(*(np.concatenate(c) for c in zip(unknown, calls, strict=True)))


def _add_idle_host_waits(host: HostWaits, idle: IdleCalls) -> HostWaits:
    """Waits for launched work, including those in idle calls."""
    idle = idle.take(idle.work >= 0)
    spans = (idle.lane, idle.start, idle.until)
    return host._replace(
        waits=WaitSpans(*(np.concatenate(c) for c in zip(host.waits, spans, strict=True))),
        wait=np.concatenate([host.wait, len(host.call) + np.arange(len(idle.row))]),
        work=np.concatenate([host.work, idle.work]),
        call=np.concatenate([host.call, idle.row]),
        inferred=host.inferred + len(idle.row),
    )


def _add_idle_thread_waits(threads: ThreadWaits, idle: IdleCalls) -> ThreadWaits:
    """Waits for other threads, including those in idle calls."""
    idle = idle.take(idle.thread >= 0)
    spans = (idle.lane, idle.start, idle.until)
    cuts = (idle.thread, idle.until)
    return ThreadWaits(
        WaitSpans(*(np.concatenate(c) for c in zip(threads.waits, spans, strict=True))),
        CutPoints(*(np.concatenate(c) for c in zip(threads.cuts, cuts, strict=True))),
    )


def _move_launches_after_waits(events: RankTrace, work: Launches, host: HostWaits) -> Launches:
    """Move launches whose call also waited for earlier work to the end of that wait."""
    until = np.full(len(events.rows), EARLIER)
    until[host.call] = host.waits.until
    own = np.zeros(len(work.row), np.bool_)
    own[host.work] = work.call[host.work] == host.call[host.wait]
    after = (work.call >= 0) & ~own
    busy_until = np.where(after, np.maximum(work.caller_free, until[work.call]), work.caller_free)
    return work._replace(caller_free=np.minimum(busy_until, work.start))


def _thread_cuts(
    events: RankTrace,
    work: Launches,
    threads: ThreadWaits,
    unknown: IdleCalls,
    steps: Steps,
    tree: CallTree,
) -> CutPoints:
    """Cut points of threads: launches, waits, ends of named ranges, ends of steps."""
    borders = np.concatenate([steps.start, steps.end])[: None if steps.marked else 0]
    lanes = np.repeat(np.arange(events.host_lane_count), len(borders))
    step_cuts = CutPoints(lanes, np.tile(borders, events.host_lane_count))
    idle = CutPoints(np.tile(unknown.lane, 2), np.concatenate([unknown.start, unknown.end]))
    all_cuts = (work.thread_cuts(events), threads.cuts, step_cuts, _range_cuts(events, tree), idle)
    return CutPoints(*(np.concatenate(c) for c in zip(*all_cuts, strict=True)))


def _range_cuts(events: RankTrace, tree: CallTree) -> CutPoints:
    """Cut points at the borders of the outermost named ranges (data loading, optimizer step)."""
    named = events.kind[tree.row] == Event.ANNOTATION
    within = np.zeros(len(named), np.bool_)
    for level in tree.positions_by_depth():
        p = tree.parent[level]
        within[level] = within[p] | named[p]
    rows = np.flatnonzero(named & ~within)
    return CutPoints(
        np.tile(tree.lane[rows], 2), np.concatenate([tree.start[rows], tree.end[rows]])
    )


def _computing_operators(events: RankTrace, tree: CallTree) -> NDArray[np.bool_]:
    """Operators whose time is mostly self time, on a rank that uses no GPU; shape (events,)."""
    computing = np.zeros(len(events.rows), np.bool_)
    if uses_device(events):
        return computing
    mostly_own = (events.kind[tree.row] == Event.OP) & tree.is_mostly_self_time()
    waits = bool(gpu_in_header(events.process))
    quick = np.array([_is_no_computation(s, waits) for s in events.trace.strings], np.bool_)
    rows = tree.row[mostly_own]
    computing[rows[~quick[events.name[rows]]]] = True
    return computing


def _is_no_computation(operator: str, waits: bool) -> bool:
    """True if an operator touches no numbers, or only communicates or waits.

    `waits` states that the process may have a GPU to wait for.
    """
    quick = operator in QUICK or operator.startswith("c10d::")
    return quick or (waits and bool(HOST_WAIT.match(operator)))
