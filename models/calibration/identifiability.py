"""Parameters that the data determine: their fitted values and bootstrap intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...sim.facts.ops import Ops
from .held_out_rows import CalibrationRows
from .parameter_search import CLOSE, FINE, ParameterSearch, PredictionErrors, fit_parameters

AS_GOOD = 0.02  # relative tolerance of a loss
ASIDE = 0.7  # in logarithms: distance of the start points of refits from the fit
LEVEL = 0.9

Floats = NDArray[np.float64]
Model = Callable[[dict[str, float], Ops], Floats]


@dataclass(frozen=True)
class Parameter:
    """Parameter that a fit may change.

    Parameters
    ----------
    name : name in the catalog
    value : value before the fit; 0 if unknown
    guess : start of the search if the value is 0
    """

    name: str
    value: float
    guess: float = 1e-6

    @property
    def start(self) -> float:
        """Start value of the search."""
        return self.value if self.value > 0 else self.guess


@dataclass(frozen=True)
class FittedParameter:
    """Result of a fit for one parameter: its value before and after, and its interval.

    Parameters
    ----------
    name : name in the catalog
    before, value : values before and after the fit
    interval : 90 % bootstrap interval; None if the parameter kept its value
    """

    name: str
    before: float
    value: float
    interval: tuple[float, float] | None

    @property
    def kept(self) -> bool:
        """True if it kept its value because the data do not determine it."""
        return self.interval is None


def identify_parameters(
    model: Model,
    parameters: Sequence[Parameter],
    rows_fitted: CalibrationRows,
    draws: int,
    seed: str,
    max_ratio: float,
) -> tuple[dict[str, float], dict[str, tuple[float, float]]]:
    """Fit all parameters that the data determine; returns all values and the intervals.

    While the ends of any interval have a ratio above ``max_ratio``, the parameter with the widest
    interval is fixed at its value before the fit, and the others are fitted again.
    """
    free = list(parameters)
    while free:
        fixed = {p.name: p.value for p in parameters if p not in free}
        values = best_values(model, free, fixed, rows_fitted, [p.start for p in free])
        intervals = _bootstrap_intervals(model, free, fixed, rows_fitted, values, draws, seed)
        ratio = [high / low for low, high in intervals]
        worst = int(np.argmax(ratio))
        if ratio[worst] <= max_ratio:
            known = dict(zip((p.name for p in free), intervals, strict=True))
            return fixed | dict(zip(known, values, strict=True)), known
        del free[worst]
    return {p.name: p.value for p in parameters}, {}


def best_values(
    model: Model,
    free: Sequence[Parameter],
    fixed: dict[str, float],
    rows_fitted: CalibrationRows,
    start: Sequence[float],
    search: ParameterSearch = FINE,
) -> list[float]:
    """Values of the free parameters that fit the rows best, with the others fixed."""
    names = [p.name for p in free]

    def predict(values: Floats) -> Floats:
        return model(fixed | dict(zip(names, values.tolist(), strict=True)), rows_fitted.ops)

    return [float(v) for v in fit_parameters(predict, start, rows_fitted.seconds, search)]


def _fit_from_starts(
    model: Model,
    free: Sequence[Parameter],
    fixed: dict[str, float],
    rows_fitted: CalibrationRows,
    starts: Sequence[Sequence[float]],
) -> list[float]:
    """Fit from several start points; returns the first result within 2 % of the smallest loss."""
    candidates = [best_values(model, free, fixed, rows_fitted, start, CLOSE) for start in starts]
    names = [p.name for p in free]
    losses = [
        PredictionErrors.of(
            model(fixed | dict(zip(names, values, strict=True)), rows_fitted.ops),
            rows_fitted.seconds,
        ).log
        for values in candidates
    ]
    good = min(losses) * (1 + AS_GOOD) + AS_GOOD / 100
    return next(v for v, loss in zip(candidates, losses, strict=True) if loss <= good)


def _bootstrap_intervals(
    model: Model,
    free: Sequence[Parameter],
    fixed: dict[str, float],
    rows_fitted: CalibrationRows,
    values: Sequence[float],
    draws: int,
    seed: str,
) -> list[tuple[float, float]]:
    """90 % bootstrap intervals of the parameters, resampling groups.

    Each refit also starts from a random point, and keeps that result if it is as good. Parameters
    that only matter as a sum or product then scatter, while a search stuck in a worse minimum is
    ignored.
    """
    random = np.random.default_rng([*seed.encode()])
    names, group = np.unique(rows_fitted.groups, return_inverse=True)
    members = [np.flatnonzero(group == g) for g in range(len(names))]
    refits = []
    for _ in range(draws):
        rows = np.concatenate([members[g] for g in random.integers(0, len(names), len(names))])
        start = np.array(values) * np.exp(random.normal(0, ASIDE, len(values)))
        refits.append(
            _fit_from_starts(model, free, fixed, rows_fitted.take(rows), [start.tolist(), values])
        )
    low, high = np.quantile(refits, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    return list(zip(low.tolist(), high.tolist(), strict=True))
