"""Errors with intervals, and verdicts against a limit: pass, fail or unresolved."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
DRAWS = 200
LEVEL = 0.9
AA = 1.5  # smallest limit that can be judged, as a multiple of the A/A spread
NOISE_AT_MOST = 0.3  # limit that the A/A spread can raise a smaller one to


@dataclass(frozen=True)
class ScoredOps:
    """Distinct ops of one component, with their measured time in each process start.

    Parameters
    ----------
    signature : signature of each op, length n
    calls : number of calls in the run, shape (n,)
    bytes : number of bytes of each op, shape (n,); NaN if unknown
    predicted : predicted time in s, shape (n,)
    starts : median time in s per process start, shape (n, k); NaN if not measured
    """

    signature: tuple[str, ...]
    calls: NDArray[np.int64]
    bytes: Floats
    predicted: Floats
    starts: Floats

    @property
    def measured(self) -> Floats:
        """Measured time per op in s, shape (n,): the median over process starts."""
        return np.asarray(np.nanmedian(self.starts, axis=1))

    @property
    def error(self) -> Floats:
        """Relative error per op, (predicted - measured) / measured, shape (n,)."""
        return np.asarray(self.predicted / self.measured - 1)

    @property
    def spread(self) -> float:
        """A/A spread: median relative difference of two halves of the starts; NaN for one start."""
        if self.starts.shape[1] < 2:
            return float("nan")
        one, other = (np.nanmedian(self.starts[:, k::2], axis=1) for k in (0, 1))
        return weighted_quantile(
            np.maximum(one, other) / np.minimum(one, other) - 1, self.calls, 0.5
        )


def weighted_quantile(values: Floats, calls: NDArray[np.int64], q: float) -> float:
    """Quantile of values weighted by their number of calls.

    >>> weighted_quantile(np.array([1.0, 5.0]), np.array([3, 1]), 0.5)
    1.0
    """
    order = np.argsort(values)
    below = np.cumsum(calls[order])
    return float(values[order][np.searchsorted(below, q * below[-1])])


def _weighted_mean(values: Floats, calls: NDArray[np.int64]) -> float:
    return float(np.average(values, weights=calls))


STATISTICS: Mapping[str, Callable[[Floats, NDArray[np.int64]], float]] = {
    "mean": lambda e, n: _weighted_mean(np.abs(e), n),
    "bias": _weighted_mean,
    "p50": lambda e, n: weighted_quantile(np.abs(e), n, 0.5),
    "p95": lambda e, n: weighted_quantile(np.abs(e), n, 0.95),
    "p99": lambda e, n: weighted_quantile(np.abs(e), n, 0.99),
    "max": lambda e, n: float(np.abs(e).max()),
    "min": lambda e, n: float(np.abs(e).min()),
}


@dataclass(frozen=True)
class ErrorStatistic:
    """One statistic of an error.

    Parameters
    ----------
    value : measured value
    interval : 90 % interval over process starts; None for a single start
    """

    value: float
    interval: tuple[float, float] | None


def error_statistics(
    ops: ScoredOps, seed: int = 0, draws: int = DRAWS
) -> dict[str, ErrorStatistic]:
    """Statistics of a component's relative error over the calls of the run, by name.

    Intervals come from resampled process starts, so they contain the variation between starts.

    Examples
    --------
    >>> one = np.array([[1.0, 1.0], [2.0, 2.0]])
    >>> ops = ScoredOps(("a", "b"), np.array([3, 1]), np.ones(2), np.array([1.1, 2.0]), one)
    >>> told = error_statistics(ops)
    >>> round(told["p50"].value, 6), round(told["mean"].value, 6), told["max"].interval is None
    (0.1, 0.075, False)
    """
    random = np.random.default_rng(seed)
    errors = []
    k = ops.starts.shape[1]
    for _ in range(draws if k > 1 else 0):
        drawn = ops.starts[:, random.integers(0, k, k)]
        seen = np.isfinite(drawn).any(axis=1)
        middle = ops.measured.copy()
        middle[seen] = np.nanmedian(drawn[seen], axis=1)
        errors.append(ops.predicted / middle - 1)
    found = {}
    for name, statistic in STATISTICS.items():
        values = [statistic(e, ops.calls) for e in errors]
        found[name] = ErrorStatistic(statistic(ops.error, ops.calls), central_quantiles(values))
    return found


def central_quantiles(values: Sequence[float]) -> tuple[float, float] | None:
    """5 % and 95 % quantiles of values; None for no values."""
    if not len(values):
        return None
    low, high = np.quantile(values, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def accuracy_verdict(score: ErrorStatistic, stated: float, spread: float) -> tuple[str, float]:
    """Verdict (``pass``, ``fail`` or ``unresolved``), and the limit that was applied.

    The limit is the stated one, but at least 1.5 times the A/A spread. The spread raises it to 30 %
    at most. The verdict is ``unresolved`` if the error's interval contains the limit, or if the
    spread is larger than the limit.

    Examples
    --------
    >>> narrow, wide = ErrorStatistic(0.03, (0.02, 0.04)), ErrorStatistic(0.03, (0.02, 0.06))
    >>> accuracy_verdict(narrow, 0.05, 0.01), accuracy_verdict(wide, 0.05, 0.01)
    (('pass', 0.05), ('unresolved', 0.05))
    >>> accuracy_verdict(ErrorStatistic(0.07, (0.06, 0.08)), 0.05, 0.01)[0]
    'fail'
    >>> accuracy_verdict(narrow, 0.05, 1.0)  # times that differ twofold are no jitter
    ('unresolved', 0.3)
    """
    known = np.isfinite(spread)
    bar = max(stated, min(AA * spread, NOISE_AT_MOST)) if known else stated
    if score.interval is None or (known and spread > bar):
        return "unresolved", bar
    low, high = score.interval
    if high <= bar:
        return "pass", bar
    return ("fail" if low > bar else "unresolved"), bar


def errors_by_size(ops: ScoredOps) -> list[dict[str, float]]:
    """Errors by message size: one row per factor of four of bytes, ascending."""
    known = np.isfinite(ops.bytes) & (ops.bytes > 0)
    if not known.any():
        return []
    band = np.full(len(ops.bytes), -1)
    band[known] = np.floor(np.log(ops.bytes[known]) / np.log(4) + 1e-9)
    rows = []
    for b in np.unique(band[known]).tolist():
        at = band == b
        rows.append(
            {
                "least": 4.0**b,
                "n": int(ops.calls[at].sum()),
                "p50": STATISTICS["p50"](ops.error[at], ops.calls[at]),
                "bias": STATISTICS["bias"](ops.error[at], ops.calls[at]),
                "max": STATISTICS["max"](ops.error[at], ops.calls[at]),
            }
        )
    return rows
