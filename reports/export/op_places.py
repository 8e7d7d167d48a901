"""Places of ops: one place for each rank that takes part in an op, with its rank and stream."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...sim.analysis.holdings import op_id_of_each_claim
from ...sim.engine_api.interface import NEVER
from ...sim.facts.roles import NETWORK
from ...sim.run.result import Result


class OpPlaces(NamedTuple):
    """Table with one row per place: op id, and rank and stream of the op there, shape (n,)."""

    op: NDArray[np.int64]
    rank: NDArray[np.int32]
    stream: NDArray[np.int32]


def op_places(result: Result) -> OpPlaces:
    """All places of all ops of a run; ranks of several jobs are numbered job after job."""
    blocks = [(r.first, r.graph.explicit) for r in result.runs]
    return OpPlaces(
        np.concatenate([first + b.op_of_place for first, b in blocks]),
        np.concatenate([result.rank(r) for r in result.runs]),
        np.concatenate([b.stream for _, b in blocks]),
    )


def rank_of_ops(result: Result) -> NDArray[np.int32]:
    """Rank of each op, shape (ops,); for a collective, its first rank."""
    return np.concatenate([result.rank(run)[: len(run.graph)] for run in result.runs])


def wait_starts(result: Result) -> NDArray[np.int64]:
    """Tick at which each place starts to wait for other ranks or for a free slot, shape (n,).

    For an op that never waits, it is the start of the op.
    """
    columns = result.columns
    base, found = len(columns.end), []
    for run in result.runs:
        block, first = run.graph.explicit, run.first
        n, more = len(block), len(block.places)
        arrived = np.concatenate(
            [columns.arrived[first : first + n], columns.arrived[base : base + more]]
        )
        base += more
        start = columns.start[first + block.op_of_place]
        meets = np.isin(block.ops.kind[block.op_of_place], NETWORK) & (arrived != NEVER)
        found.append(np.where(meets, arrived, start))
    arrived = np.concatenate(found)
    waited = np.flatnonzero(columns.asked < columns.granted)
    if len(waited):
        op, which = np.unique(op_id_of_each_claim(result)[waited], return_inverse=True)
        asked = np.full(len(columns.end), np.iinfo(np.int64).max)
        np.minimum.at(asked, op[which], columns.asked[waited])
        arrived = np.minimum(arrived, asked[op_places(result).op])
    return arrived
