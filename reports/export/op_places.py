"""Places of ops: a collective has one on every member, any other op has one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...sim.result import Result


class OpPlaces(NamedTuple):
    """(n,) columns, one row per place: the op's id, and the rank and stream where it ran."""

    op: NDArray[np.int64]
    rank: NDArray[np.int32]
    stream: NDArray[np.int32]


def op_places(result: Result) -> OpPlaces:
    """Every place of every op of a run; ranks of several jobs are numbered job after job."""
    blocks = [(r.first, r.graph.explicit) for r in result.runs]
    return OpPlaces(
        np.concatenate([first + b.op_of_place for first, b in blocks]),
        np.concatenate([result.rank(r) for r in result.runs]),
        np.concatenate([b.stream for _, b in blocks]),
    )
