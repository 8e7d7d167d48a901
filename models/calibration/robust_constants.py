"""Robust least-squares fit of constants on log errors, with the precision of each constant."""

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
    """Result of a fit for one constant of a kernel family.

    Parameters
    ----------
    name : name in the catalog, after the name of its family
    value : fitted value, or the previous value if the rows do not determine it
    width : relative half-width of the 90 % interval; NaN if the rows do not determine it
    """

    name: str
    value: float
    width: float

    @property
    def is_determined(self) -> bool:
        """True if the rows determine the constant."""
        return bool(np.isfinite(self.width))


def fit_constants(
    predict: Predict, start: Mapping[str, float], seconds: Floats,
    other: Mapping[str, float] | None = None,
) -> tuple[FittedConstant, ...]:  # fmt: skip
    """Fit constants to measured times; constants that no row determines keep their value.

    A constant whose interval spans more than a factor of 3 also keeps its value, if a fit of the
    others alone is as good.

    The loss is the squared log error, with less weight on large errors. Intervals come from the
    linear model at the optimum and the residuals of the rows that determine a constant. They do not
    include errors of the model itself, which held-out rows show.

    Parameters
    ----------
    predict : function from the constants to times in s, shape (n,)
    start : start of the search, above 0
    seconds : (n,) measured times in s
    other : start of a second search

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
    """Free constants found by a search, with their intervals and the loss.

    Parameters
    ----------
    values, widths : values of the free constants, and half-widths of their intervals in logarithms
    loss : loss over all rows
    """

    values: dict[str, float]
    widths: dict[str, float]
    loss: float


def _search(
    predict: Predict, fixed: Mapping[str, float], starts: Sequence[Mapping[str, float]],
    seconds: Floats,
) -> _SearchResult:  # fmt: skip
    """Fit the free constants from several start points.

    Parameters
    ----------
    fixed : values of the other constants
    starts : two start points of the free constants
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
    deviations = _deviations(_slopes(residuals, best.x), np.asarray(residuals(best.x)))
    widths = DEVIATIONS * deviations
    values = dict(zip(names, np.exp(best.x).tolist(), strict=True))
    return _SearchResult(values, dict(zip(names, widths.tolist(), strict=True)), float(best.cost))


def _deviations(slopes: Floats, left: Floats) -> Floats:
    """Standard deviation of each logarithm, shape (k,).

    Rows differ in noise: a short op is timed over several calls, a long one over one. So the larger
    of two is taken: that of equal noise in all rows, and that of each row's own residual (HC3:
    MacKinnon and White 1985, doi:10.1016/0304-4076(85)90158-7).

    Parameters
    ----------
    slopes : (n, k) derivative of each row's error by each logarithm
    left : (n,) residuals
    """
    rows, sizes, directions = np.linalg.svd(slopes, full_matrices=False)
    sizes = np.maximum(sizes, LEAST * max(float(sizes.max()), LEAST))
    shares = directions.T / sizes  # of a row's error, along its directions
    equal = 1.4826 * float(np.median(np.abs(left)))  # standard deviation of normal errors
    leverage = np.minimum((rows**2).sum(axis=1), 1 - LEAST)
    capped = np.clip(left, -OUTLIER_SCALE, OUTLIER_SCALE) / (1 - leverage)
    own = np.sqrt((((shares @ rows.T) * capped) ** 2).sum(axis=1))
    pooled = max(equal, 1e-6) * np.sqrt((shares**2).sum(axis=1))
    return np.asarray(np.maximum(own, pooled))


def least_robust_squares(
    residuals: Callable[[Floats], Floats], starts: Sequence[Floats], bounds: tuple[Floats, Floats],
    outlier_scale: float, max_evaluations: int,
) -> Any:  # fmt: skip
    """Best of several bounded robust least-squares searches, with less weight on large errors.

    Parameters
    ----------
    residuals : function from the logarithms of constants to the errors of rows
    starts : start points of the searches
    bounds : lower and upper bounds of the logarithms
    outlier_scale : error above which an error counts less than its square
    max_evaluations : largest number of predictions per search

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
    """Median absolute relative error, from ln(measured / predicted); NaN for no rows.

    >>> round(median_error(np.log([1.0, 0.8, 1.0])), 3), median_error(np.log([0.8])).__round__(2)
    (0.0, 0.25)
    """
    return float(np.median(np.abs(np.expm1(-logs)))) if len(logs) else float("nan")


def _slopes(residuals: Callable[[Floats], Floats], at: Floats, step: float = 1e-3) -> Floats:
    """Derivative of each row's error by each logarithm, shape (n, k), by central differences."""
    columns = []
    for i in range(len(at)):
        aside = np.zeros(len(at))
        aside[i] = step
        columns.append((residuals(at + aside) - residuals(at - aside)) / (2 * step))
    return np.stack(columns, axis=1)
