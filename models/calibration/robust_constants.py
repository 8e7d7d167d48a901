"""Constants by robust least squares of log errors, and how well the rows tell each of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Predict = Callable[[Mapping[str, float]], Floats]
OUTLIER_SCALE = 0.03  # relative error above which the loss grows slower than its square
DEVIATIONS = 1.645  # half-width of a 90 % interval, in standard deviations
MAX_INTERVAL_RATIO = 3.0  # larger ratio of interval ends: constant not determined
AS_GOOD = 1.05  # largest loss, relative to the best, that counts as equally good
LEAST = 1e-9  # smallest singular value, relative to the largest
RANGE = (9.0, 6.0)  # bounds in logarithms, below and above the start
START_SHIFTS = (-0.7, 0.7)  # in logarithms: shifts of additional start points


@dataclass(frozen=True)
class FittedConstant:
    """Fitted constant.

    Parameters
    ----------
    name : as the catalog has it, after that of its family
    value : fitted, or what it was before
    width : half of the interval that holds 90 %, relative; NaN where the rows do not tell it
    """

    name: str
    value: float
    width: float

    @property
    def is_determined(self) -> bool:
        """Whether the rows tell it."""
        return bool(np.isfinite(self.width))


def fit_constants(
    predict: Predict, start: Mapping[str, float], seconds: Floats,
    other: Mapping[str, float] | None = None,
) -> tuple[FittedConstant, ...]:  # fmt: skip
    """Constants that fit measured times best; those that no row tells keep their value.

    A constant that may be anything within a factor of 3 keeps its value, if the rest then fits as
    well.

    Squares of logarithms, of large errors less than those.  The interval of a constant is that of
    the linear model at the optimum, whose residuals are as they are: it knows nothing of a model
    that is wrong, which what was held out tells.

    Parameters
    ----------
    predict : (n,) s by the constants
    start : where the search begins, above 0
    seconds : (n,) s, measured
    other : where another search begins

    Examples
    --------
    >>> x = np.linspace(1.0, 9.0, 30)
    >>> noisy = (2.0 + 3.0 * x) * np.random.default_rng(1).normal(1, 0.001, 30)
    >>> def line(c):
    ...     return c["launch"] + c["near"] * x + 0.0 * c["far"]
    >>> found = fit_constants(line, {"launch": 1.0, "near": 1.0, "far": 5.0}, noisy)
    >>> [(c.name, round(c.value, 1), c.is_determined) for c in found]
    [('launch', 2.0, True), ('near', 3.0, True), ('far', 5.0, False)]
    """

    def search(free: Sequence[str]) -> _SearchResult:
        fixed = {n: v for n, v in start.items() if n not in free}
        starts = [{n: one[n] for n in free} for one in (start, other or start)]
        return _search(predict, fixed, starts, seconds)

    found, needed = search(list(start)), set[str]()
    while wide := [
        n for n, w in found.widths.items() if n not in needed and 2 * w > np.log(MAX_INTERVAL_RATIO)
    ]:
        worst = max(wide, key=lambda n: found.widths[n])
        without = search([n for n in found.widths if n != worst])
        if without.loss <= AS_GOOD * found.loss:
            found = without
        else:
            needed.add(worst)
    return tuple(
        FittedConstant(n, found.values.get(n, v), found.widths.get(n, float("nan")))
        for n, v in start.items()
    )


class _SearchResult(NamedTuple):
    """Result of a search.

    Parameters
    ----------
    values, widths : of the free constants; half-widths of their intervals, of logarithms
    loss : of all rows
    """

    values: dict[str, float]
    widths: dict[str, float]
    loss: float


def _search(
    predict: Predict, fixed: Mapping[str, float], starts: Sequence[Mapping[str, float]],
    seconds: Floats,
) -> _SearchResult:  # fmt: skip
    """Free constants that fit best, from several places.

    Parameters
    ----------
    fixed : the other constants
    starts : where the search begins, and where else
    """
    if not starts[0]:
        return _SearchResult({}, {}, float(np.square(np.log(predict(fixed) / seconds)).sum()) / 2)
    names, begin = list(starts[0]), np.log(list(starts[0].values()))
    other = np.log(list(starts[1].values()))

    def residuals(logs: Floats) -> Floats:
        values = dict(zip(names, np.exp(logs).tolist(), strict=True))
        return np.asarray(np.log(predict({**fixed, **values}) / seconds))

    bounds = np.minimum(begin, other) - RANGE[0], np.maximum(begin, other) + RANGE[1]
    trials = [begin, *((begin + t for t in START_SHIFTS) if len(names) > 1 else ()), other]
    inside = [np.clip(t, bounds[0] + 1e-6, bounds[1] - 1e-6) for t in trials]
    best = least_robust_squares(residuals, inside, bounds, OUTLIER_SCALE, 100)
    left = np.asarray(residuals(best.x))
    deviation = 1.4826 * float(np.median(np.abs(left)))  # standard deviation of normal errors
    _, sizes, directions = np.linalg.svd(_slopes(residuals, best.x), full_matrices=False)
    sizes = np.maximum(sizes, LEAST * max(float(sizes.max()), LEAST))
    spread = np.sqrt(((directions / sizes[:, None]) ** 2).sum(axis=0))
    widths = DEVIATIONS * max(deviation, 1e-6) * spread
    values = dict(zip(names, np.exp(best.x).tolist(), strict=True))
    return _SearchResult(values, dict(zip(names, widths.tolist(), strict=True)), float(best.cost))


def least_robust_squares(
    residuals: Callable[[Floats], Floats], starts: Sequence[Floats], bounds: tuple[Floats, Floats],
    outlier_scale: float, max_evaluations: int,
) -> Any:  # fmt: skip
    """Best of several bounded searches for least squares, large errors counting less.

    Parameters
    ----------
    residuals : errors of rows, by the logarithms of constants
    starts : where searches begin
    bounds : least and largest logarithms
    outlier_scale : error beyond which one counts less than its square
    max_evaluations : predictions of a search

    Returns
    -------
    What ``scipy.optimize.least_squares`` returns: ``x``, ``cost`` …
    """
    from scipy.optimize import least_squares

    found = [
        least_squares(
            residuals,
            t,
            bounds=bounds,
            loss="soft_l1",
            f_scale=outlier_scale,
            max_nfev=max_evaluations,
        )
        for t in starts
    ]
    return min(found, key=lambda one: float(one.cost))


def median_error(logs: Floats) -> float:
    """Median absolute relative error of predictions, by ln(measured / predicted); NaN of none.

    >>> round(median_error(np.log([1.0, 0.8, 1.0])), 3), median_error(np.log([0.8])).__round__(2)
    (0.0, 0.25)
    """
    return float(np.median(np.abs(np.expm1(-logs)))) if len(logs) else float("nan")


def _slopes(residuals: Callable[[Floats], Floats], at: Floats, step: float = 1e-3) -> Floats:
    """(n, k) change of each row with each logarithm, from both sides."""
    columns = []
    for i in range(len(at)):
        aside = np.zeros(len(at))
        aside[i] = step
        columns.append((residuals(at + aside) - residuals(at - aside)) / (2 * step))
    return np.stack(columns, axis=1)
