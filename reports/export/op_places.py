"""Where each op was: a collective has a place on every member, any other op one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...sim.result import Result


class OpPlaces(NamedTuple):
    """(n,) A place each: the op's id, the rank and the stream that it took there."""

    op: NDArray[np.int64]
    rank: NDArray[np.int32]
    stream: NDArray[np.int32]


def placed(result: Result) -> OpPlaces:
    """Every place of every op of a run; ranks of several jobs are in one list, job after job."""
    blocks = [(r.first, r.graph.explicit) for r in result.runs]
    return OpPlaces(
        np.concatenate([first + b.op_of_place for first, b in blocks]),
        np.concatenate([result.rank(r) for r in result.runs]),
        np.concatenate([b.stream for _, b in blocks]),
    )
