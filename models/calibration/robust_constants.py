"""Constants by robust least squares of log errors, and how well the rows tell each of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Predict = Callable[[Mapping[str, float]], Floats]
USUAL = 0.03  # of a time: beyond it an error counts less than its square
SURE = 1.645  # standard deviations: the ends hold 90 %
TOLD = 3.0  # a constant is known where its ends are within this factor
AS_GOOD = 1.05  # times a loss
LEAST = 1e-9  # of the largest: what is flatter than that is told by no row
RANGE = (9.0, 6.0)  # of a logarithm, below and above where the search begins
TRIES = (-0.7, 0.7)  # of a logarithm: where more searches begin


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
    def told(self) -> bool:
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
    >>> [(c.name, round(c.value, 1), c.told) for c in found]
    [('launch', 2.0, True), ('near', 3.0, True), ('far', 5.0, False)]
    """

    def search(free: Sequence[str]) -> _Found:
        still = {n: v for n, v in start.items() if n not in free}
        begins = [{n: one[n] for n in free} for one in (start, other or start)]
        return _search(predict, still, begins, seconds)

    found, needed = search(list(start)), set[str]()
    while wide := [n for n, w in found.widths.items() if n not in needed and 2 * w > np.log(TOLD)]:
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


class _Found(NamedTuple):
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
    predict: Predict, still: Mapping[str, float], begins: Sequence[Mapping[str, float]],
    seconds: Floats,
) -> _Found:  # fmt: skip
    """Free constants that fit best, from several places.

    Parameters
    ----------
    still : the other constants
    begins : where the search begins, and where else
    """
    if not begins[0]:
        return _Found({}, {}, float(np.square(np.log(predict(still) / seconds)).sum()) / 2)
    names, begin = list(begins[0]), np.log(list(begins[0].values()))
    other = np.log(list(begins[1].values()))

    def wrong(logs: Floats) -> Floats:
        values = dict(zip(names, np.exp(logs).tolist(), strict=True))
        return np.asarray(np.log(predict({**still, **values}) / seconds))

    ends = np.minimum(begin, other) - RANGE[0], np.maximum(begin, other) + RANGE[1]
    tries = [begin, *((begin + t for t in TRIES) if len(names) > 1 else ()), other]
    inside = [np.clip(t, ends[0] + 1e-6, ends[1] - 1e-6) for t in tries]
    best = least_robust_squares(wrong, inside, ends, USUAL, 100)
    left = np.asarray(wrong(best.x))
    usual = 1.4826 * float(np.median(np.abs(left)))  # of a normal error, by its median
    _, sizes, directions = np.linalg.svd(_slopes(wrong, best.x), full_matrices=False)
    sizes = np.maximum(sizes, LEAST * max(float(sizes.max()), LEAST))
    spread = np.sqrt(((directions / sizes[:, None]) ** 2).sum(axis=0))
    widths = SURE * max(usual, 1e-6) * spread
    values = dict(zip(names, np.exp(best.x).tolist(), strict=True))
    return _Found(values, dict(zip(names, widths.tolist(), strict=True)), float(best.cost))


def least_robust_squares(
    wrong: Callable[[Floats], Floats], tries: Sequence[Floats], ends: tuple[Floats, Floats],
    usual: float, most: int,
) -> Any:  # fmt: skip
    """Best of several bounded searches for least squares, large errors counting less.

    Parameters
    ----------
    wrong : errors of rows, by the logarithms of constants
    tries : where searches begin
    ends : least and largest logarithms
    usual : error beyond which one counts less than its square
    most : predictions of a search

    Returns
    -------
    What ``scipy.optimize.least_squares`` returns: ``x``, ``cost`` …
    """
    from scipy.optimize import least_squares

    found = [
        least_squares(wrong, t, bounds=ends, loss="soft_l1", f_scale=usual, max_nfev=most)
        for t in tries
    ]
    return min(found, key=lambda one: float(one.cost))


def median_error(logs: Floats) -> float:
    """Median absolute relative error of predictions, by ln(measured / predicted); NaN of none.

    >>> round(median_error(np.log([1.0, 0.8, 1.0])), 3), median_error(np.log([0.8])).__round__(2)
    (0.0, 0.25)
    """
    return float(np.median(np.abs(np.expm1(-logs)))) if len(logs) else float("nan")


def _slopes(wrong: Callable[[Floats], Floats], at: Floats, step: float = 1e-3) -> Floats:
    """(n, k) change of each row with each logarithm, from both sides."""
    columns = []
    for i in range(len(at)):
        aside = np.zeros(len(at))
        aside[i] = step
        columns.append((wrong(at + aside) - wrong(at - aside)) / (2 * step))
    return np.stack(columns, axis=1)
