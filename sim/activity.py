"""Where a rank's time goes: every instant of the run in exactly one of seven boxes.

==========================  ====================================================================
``compute``                 compute runs, no communication in flight
``overlapped``              compute runs while communication is in flight
``exposed_communication``   communication in flight, no compute
``memory``                  only copies run
``waiting``                 held at a collective whose other members are late; nothing else runs
``host``                    only host ops run
``idle``                    none of these
==========================  ====================================================================
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .errors import NotKeptError
from .kept import BOXES
from .machine import NEVER
from .ops import Kind
from .place import NETWORK
from .result import Result
from .units import seconds

LAYERS = ("compute", "network", "copy", "waiting", "host")
_LAYER = {Kind.COMPUTE: 0, Kind.COPY: 2, Kind.HOST: 4} | dict.fromkeys(NETWORK, 1)


class Busy(NamedTuple):
    """Places of ops that ended: what each keeps busy, and when it arrived, started, ended (ticks).

    ``layer`` is an index into :data:`LAYERS`, -1 for what keeps nothing busy.
    """

    rank: NDArray[np.int32]
    layer: NDArray[np.int8]
    arrived: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]


class Spans(NamedTuple):
    """Intervals of one layer on ranks: from ``start`` to ``end`` (ticks) on ``rank``."""

    rank: NDArray[np.int32]
    start: NDArray[np.int64]
    end: NDArray[np.int64]


def activity(
    result: Result, window: tuple[int, int] | None = None
) -> dict[str, NDArray[np.float64]]:
    """Seconds of each rank in each box; they sum to the window (default: the makespan).

    Parameters
    ----------
    window : (first tick, last tick)

    Returns
    -------
    dict
        ``{box: (ranks,) s}`` for each of :data:`BOXES`.
    """
    first, kept = result.first_release, result.summary
    if window is None and kept is not None and kept.boxes is not None:
        return dict(zip(BOXES, seconds(kept.boxes.sum(axis=1), result.tick), strict=True))
    edges = np.array(window or (first, first + result.makespan_ticks), np.int64)
    return {box: total[0] for box, total in activities(result, edges).items()}


def exposed(result: Result) -> NDArray[np.float64]:
    """(k, ranks) s of exposed communication in each step: kept always."""
    if result.summary is not None and result.summary.exposed is not None:
        return seconds(result.summary.exposed, result.tick)
    return activities(result, result.kept.edges)["exposed_communication"]


def activities(result: Result, edges: NDArray[np.int64]) -> dict[str, NDArray[np.float64]]:
    """The same in consecutive windows.

    Parameters
    ----------
    edges : (k + 1,) ticks, ascending

    Returns
    -------
    dict
        ``{box: (k, ranks) s}``.
    """
    if result.written is None:
        return _kept(result, edges)
    boxes = seconds(ticks(result, edges), result.tick)
    return dict(zip(BOXES, boxes, strict=True))


def ticks(result: Result, edges: NDArray[np.int64]) -> NDArray[np.int64]:
    """(7, k, ranks) The same in ticks, of a result with a row an op."""
    ranks = max((r.graph.ranks for r in result.runs), default=0)
    windows = len(edges) - 1
    rank, time, layer, step = _boundaries(_layers(busy(result)), edges, ranks)
    running = np.empty((len(time), len(LAYERS)), np.bool_)
    for i in range(len(LAYERS)):
        running[:, i] = np.cumsum(np.where(layer == i, step, 0)) > 0
    box = _box(running)
    length = np.append(np.diff(time), 0)
    length[np.append(rank[1:] != rank[:-1], True)] = 0
    at = np.clip(np.searchsorted(edges, time, side="right") - 1, 0, windows - 1)
    cell = (box * windows + at) * ranks + rank
    total = np.bincount(cell, length.astype(np.float64), len(BOXES) * windows * ranks)
    return total.reshape(len(BOXES), windows, ranks).astype(np.int64)


def _kept(result: Result, edges: NDArray[np.int64]) -> dict[str, NDArray[np.float64]]:
    """Consecutive steps, as they were kept."""
    kept = result.kept
    at = int(np.searchsorted(kept.edges, edges[0]))
    same = np.array_equal(kept.edges[at : at + len(edges)], edges)
    if kept.boxes is None or not same:
        raise NotKeptError(
            f"activity: of {result.count:,} ops no row an op was kept (keep={result.keep!r}); "
            "ask for whole steps of a run with keep='ranks', or run it with keep='ops'"
        )
    boxes = seconds(kept.boxes[:, at + 1 : at + len(edges)], result.tick)
    return dict(zip(BOXES, boxes, strict=True))


def busy(result: Result) -> Busy:
    """Every place of every op that ended."""
    found = []
    columns = result.columns
    base = len(columns.end)
    layer_of = np.array([_LAYER.get(kind, -1) for kind in Kind], np.int8)
    for run in result.runs:
        block, first = run.graph.explicit, run.first
        n, e = len(block), len(block.places)
        op: Any = slice(first, first + n) if not e else first + block.op_of_place
        start, end, arrived = columns.start[op], columns.end[op], columns.arrived[first : first + n]
        if e:
            arrived = np.concatenate([arrived, columns.arrived[base : base + e]])
        base += e
        if np.any(arrived == NEVER):
            arrived = np.where(arrived == NEVER, start, arrived)
        layer = layer_of[block.ops.kind if not e else block.ops.kind[block.op_of_place]]
        of: list[Any] = [block.rank, layer, arrived, start, end]
        done = end != NEVER
        found.append(of if done.all() else [c[done] for c in of])
    if len(found) == 1:
        return Busy(*found[0])
    none = [np.empty(0, np.int64)] * 5
    rank, layer, arrived, start, end = (np.concatenate(c) for c in zip(none, *found, strict=True))
    return Busy(rank.astype(np.int32), layer.astype(np.int8), arrived, start, end)


def _layers(of: Busy) -> dict[str, Spans]:
    """What keeps each rank busy, by layer."""
    found = {}
    for i, name in enumerate(LAYERS):
        if name == "waiting":
            rows = of.layer == LAYERS.index("network")
            found[name] = Spans(of.rank[rows], of.arrived[rows], of.start[rows])
        else:
            rows = of.layer == i
            found[name] = Spans(of.rank[rows], of.start[rows], of.end[rows])
    return found


def _boundaries(
    layers: dict[str, Spans], edges: NDArray[np.int64], ranks: int
) -> tuple[NDArray[np.int64], ...]:
    """Starts (+1) and ends (-1) of all layers within the windows, by rank and time."""
    # A marker at every edge parts the windows, and makes idle time beside it count.
    marks = ranks * len(edges)
    rank: list[NDArray[Any]] = [np.repeat(np.arange(ranks), len(edges))]
    time: list[NDArray[Any]] = [np.tile(edges, ranks)]
    layer, step = [np.full(marks, -1)], [np.zeros(marks, np.int64)]
    for i, name in enumerate(LAYERS):
        spans = layers.get(name)
        if spans is None:
            continue
        for at, sign in ((spans.start, 1), (spans.end, -1)):
            rank.append(spans.rank)
            time.append(np.clip(at, edges[0], edges[-1]))
            layer.append(np.full(len(at), i))
            step.append(np.full(len(at), sign))
    columns = [np.concatenate(c, dtype=np.int64) for c in (rank, time, layer, step)]
    order = _by_rank_and_time(columns[0], columns[1] - edges[0], int(edges[-1] - edges[0]))
    return tuple(c[order] for c in columns)


def _by_rank_and_time(
    rank: NDArray[np.int64], time: NDArray[np.int64], span: int
) -> NDArray[np.int64]:
    """The order; as one number where both fit in it, which sorts several times as fast."""
    if (int(rank.max(initial=0)) + 1) * (span + 1) < 2**63:
        return np.argsort(rank * (span + 1) + time)
    return np.lexsort((time, rank))


def _box(running: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The box of each stretch, from which layers run in it."""
    compute, network, copy, waiting, host = running.T
    return np.select(
        [compute & ~network, compute, network, copy, waiting, host],
        [0, 1, 2, 3, 4, 5],
        default=6,
    )
