"""Jitter of recorded durations between steps and between process starts, as factors.

For replicas, give the graph its typical durations and the backend the factors around them:
``graph.with_ops(ops.replace(duration=typical(ops)))`` and ``Recorded.with_jitter(ops)``.

Three factors are separated: per op (averages out over a step), common to all ops of a rank in one
iteration, and common to a process start (needs several starts to estimate).

The next start is predicted from n starts with Student's t with n - 1 degrees of freedom, in
logarithms: the mean, and the standard deviation times sqrt(1 + 1/n). This is the prediction
interval of one future observation (Hahn and Meeker 1991, doi:10.1002/9780470316771). Fewer starts
give wider intervals. Without a distribution assumption, a 90 % interval would take 19 starts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...sim.facts.backend import Spread
from ...sim.facts.kind import kinds_with_role
from ...sim.facts.ops import Ops
from .student_t import student_t_quantile

QUANTILES = 64
BAR = (0.80, 0.97)  # acceptable coverage of intervals with nominal coverage LEVEL
LEVEL = 0.9


def typical_durations(ops: Ops) -> NDArray[np.float64]:
    """Typical duration of each op in s, shape (n,): its median over iterations, rescaled.

    Medians do not add up to the median of a sum. The ops of one kind on a rank share a scale factor
    that makes their sum correct in the median iteration.

    Examples
    --------
    >>> ops = Ops.of(period=[0, 1, 2], duration=[1.0, 3.0, 1.5])
    >>> typical_durations(ops).tolist()
    [1.5, 1.5, 1.5]
    >>> ops = Ops.of(period=[0, 0, 0, 1, 1, 1, 2, 2, 2], label=[0, 1, 2] * 3,
    ...     duration=[4.0, 1, 1, 1, 4, 1, 1, 1, 4])  # every iteration lasts 6
    >>> typical_durations(ops).tolist()[:3]
    [2.0, 2.0, 2.0]
    """
    typical_seconds = _median_durations(ops)
    group = _pair_numbers(ops.rank.astype(np.int64), ops.kind)
    step = _pair_numbers(group, ops.period)
    sums = np.bincount(step, typical_seconds)
    ratio = np.divide(np.bincount(step, ops.duration), sums, out=np.ones(len(sums)), where=sums > 0)
    of_group = np.zeros(len(sums), np.int64)
    of_group[step] = group
    scale = [np.median(ratio[of_group == g]) for g in range(int(group.max(initial=-1)) + 1)]
    return np.asarray(typical_seconds * np.array(scale)[group])


def _median_durations(ops: Ops) -> NDArray[np.float64]:
    """Median duration in s of each op over the iterations in which it occurs, shape (n,)."""
    same = _recurrence_numbers(ops)
    order = np.lexsort((ops.duration, same))
    starts = np.flatnonzero(np.diff(same[order], prepend=-1))
    counts = np.diff(np.append(starts, len(same)))
    low, high = order[starts + (counts - 1) // 2], order[starts + counts // 2]
    return np.asarray((ops.duration[low] + ops.duration[high]) / 2)[same]


def jitter_spread(ops: Ops, starts: Sequence[NDArray[np.float64]] = ()) -> Spread | None:
    """Quantiles of the jitter factors in a table of several iterations; None for one iteration.

    Parameters
    ----------
    starts : step times in s of each process start, each of shape (n,)
        If given, the factors of starts and steps come from these, and only the factor of ops comes
        from ``ops``.

    Examples
    --------
    >>> steady = Ops.of(period=[0, 0, 1, 1], label=[0, 1, 0, 1], duration=[1.0, 2, 1.1, 2.2])
    >>> result = jitter_spread(steady)
    >>> result.step[[0, -1]].round(3).tolist(), result.op.round(9).tolist()[:1]
    ([0.953, 1.047], [1.0])
    """
    if not jitter_recorded(ops):
        return None
    own = ops.take(_recorded_rows(ops))
    typical_seconds = typical_durations(own)
    _, step = np.unique(own.rank.astype(np.int64) * 2**32 + own.period, return_inverse=True)
    factor = np.bincount(step, own.duration) / np.bincount(step, typical_seconds)
    op = _weighted_quantiles(own.duration / (typical_seconds * factor[step]), typical_seconds)
    if not starts:
        return Spread(_quantiles(factor), op)
    return Spread(step_factors(starts), op, start_factors(starts))


def jitter_recorded(ops: Ops) -> bool:
    """True if a table has several iterations, so that its jitter can be estimated.

    >>> [jitter_recorded(Ops.of(period=[0, p], duration=[1.0, 1.1])) for p in (0, 1)]
    [False, True]
    """
    return len(np.unique(ops.period[_recorded_rows(ops)])) > 1


def _recorded_rows(ops: Ops) -> NDArray[np.int64]:
    return np.flatnonzero(np.isin(ops.kind, kinds_with_role()) & (ops.duration > 0))


def step_factors(starts: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Quantiles of step time divided by the median step of its process start, shape (q,).

    >>> step_factors([np.array([1.0, 2.0, 3.0]), np.array([4.0])])[[0, -1]].round(2).tolist()
    [0.51, 1.49]
    """
    return _quantiles(np.concatenate([s / np.median(s) for s in starts]))


def start_factors(starts: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Predictive quantiles of a new start's median step, relative to the mean of these starts.

    Shape (q,); the mean is geometric. Empty for a single start.

    Examples
    --------
    >>> alike = [np.array([x]) for x in (0.99, 1.0, 1.01)]
    >>> start_factors(alike)[[0, 31, -1]].round(3).tolist(), len(start_factors(alike[:1]))
    ([0.913, 1.0, 1.096], 0)
    """
    n = len(starts)
    if n < 2:
        return np.empty(0)
    logs = np.log([np.median(s) for s in starts])
    wide = float(logs.std(ddof=1)) * (1 + 1 / n) ** 0.5
    result: NDArray[np.float64] = np.exp(wide * student_t_quantile(n - 1, _quantile_levels()))
    return result


@dataclass(frozen=True)
class Coverage:
    """Coverage of prediction intervals, estimated by leaving out one process start at a time.

    Parameters
    ----------
    starts : number of process starts, each held out in turn
    steps : number of steps of all starts
    held : fraction of the steps inside their interval
    """

    starts: int
    steps: int
    held: float

    @property
    def resolved(self) -> bool:
        """True if the coverage is near the nominal 90 %: between 80 % and 97 %."""
        return BAR[0] <= self.held <= BAR[1]


def interval_coverage(starts: Sequence[NDArray[np.float64]]) -> Coverage | None:
    """Leave-one-start-out coverage of the prediction intervals; None for fewer than three starts.

    Each step is compared once with an interval from the other starts.

    Examples
    --------
    >>> steps = np.array([1.0, 1.01, 1.02, 1.03])
    >>> interval_coverage([steps, steps * 1.01, steps * 0.99, steps * 1.2]).resolved
    False
    """
    if len(starts) < 3:
        return None
    held = 0
    for k, steps in enumerate(starts):
        others = [s for i, s in enumerate(starts) if i != k]
        low, high = prediction_interval(others)
        held += int(np.count_nonzero((low <= steps) & (steps <= high)))
    n = sum(map(len, starts))
    return Coverage(len(starts), n, held / n)


def prediction_interval(starts: Sequence[NDArray[np.float64]]) -> tuple[float, float]:
    """90 % prediction interval of the step time of a new process start, in s."""
    typical = np.exp(np.mean([np.log(np.median(s)) for s in starts]))
    products = typical * np.outer(start_factors(starts), step_factors(starts))
    low, high = np.quantile(products, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def _quantile_levels() -> NDArray[np.float64]:
    return (np.arange(QUANTILES) + 0.5) / QUANTILES


def _quantiles(factors: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.quantile(factors, _quantile_levels())


def _weighted_quantiles(
    factors: NDArray[np.float64], weight: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Quantiles of factors weighted by time, normalised so that the mean factor is 1."""
    order = np.argsort(factors, kind="stable")
    passed = np.cumsum(weight[order])
    result = np.interp(
        _quantile_levels(), (passed - weight[order] / 2) / passed[-1], factors[order]
    )
    return np.asarray(result / result.mean())


def _recurrence_numbers(ops: Ops) -> NDArray[np.int64]:
    """Number of each op, shape (n,), equal for its recurrences in other iterations.

    Recurrences have the same component, kind, name and position in the iteration.
    """
    group = _combination_numbers(ops.rank, ops.stream, ops.kind, ops.signature, ops.label)
    once = _combination_numbers(group, ops.period)
    order = np.argsort(once, kind="stable")
    starts = np.flatnonzero(np.diff(once[order], prepend=-1))
    turn = np.empty(len(once), np.int64)
    turn[order] = np.arange(len(once)) - np.repeat(starts, np.diff(np.append(starts, len(once))))
    return _pair_numbers(group, turn)


def _combination_numbers(*columns: NDArray[Any]) -> NDArray[np.int64]:
    """One number per combination of column values, shape (n,); values are at least -1.

    The numbers are made dense only if they would overflow.
    """
    result, width = np.zeros(len(columns[0]), np.int64), 1
    for column in columns:
        values = int(column.max(initial=0)) + 2
        if width * values >= 2**62:
            result, width = _dense_numbers(result), len(result)
        result, width = result * values + column.astype(np.int64) + 1, width * values
    return result


def _pair_numbers(a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.int64]:
    """Dense number of each pair of values, shape (n,)."""
    return _dense_numbers(_combination_numbers(a, b))


def _dense_numbers(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rank of each value among the distinct values, shape (n,)."""
    return np.asarray(np.unique(values, return_inverse=True)[1].reshape(-1), np.int64)
