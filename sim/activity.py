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

from .machine import NEVER
from .ops import Kind
from .place import NETWORK
from .result import Result
from .units import seconds

BOXES = (
    "compute",
    "overlapped",
    "exposed_communication",
    "memory",
    "waiting",
    "host",
    "idle",
)
_LAYERS = ("compute", "network", "copy", "waiting", "host")


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
    first = result.first_release
    edges = np.array(window or (first, first + result.makespan_ticks), np.int64)
    return {box: total[0] for box, total in activities(result, edges).items()}


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
    ranks = max((r.graph.ranks for r in result.runs), default=0)
    windows = len(edges) - 1
    rank, time, layer, step = _boundaries(_layers(result), edges, ranks)
    running = np.empty((len(time), len(_LAYERS)), np.bool_)
    for i in range(len(_LAYERS)):
        running[:, i] = np.cumsum(np.where(layer == i, step, 0)) > 0
    box = _box(running)
    length = np.append(np.diff(time), 0)
    length[np.append(rank[1:] != rank[:-1], True)] = 0
    at = np.clip(np.searchsorted(edges, time, side="right") - 1, 0, windows - 1)
    cell = (box * windows + at) * ranks + rank
    total = np.bincount(cell, length.astype(np.float64), len(BOXES) * windows * ranks)
    total = total.reshape(len(BOXES), windows, ranks)
    return {name: seconds(total[i], result.tick) for i, name in enumerate(BOXES)}


def _layers(result: Result) -> dict[str, Spans]:
    """What runs on each rank, by layer."""
    found: dict[str, list[Spans]] = {name: [] for name in _LAYERS}
    columns = result.columns
    base = len(columns.end)
    for run in result.runs:
        block, first = run.graph.explicit, run.first
        op = block.op_of_place
        n, e = len(block), len(block.places)
        start, end = columns.start[first + op], columns.end[first + op]
        arrived = np.concatenate(
            [columns.arrived[first : first + n], columns.arrived[base : base + e]]
        )
        base += e
        done, kind = end != NEVER, block.ops.kind[op]
        for layer, kinds in (
            ("compute", (Kind.COMPUTE,)),
            ("network", NETWORK),
            ("copy", (Kind.COPY,)),
            ("host", (Kind.HOST,)),
        ):
            rows = done & np.isin(kind, kinds)
            found[layer].append(Spans(block.rank[rows], start[rows], end[rows]))
        late = done & np.isin(kind, NETWORK) & (arrived != NEVER)
        found["waiting"].append(Spans(block.rank[late], arrived[late], start[late]))
    return {
        name: Spans(*(np.concatenate([s[k] for s in spans]) for k in range(3)))
        for name, spans in found.items()
        if spans
    }


def _boundaries(
    layers: dict[str, Spans], edges: NDArray[np.int64], ranks: int
) -> tuple[NDArray[np.int64], ...]:
    """Starts (+1) and ends (-1) of all layers within the windows, by rank and time."""
    # A marker at every edge parts the windows, and makes idle time beside it count.
    marks = ranks * len(edges)
    rank: list[NDArray[Any]] = [np.repeat(np.arange(ranks), len(edges))]
    time: list[NDArray[Any]] = [np.tile(edges, ranks)]
    layer, step = [np.full(marks, -1)], [np.zeros(marks, np.int64)]
    for i, name in enumerate(_LAYERS):
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
