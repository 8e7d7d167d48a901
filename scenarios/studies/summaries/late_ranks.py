"""Late ranks of a run as plain data: which ranks others wait for, and what each rank does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....sim.analysis.activity import activity
from ....sim.analysis.arrivals import CollectiveWaits, collective_waits, lateness
from ....sim.engine_api.interface import NEVER
from ....sim.run.result import Result
from ....sim.units import seconds

MOST = 64  # most ranks listed (those that others wait for most), and most collectives


def waiting_by_rank(result: Result) -> dict[str, Any] | None:
    """Waiting of each rank at collectives; None if there is none, or rows were not stored."""
    if result.written is None:
        return None
    found = lateness(result)
    if not found.collectives:
        return None
    boxes = activity(result)
    own = boxes["compute"] + boxes["overlapped"] + boxes["memory"] + boxes["host"]
    begins = _first_starts(result)
    shown = np.sort(np.argsort(-found.late, kind="stable")[:MOST])
    return {
        "collectives": found.collectives,
        "cause": found.straggler,
        "waited": found.waited,
        "of": result.makespan * result.ranks,
        "ranks": [
            {
                "rank": r,
                "begins": float(begins[r]),
                "own": float(own[r]),
                "waiting": float(boxes["waiting"][r]),
                "late": float(found.late[r]),
                "last": int(found.last[r]),
            }
            for r in shown.tolist()
        ],
        "met": _most_waited_for(result, shown),
    }


def _first_starts(result: Result) -> NDArray[np.float64]:
    """Seconds from the first op of the run to the first op of each rank, shape (ranks,)."""
    first = np.full(result.ranks, np.iinfo(np.int64).max)
    for run in result.runs:
        n = len(run.graph)
        start = result.columns.start[run.first : run.first + n]
        began = start != NEVER
        np.minimum.at(first, result.rank(run)[:n][began], start[began])
    return seconds(np.maximum(first - first.min(), 0), result.tick)


def _most_waited_for(result: Result, ranks: NDArray[np.int64]) -> list[dict[str, Any]]:
    """Collectives with the longest total waiting, in the order of their start.

    ``waits`` has the seconds of each of ``ranks``; None for a rank that takes no part. ``last`` is
    the rank that arrived last, the lowest one if ``tied`` ranks did.
    """
    start = result.start
    rows = [(t, waits, op) for waits in collective_waits(result) for t, op in _time_waited(waits)]
    rows = sorted(rows, key=lambda row: -row[0])[:MOST]
    found = [_collective_facts(waits, op, ranks) for _, waits, op in rows]
    order = np.argsort([start[waits.run.first + op] for _, waits, op in rows], kind="stable")
    return [found[i] for i in order.tolist()]


def _time_waited(waits: CollectiveWaits) -> Iterator[tuple[float, int]]:
    """Total waiting time in s, and op row, of the collectives with the longest waiting."""
    op, of = np.unique(waits.op, return_inverse=True)
    total = np.bincount(of, waits.wait, len(op))
    most = np.argsort(-total, kind="stable")[:MOST]
    return zip(total[most].tolist(), op[most].tolist(), strict=True)


def _collective_facts(waits: CollectiveWaits, op: int, ranks: NDArray[np.int64]) -> dict[str, Any]:
    own = waits.op == op
    rank, wait = waits.rank[own], waits.wait[own]
    by_rank = dict(zip(rank.tolist(), wait.tolist(), strict=True))
    return {
        "name": waits.run.graph.label(op).name,
        "last": int(rank[wait == 0].min()),
        "tied": int(np.count_nonzero(wait == 0)),
        "waited": float(wait.sum()),
        "waits": [by_rank.get(r) for r in ranks.tolist()],
    }
