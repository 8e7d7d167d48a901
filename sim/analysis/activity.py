"""Time breakdown of each rank: every instant of the run belongs to exactly one of seven categories.

==========================  ====================================================================
``compute``                 compute runs, no communication in flight
``overlapped``              compute runs while communication is in flight
``exposed_communication``   communication in flight, no compute
``memory``                  only copies run
``waiting``                 held at a collective whose other members are late, or until a capacity
                            has room; nothing else runs
``host``                    only host ops run
``idle``                    none of these
==========================  ====================================================================
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..engine_api.interface import MAX_TICK, NEVER
from ..errors import NotKeptError
from ..facts.graph import Graph
from ..facts.kind import ROLES, Kind
from ..facts.roles import NETWORK, rows_of_named_streams
from ..record.aggregates import BOXES
from ..record.run_record import RunRecord
from ..record.schedule import SubmittedRun
from ..units import seconds
from .holdings import op_id_of_each_claim
from .periods import step_edges

LAYERS = ("compute", "network", "copy", "waiting", "host")
MOST = 2**62  # ticks of a line with several ranks; one rank has a line in any case


class BusyIntervals(NamedTuple):
    """Intervals (ticks) in which ended ops keep a layer busy, one row per op and rank.

    ``layer`` is an index into :data:`LAYERS`, -1 for an op that keeps no layer busy. For the
    network layer, the time from ``arrived`` to ``start`` counts as waiting.
    """

    rank: NDArray[np.int32]
    layer: NDArray[np.int8]
    arrived: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]

    @classmethod
    def of(cls, several: Sequence[BusyIntervals]) -> BusyIntervals:
        """Concatenate several tables of busy intervals."""
        none = [np.empty(0, np.int64)] * 5
        columns = (np.concatenate(c) for c in zip(none, *several, strict=True))
        rank, layer, arrived, start, end = columns
        return cls(rank.astype(np.int32), layer.astype(np.int8), arrived, start, end)

    def after(self, tick: int) -> BusyIntervals:
        """Select the busy intervals that end later than a tick."""
        late = self.end > tick
        rank, layer, arrived, start, end = self
        return BusyIntervals(rank[late], layer[late], arrived[late], start[late], end[late])


class ActiveSpans(NamedTuple):
    """Intervals from ``start`` to ``end`` (ticks) in which a layer of a rank is busy."""

    rank: NDArray[np.int32]
    layer: NDArray[np.int8]
    start: NDArray[np.int64]
    end: NDArray[np.int64]

    def of(self, ranks: range) -> ActiveSpans:
        """Select the intervals of a range of ranks."""
        own = (self.rank >= ranks.start) & (self.rank < ranks.stop)
        return ActiveSpans(self.rank[own], self.layer[own], self.start[own], self.end[own])


def activity(
    result: RunRecord, window: tuple[int, int] | None = None
) -> dict[str, NDArray[np.float64]]:
    """Time of each rank in each category, in seconds; the sum is the window length.

    Parameters
    ----------
    window : (first tick, last tick) of the window; by default the complete run

    Returns
    -------
    dict
        ``{box: (ranks,) s}`` for each of :data:`BOXES`.
    """
    first, kept = result.first_release, result.summary
    if window is None and kept is not None and kept.boxes is not None:
        return dict(zip(BOXES, seconds(kept.boxes.sum(axis=1), result.tick), strict=True))
    edges = np.array(window or (first, first + result.makespan_ticks), np.int64)
    return {box: total[0] for box, total in activity_by_window(result, edges).items()}


def exposed_communication_seconds(result: RunRecord) -> NDArray[np.float64]:
    """Communication time without concurrent compute, in s, shape (periods, ranks).

    Without periods, there is one row for the run.
    """
    if result.summary is not None and result.summary.exposed is not None:
        return seconds(result.summary.exposed, result.tick)
    return activity_by_window(result, step_edges(result))["exposed_communication"]


def activity_by_window(
    result: RunRecord, edges: NDArray[np.int64]
) -> dict[str, NDArray[np.float64]]:
    """Time of each rank in each category, in seconds, for consecutive windows.

    Parameters
    ----------
    edges : (k + 1,) ticks of the window boundaries, ascending

    Returns
    -------
    dict
        ``{box: (k, ranks) s}``.
    """
    if result.written is None:
        return _boxes_of_aggregates(result, edges)
    boxes = seconds(box_ticks(result, edges, result.ranks), result.tick)
    return dict(zip(BOXES, boxes, strict=True))


def box_ticks(result: RunRecord, edges: NDArray[np.int64], ranks: int) -> NDArray[np.int64]:
    """Ticks in each time-breakdown category, (7, windows, ranks), for windows between the edges.

    It needs one row per op.
    """
    return box_ticks_of_places(busy_intervals(result), edges, ranks, compiled=False)


def box_ticks_by_kernel(
    result: RunRecord, edges: NDArray[np.int64], ranks: int
) -> NDArray[np.int64]:
    """Same result as :func:`box_ticks`, computed by compiled kernels.

    If all ops of a single graph have ended, the kernels read the result's columns directly.
    """
    from ..core.programs.time_breakdown import breakdown_of_places

    columns = result.columns
    whole = min(columns.end.min(initial=0), columns.arrived.min(initial=0)) > NEVER
    if len(result.runs) != 1 or not whole or np.any(columns.asked < columns.granted):
        return box_ticks_of_places(busy_intervals(result), edges, ranks, compiled=True)
    run = result.runs[0]
    block, layer = run.graph.explicit, layer_of_ops(run.graph)
    times = columns.arrived, columns.start, columns.end
    return breakdown_of_places(
        result.rank(run), layer, *times, edges, ranks, further=block.places.op
    )


def layer_of_ops(graph: Graph) -> NDArray[np.int8]:
    """(n,) layer of each op, as an index into :data:`LAYERS`; -1 for none.

    >>> from ..facts.graph import Builder
    >>> build = Builder("one of each")
    >>> _ = [build.op(kind) for kind in (Kind.COPY, Kind.SEND, Kind.GAP)]
    >>> layer_of_ops(build.graph()).tolist()
    [2, 1, -1]
    """
    ops = graph.ops
    layer = np.array([_layer_of_kind(kind) for kind in Kind], np.int8)[ops.kind]
    named = rows_of_named_streams(ops.kind, ops.rank, ops.stream, graph.streams)
    for role, rows in named.items():
        layer[rows] = LAYERS.index(ROLES[role].layer)
    return layer


def _layer_of_kind(kind: Kind) -> int:
    if kind in NETWORK:
        return LAYERS.index("network")
    return LAYERS.index(ROLES[kind.role].layer) if kind.role else -1


def box_ticks_of_places(
    places: BusyIntervals, edges: NDArray[np.int64], ranks: int, *, compiled: bool
) -> NDArray[np.int64]:
    """Ticks in each time-breakdown category, (7, windows, ranks), computed from busy intervals.

    Parameters
    ----------
    compiled : True to use compiled kernels; the result is the same
    """
    if compiled:
        from ..core.programs.time_breakdown import breakdown_of_places

        return breakdown_of_places(*places, edges, ranks)
    found = np.zeros((len(BOXES), len(edges) - 1, ranks), np.int64)
    spans = _active_spans(places, edges)
    # Ranks are placed one after the other on one timeline, as many as the tick range allows.
    most = max(MOST // max(int(edges[-1] - edges[0]), 1), 1)
    for first in range(0, ranks, most):
        own = range(first, min(first + most, ranks))
        of_own = spans if len(own) == ranks else spans.of(own)
        found[:, :, first : own.stop] = _box_ticks_on_one_timeline(of_own, own, edges)
    return found


def _boxes_of_aggregates(
    result: RunRecord, edges: NDArray[np.int64]
) -> dict[str, NDArray[np.float64]]:
    """Time of each rank in each category, in s, for consecutive periods, from stored aggregates."""
    kept = result.aggregates
    at = int(np.searchsorted(kept.edges, edges[0]))
    same = np.array_equal(kept.edges[at : at + len(edges)], edges)
    if kept.boxes is None or not same:
        raise NotKeptError(
            f"activity: the result has no op rows (keep={result.keep!r}, {result.count:,} ops); "
            "run with keep='ops', or with keep='ranks' and a window of complete steps"
        )
    boxes = seconds(kept.boxes[:, at + 1 : at + len(edges)], result.tick)
    return dict(zip(BOXES, boxes, strict=True))


def busy_intervals(result: RunRecord) -> BusyIntervals:
    """Busy intervals of all ops of a run that ended."""
    found = []
    columns = result.columns
    for run, arrived in arrivals_by_graph(result):
        block, first = run.graph.explicit, run.first
        n, e = len(block), len(block.places)
        op: Any = slice(first, first + n) if not e else first + block.op_of_place
        start, end = columns.start[op], columns.end[op]
        layer = layer_of_ops(run.graph)
        layer = layer if not e else layer[block.op_of_place]
        of: list[Any] = [result.rank(run), layer, arrived, start, end]
        done = end != NEVER
        found.append(BusyIntervals(*(of if done.all() else [c[done] for c in of])))
    found += _wait_intervals(result)
    return found[0] if len(found) == 1 else BusyIntervals.of(found)


def arrivals_by_graph(result: RunRecord) -> Iterator[tuple[SubmittedRun, NDArray[np.int64]]]:
    """Each graph of a run with the arrival tick of each participant of its ops, (n + e,).

    A participant arrives when it is ready and holds the amounts it requested. One that queued for
    nothing arrives when its op starts.
    """
    columns = result.columns
    base = len(columns.end)
    for run in result.runs:
        block, first = run.graph.explicit, run.first
        n, e = len(block), len(block.places)
        arrived = columns.arrived[first : first + n + e]
        if first + n != base:  # its further participants are stored after those of other graphs
            own, more = arrived[:n], columns.arrived[base : base + e]
            arrived = np.concatenate([own, more]) if e else own
        base += e
        if np.any(arrived == NEVER):
            op: Any = slice(first, first + n) if not e else first + block.op_of_place
            arrived = np.where(arrived == NEVER, columns.start[op], arrived)
        yield run, arrived


def _wait_intervals(result: RunRecord) -> list[BusyIntervals]:
    """Waits of ops for capacities, as busy intervals of the network layer.

    Each has zero length (start = end = grant); the wait is the time from ``arrived`` to ``start``.
    """
    columns = result.columns
    waited = np.flatnonzero(columns.asked < columns.granted)
    if not len(waited):
        return []
    op, which = np.unique(op_id_of_each_claim(result)[waited], return_inverse=True)
    asked, granted = np.full(len(op), MAX_TICK), np.full(len(op), NEVER, np.int64)
    np.minimum.at(asked, which, columns.asked[waited])
    np.maximum.at(granted, which, columns.granted[waited])
    found = []
    for run in result.runs:
        block = run.graph.explicit
        of = run.first + block.op_of_place
        place = np.flatnonzero(np.isin(of, op))
        at = np.searchsorted(op, of[place])
        network = np.full(len(at), LAYERS.index("network"), np.int8)
        rank = result.rank(run)[place]
        found.append(BusyIntervals(rank, network, asked[at], granted[at], granted[at]))
    return found


def seconds_in_use(result: RunRecord) -> dict[str, NDArray[np.float64]]:
    """Busy seconds per rank of each layer (``compute``, ``network``, ``copy``, ``host``).

    Overlapping activity counts in full for each layer, so the sum may exceed the run time. A
    network op counts from its arrival on the rank, because its kernel spins from then on.

    Examples
    --------
    >>> from ..facts.graph import Builder
    >>> from ..facts.ops import Kind
    >>> from ..run.simulation import Simulation
    >>> from ..facts.system import Component, System
    >>> from ...models.compute.recorded import Recorded
    >>> build = Builder("two streams")
    >>> _ = [build.op(Kind.COMPUTE, rank=0, stream=s, duration=2.0, release=s) for s in range(2)]
    >>> gpu = System((Component("gpu", "gpu", slots=2),), ("gpu",))
    >>> seconds_in_use(Simulation(gpu, {"*": Recorded()}).run(build.graph()))["compute"].tolist()
    [3.0]
    """
    of, length = busy_intervals(result), result.makespan_ticks
    since = np.where(of.layer == LAYERS.index("network"), of.arrived, of.start)
    offset = of.rank.astype(np.int64) * length - result.first_release
    start, end = since + offset, of.end + offset
    marks = np.arange(result.ranks + 1) * length
    found = {}
    for number, layer in enumerate(LAYERS):
        if layer == "waiting":
            continue
        rows = np.flatnonzero(of.layer == number)
        rows = rows[np.argsort(start[rows], kind="stable")]
        covered = _covered_length(start[rows], end[rows], marks) if len(rows) else marks[1:] * 0
        found[layer] = seconds(covered, result.tick)
    return found


def _active_spans(of: BusyIntervals, edges: NDArray[np.int64]) -> ActiveSpans:
    """Intervals within the windows in which each layer of each rank is busy or waiting."""
    network = of.layer == LAYERS.index("network")
    wait = np.flatnonzero(network & (of.arrived < of.start))
    rank = np.concatenate([of.rank, of.rank[wait]])
    start = np.concatenate([of.start, of.arrived[wait]])
    end = np.concatenate([of.end, of.start[wait]])
    waiting = np.full(len(wait), LAYERS.index("waiting"), np.int8)
    layer = np.concatenate([of.layer, waiting])
    return ActiveSpans(rank, layer, *(np.clip(c, edges[0], edges[-1]) for c in (start, end)))


def _box_ticks_on_one_timeline(
    spans: ActiveSpans, ranks: range, edges: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Ticks in each category, (7, windows, ranks), with the timelines of all ranks put end to end.

    A category is the difference of two unions of intervals. For example, ``memory`` is the time
    that copies add to the union of compute and network.
    """
    length = edges[-1] - edges[0]
    offset = (spans.rank.astype(np.int64) - ranks.start) * length - edges[0]
    start, end = spans.start + offset, spans.end + offset
    order = np.argsort(start, kind="stable")  # few runs in order, since programs are
    start, end, layer = start[order], end[order], spans.layer[order]
    begins = np.arange(len(ranks))[:, None] * length + (edges[:-1] - edges[0])
    marks = np.append(begins, len(ranks) * length)

    def union(first: int, last: int) -> NDArray[np.int64]:
        rows = (layer >= first) & (layer <= last)
        return _covered_length(start[rows], end[rows], marks)

    compute, network, both = union(0, 0), union(1, 1), union(0, 1)
    grown = [both]
    for i in range(2, len(LAYERS)):
        grown.append(union(0, i) if np.any(layer == i) else grown[-1])
    added = [b - a for a, b in pairwise([*grown, np.diff(marks)])]
    boxes = [both - network, compute + network - both, both - compute, *added]
    return np.array(boxes).reshape(len(BOXES), len(ranks), -1).swapaxes(1, 2)


def _covered_length(
    start: NDArray[np.int64], end: NDArray[np.int64], marks: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Length of the union of intervals (sorted by start) between consecutive marks.

    >>> _covered_length(np.array([0, 1, 6]), np.array([4, 3, 9]), np.array([0, 2, 7, 10]))
    array([2, 3, 2])
    """
    reach = np.maximum.accumulate(end)
    alone = start.copy()  # where each interval begins to add to those before it
    np.maximum(alone[1:], reach[:-1], out=alone[1:])
    before = np.concatenate([[0], np.cumsum(reach - np.minimum(alone, reach))])
    at = np.searchsorted(start, marks)
    last = np.concatenate([[marks[0]], reach])[at]
    return np.diff(before[at] - np.maximum(last - marks, 0))
