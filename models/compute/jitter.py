"""Jitter: variation of recorded durations from step to step, as factors.

For replicas give the graph its typical durations and the backend the factors around them:
``graph.with_ops(ops.replace(duration=typical(ops)))`` and ``Recorded.varying(ops)``.

Independent noise of single ops averages itself away over a step; what a rank does not shake off
is a factor common to all its ops of one iteration, and what a whole run does not shake off is one
common to a process start.  So the three are kept apart.  The third takes several starts to see.

From n of them the next is predicted by Student's t with n - 1 degrees of freedom, in logarithms:
the mean, and the standard deviation times sqrt(1 + 1/n), which is the prediction interval of one
future observation (Hahn and Meeker 1991, doi:10.1002/9780470316771).  Fewer starts thus give wider
intervals.  Without assuming a distribution, 90 % would take 19 starts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...sim.backend import Spread
from ...sim.ops import Kind, Ops
from .student_t import quantile

QUANTILES = 64
BAR = (0.80, 0.97)  # of what is measured again, intervals of LEVEL should hold this much
LEVEL = 0.9
OWN = (Kind.COMPUTE, Kind.HOST, Kind.COPY)  # others last as long as they wait for somebody


def typical(ops: Ops) -> NDArray[np.float64]:
    """(n,) s: of each op the median duration over the iterations in which it occurs.

    Medians do not add up to a median: of a rank's ops of one kind they are scaled alike, so that
    their sum is right in the median iteration.

    Examples
    --------
    >>> ops = Ops.of(period=[0, 1, 2], duration=[1.0, 3.0, 1.5])
    >>> typical(ops).tolist()
    [1.5, 1.5, 1.5]
    >>> ops = Ops.of(period=[0, 0, 0, 1, 1, 1, 2, 2, 2], label=[0, 1, 2] * 3,
    ...     duration=[4.0, 1, 1, 1, 4, 1, 1, 1, 4])  # every iteration lasts 6
    >>> typical(ops).tolist()[:3]
    [2.0, 2.0, 2.0]
    """
    usual = _medians(ops)
    group = _pairs(ops.rank.astype(np.int64), ops.kind)
    step = _pairs(group, ops.period)
    sums = np.bincount(step, usual)
    ratio = np.divide(np.bincount(step, ops.duration), sums, out=np.ones(len(sums)), where=sums > 0)
    of_group = np.zeros(len(sums), np.int64)
    of_group[step] = group
    scale = [np.median(ratio[of_group == g]) for g in range(int(group.max(initial=-1)) + 1)]
    return np.asarray(usual * np.array(scale)[group])


def _medians(ops: Ops) -> NDArray[np.float64]:
    """(n,) s: of each op the median duration over the iterations in which it occurs."""
    same = _same(ops)
    order = np.lexsort((ops.duration, same))
    starts = np.flatnonzero(np.diff(same[order], prepend=-1))
    counts = np.diff(np.append(starts, len(same)))
    low, high = order[starts + (counts - 1) // 2], order[starts + counts // 2]
    return np.asarray((ops.duration[low] + ops.duration[high]) / 2)[same]


def spread(ops: Ops, starts: Sequence[NDArray[np.float64]] = ()) -> Spread | None:
    """Quantiles of the factors that a table of several iterations shows; None where there is one.

    Parameters
    ----------
    starts : of each process start, (n,) s of its steps
        Where there are any, the factors of start and step are theirs, those of an op the table's.

    Examples
    --------
    >>> steady = Ops.of(period=[0, 0, 1, 1], label=[0, 1, 0, 1], duration=[1.0, 2, 1.1, 2.2])
    >>> found = spread(steady)
    >>> found.step[[0, -1]].round(3).tolist(), found.op.round(9).tolist()[:1]
    ([0.953, 1.047], [1.0])
    """
    rows = np.flatnonzero(np.isin(ops.kind, OWN) & (ops.duration > 0))
    if not len(rows) or len(np.unique(ops.period[rows])) < 2:
        return None
    own = ops.take(rows)
    usual = typical(own)
    _, step = np.unique(own.rank * 2**16 + own.period.astype(np.int64), return_inverse=True)
    factor = np.bincount(step, own.duration) / np.bincount(step, usual)
    op = _weighted(own.duration / (usual * factor[step]), usual)
    if not starts:
        return Spread(_quantiles(factor), op)
    return Spread(within(starts), op, between(starts))


def within(starts: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """(q,) quantiles of a step over the median of its start.

    >>> within([np.array([1.0, 2.0, 3.0]), np.array([4.0])])[[0, -1]].round(2).tolist()
    [0.51, 1.49]
    """
    return _quantiles(np.concatenate([s / np.median(s) for s in starts]))


def between(starts: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """(q,) quantiles of the median step of the next start over the geometric mean of these.

    Empty for a single start: nothing is known of others.

    Examples
    --------
    >>> alike = [np.array([x]) for x in (0.99, 1.0, 1.01)]
    >>> between(alike)[[0, 31, -1]].round(3).tolist(), len(between(alike[:1]))
    ([0.913, 1.0, 1.096], 0)
    """
    n = len(starts)
    if n < 2:
        return np.empty(0)
    logs = np.log([np.median(s) for s in starts])
    wide = float(logs.std(ddof=1)) * (1 + 1 / n) ** 0.5
    found: NDArray[np.float64] = np.exp(wide * quantile(n - 1, _places()))
    return found


@dataclass(frozen=True)
class Coverage:
    """Coverage of intervals: share of held-out measurements that they contain.

    Parameters
    ----------
    starts : process starts, each held out in turn
    steps : of all of them
    held : share of the steps that lay within
    """

    starts: int
    steps: int
    held: float

    @property
    def resolved(self) -> bool:
        """Whether the intervals hold about as much as they say."""
        return BAR[0] <= self.held <= BAR[1]


def coverage(starts: Sequence[NDArray[np.float64]]) -> Coverage | None:
    """Hold out every start in turn, and predict its steps from the others; None below three.

    Nothing is chosen here: every step is judged once, by intervals that know nothing of its start.

    Examples
    --------
    >>> steps = np.array([1.0, 1.01, 1.02, 1.03])
    >>> coverage([steps, steps * 1.01, steps * 0.99, steps * 1.2]).resolved
    False
    """
    if len(starts) < 3:
        return None
    held = 0
    for k, steps in enumerate(starts):
        others = [s for i, s in enumerate(starts) if i != k]
        low, high = predicted(others)
        held += int(np.count_nonzero((low <= steps) & (steps <= high)))
    n = sum(map(len, starts))
    return Coverage(len(starts), n, held / n)


def predicted(starts: Sequence[NDArray[np.float64]]) -> tuple[float, float]:
    """90 % prediction interval of the steps of another process start, in s."""
    typical = np.exp(np.mean([np.log(np.median(s)) for s in starts]))
    drawn = typical * np.outer(between(starts), within(starts))
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def _places() -> NDArray[np.float64]:
    return (np.arange(QUANTILES) + 0.5) / QUANTILES


def _quantiles(factors: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.quantile(factors, _places())


def _weighted(factors: NDArray[np.float64], weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """Quantiles over time, not over ops, so that drawing them leaves a step as long as it was."""
    order = np.argsort(factors, kind="stable")
    passed = np.cumsum(weight[order])
    found = np.interp(_places(), (passed - weight[order] / 2) / passed[-1], factors[order])
    return np.asarray(found / found.mean())


def _same(ops: Ops) -> NDArray[np.int64]:
    """(n,) number of the op that recurs: same place, kind, name and turn within its iteration."""
    group = _packed(ops.rank, ops.stream, ops.kind, ops.signature, ops.label)
    once = _packed(group, ops.period)
    order = np.argsort(once, kind="stable")
    starts = np.flatnonzero(np.diff(once[order], prepend=-1))
    turn = np.empty(len(once), np.int64)
    turn[order] = np.arange(len(once)) - np.repeat(starts, np.diff(np.append(starts, len(once))))
    return _pairs(group, turn)


def _packed(*columns: NDArray[Any]) -> NDArray[np.int64]:
    """(n,) one number for each combination of values, each at least -1; sorted only for room."""
    found, width = np.zeros(len(columns[0]), np.int64), 1
    for column in columns:
        values = int(column.max(initial=0)) + 2
        if width * values >= 2**62:
            found, width = _numbered(found), len(found)
        found, width = found * values + column.astype(np.int64) + 1, width * values
    return found


def _pairs(a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.int64]:
    """(n,) one small number for each pair of values."""
    return _numbered(_packed(a, b))


def _numbered(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """(n,) small numbers, one for each value, in their order."""
    return np.asarray(np.unique(values, return_inverse=True)[1].reshape(-1), np.int64)
