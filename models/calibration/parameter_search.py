"""Parameter search: held-out groups, error statistics, and Nelder-Mead on log errors.

Complete groups (shapes, sizes, machines) are held out by a hash of their name and a committed seed,
so that they cannot be chosen after a fit is known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256

import numpy as np
from numpy.typing import ArrayLike, NDArray

SEED = "foretrace-1"
SHARE = 0.3
GAIN = 1e-5
FARTHEST = 16.0  # in logarithms: bound on the distance from the start

Predict = Callable[[NDArray[np.float64]], NDArray[np.float64]]


def held_out_mask(
    groups: Sequence[str], *, share: float = SHARE, seed: str = SEED
) -> NDArray[np.bool_]:
    """Mask of held-out rows, shape (n,): those whose group's hash is below ``share``.

    Examples
    --------
    >>> held_out_mask(["a", "b", "a", "c"]).tolist()
    [True, False, True, False]
    """
    chosen = {g: _hash_fraction(f"{seed}:{g}") < share for g in set(groups)}
    return np.array([chosen[g] for g in groups], bool)


def _hash_fraction(text: str) -> float:
    """Hash of a text as a number in [0, 1)."""
    return int.from_bytes(sha256(text.encode()).digest()[:8], "big") / 2.0**64


@dataclass(frozen=True)
class PredictionErrors:
    """Relative errors of predictions, (predicted - measured) / measured (``docs/definitions.md``).

    Parameters
    ----------
    n : number of rows
    mean, median, p95, worst : statistics of the absolute error
    bias : mean signed error
    log : median of ``abs(ln(predicted / measured))``
    """

    n: int
    mean: float
    median: float
    p95: float
    worst: float
    bias: float
    log: float

    @classmethod
    def of(cls, predicted: ArrayLike, measured: ArrayLike) -> PredictionErrors:
        """Errors of predicted against measured values.

        >>> PredictionErrors.of([1.1, 0.9], [1.0, 1.0]).mean
        0.1
        """
        predicted, measured = np.asarray(predicted, float), np.asarray(measured, float)
        error = (predicted - measured) / measured
        size = np.abs(error)
        return cls(
            n=len(error),
            mean=round(float(size.mean()), 4),
            median=round(float(np.median(size)), 4),
            p95=round(float(np.quantile(size, 0.95)), 4),
            worst=round(float(size.max()), 4),
            bias=round(float(error.mean()), 4),
            log=round(float(np.median(np.abs(np.log(predicted / measured)))), 4),
        )

    def __str__(self) -> str:
        return (
            f"median {self.median:.1%}, mean {self.mean:.1%}, p95 {self.p95:.1%}, "
            f"bias {self.bias:+.1%} on {self.n} rows"
        )


@dataclass(frozen=True)
class ParameterSearch:
    """Effort limits of a parameter search.

    Parameters
    ----------
    rounds : largest number of restarts from the last optimum
    tolerances : tolerance of a parameter's logarithm, and of the loss
    max_predictions : largest number of predictions per round
    """

    rounds: int
    tolerances: tuple[float, float]
    max_predictions: int


FINE = ParameterSearch(20, (1e-5, 1e-7), 4000)
CLOSE = ParameterSearch(3, (1e-3, 1e-5), 1000)
"""Limits for bootstrap refits."""
ROUGH = ParameterSearch(2, (1e-2, 1e-4), 600)
"""Limits for cross-validation."""


def fit_parameters(
    predict: Predict, start: Sequence[float], measured: ArrayLike, search: ParameterSearch = FINE
) -> NDArray[np.float64]:
    """Fit positive parameters by minimizing ``mean(abs(ln(predict(p) / measured)))``.

    Absolute log errors are robust against outliers, and weigh small ops like large ones. The search
    (Nelder and Mead 1965, doi:10.1093/comjnl/7.4.308) runs in the logarithm of the parameters from
    ``start``, and restarts from its result while that improves it.

    Examples
    --------
    >>> x = np.array([1.0, 2.0, 4.0])
    >>> fit_parameters(lambda p: p[0] * x, [1.0], 3 * x).round(3).tolist()
    [3.0]
    """
    from scipy.optimize import minimize

    target = np.log(np.asarray(measured, float))

    def loss(logs: NDArray[np.float64]) -> float:
        return float(np.mean(np.abs(np.log(predict(np.exp(logs))) - target)))

    at, best = np.log(np.asarray(start, float)), np.inf
    bounds = [(a - FARTHEST, a + FARTHEST) for a in at.tolist()]
    x, f = search.tolerances
    options = {
        "xatol": x,
        "fatol": f,
        "maxiter": search.max_predictions,
        "maxfev": search.max_predictions,
    }
    for _ in range(search.rounds):
        found = minimize(loss, at, method="Nelder-Mead", options=options, bounds=bounds)
        at, gained = found.x, best - found.fun
        best = found.fun
        if gained < GAIN:
            break
    return np.asarray(np.exp(at))
