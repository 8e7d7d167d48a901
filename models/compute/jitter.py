"""How much the durations of a recording vary from step to step, as factors.

For replicas give the graph its typical durations and the backend the factors around them:
``graph.with_ops(ops.replace(duration=typical(ops)))`` and ``Recorded.varying(ops)``.

Independent noise of single ops averages itself away over a step; what a rank does not shake off
is a factor common to all its ops of one iteration.  So the two are kept apart.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...sim.backend import Spread
from ...sim.ops import Kind, Ops

QUANTILES = 64
OWN = (Kind.COMPUTE, Kind.HOST, Kind.COPY)  # others last as long as they wait for somebody


def typical(ops: Ops) -> NDArray[np.float64]:
    """(n,) s: of each op the median duration over the iterations in which it occurs.

    Examples
    --------
    >>> ops = Ops.of(iteration=[0, 1, 2], duration=[1.0, 3.0, 1.5])
    >>> typical(ops).tolist()
    [1.5, 1.5, 1.5]
    """
    same = _same(ops)
    order = np.lexsort((ops.duration, same))
    starts = np.flatnonzero(np.diff(same[order], prepend=-1))
    counts = np.diff(np.append(starts, len(same)))
    low, high = order[starts + (counts - 1) // 2], order[starts + counts // 2]
    return np.asarray((ops.duration[low] + ops.duration[high]) / 2)[same]


def spread(ops: Ops) -> Spread | None:
    """Quantiles of both factors over a table of several iterations; None where there is one.

    Examples
    --------
    >>> steady = Ops.of(iteration=[0, 0, 1, 1], label=[0, 1, 0, 1], duration=[1.0, 2, 1.1, 2.2])
    >>> found = spread(steady)
    >>> found.step[[0, -1]].round(3).tolist(), found.op.round(9).tolist()[:1]
    ([0.953, 1.047], [1.0])
    """
    rows = np.flatnonzero(np.isin(ops.kind, OWN) & (ops.duration > 0))
    if not len(rows) or len(np.unique(ops.iteration[rows])) < 2:
        return None
    own = ops.take(rows)
    usual = typical(own)
    _, step = np.unique(own.rank * 2**16 + own.iteration.astype(np.int64), return_inverse=True)
    factor = np.bincount(step, own.duration) / np.bincount(step, usual)
    return Spread(_quantiles(factor), _quantiles(own.duration / (usual * factor[step])))


def _quantiles(factors: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.quantile(factors, (np.arange(QUANTILES) + 0.5) / QUANTILES)


def _same(ops: Ops) -> NDArray[np.int64]:
    """(n,) number of the op that recurs: same place, kind, name and turn within its iteration."""
    group = np.zeros(len(ops), np.int64)
    for column in (ops.rank, ops.stream, ops.kind, ops.signature, ops.label):
        group = _pairs(group, column)
    once = _pairs(group, ops.iteration)
    order = np.argsort(once, kind="stable")
    starts = np.flatnonzero(np.diff(once[order], prepend=-1))
    turn = np.empty(len(once), np.int64)
    turn[order] = np.arange(len(once)) - np.repeat(starts, np.diff(np.append(starts, len(once))))
    return _pairs(group, turn)


def _pairs(a: NDArray[np.int64], b: NDArray[Any]) -> NDArray[np.int64]:
    """(n,) one number for each pair of values; ``b`` is at least -1."""
    width = int(b.max(initial=0)) + 2
    _, number = np.unique(a * width + b.astype(np.int64) + 1, return_inverse=True)
    return np.asarray(number.reshape(-1), np.int64)
