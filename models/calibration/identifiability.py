"""Identifiability: which parameters the data determine, their values and intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...sim.ops import Ops
from .held_out_rows import Rows
from .parameter_search import CLOSE, FINE, Errors, ParameterSearch, fit

AS_GOOD = 0.02  # relative, of a loss
ASIDE = 0.7  # of a logarithm: where refits start from, around the fitted values
LEVEL = 0.9

Floats = NDArray[np.float64]
Model = Callable[[dict[str, float], Ops], Floats]


@dataclass(frozen=True)
class Parameter:
    """One number that a fit may change.

    Parameters
    ----------
    name : as the catalog has it
    value : before the fit; 0 for a cost that nobody stated
    guess : where the search starts if the value is 0
    """

    name: str
    value: float
    guess: float = 1e-6

    @property
    def start(self) -> float:
        """Initial value of the search."""
        return self.value if self.value > 0 else self.guess


@dataclass(frozen=True)
class Fitted:
    """A parameter after the fit.

    Parameters
    ----------
    name : as the catalog has it
    before, value : what it was, what it is
    interval : 90 % of the refits on resampled groups lie in it; None where it was kept
    """

    name: str
    before: float
    value: float
    interval: tuple[float, float] | None

    @property
    def kept(self) -> bool:
        """Whether the data could not tell it."""
        return self.interval is None


def identified(
    model: Model,
    parameters: Sequence[Parameter],
    near: Rows,
    draws: int,
    seed: str,
    most: float,
) -> tuple[dict[str, float], dict[str, tuple[float, float]]]:
    """Values of all parameters, and intervals of those that the data can tell.

    The one that resampling scatters most goes first; the others are then fitted without it.
    """
    free = list(parameters)
    while free:
        fixed = {p.name: p.value for p in parameters if p not in free}
        values = values_of(model, free, fixed, near, [p.start for p in free])
        intervals = _bootstrap(model, free, fixed, near, values, draws, seed)
        ratio = [high / low for low, high in intervals]
        worst = int(np.argmax(ratio))
        if ratio[worst] <= most:
            told = dict(zip((p.name for p in free), intervals, strict=True))
            return fixed | dict(zip(told, values, strict=True)), told
        del free[worst]
    return {p.name: p.value for p in parameters}, {}


def values_of(
    model: Model,
    free: Sequence[Parameter],
    fixed: dict[str, float],
    near: Rows,
    start: Sequence[float],
    search: ParameterSearch = FINE,
) -> list[float]:
    """The free parameters that fit these rows best, the others as given."""
    names = [p.name for p in free]

    def predict(values: Floats) -> Floats:
        return model(fixed | dict(zip(names, values.tolist(), strict=True)), near.ops)

    return [float(v) for v in fit(predict, start, near.seconds, search)]


def _refitted(
    model: Model,
    free: Sequence[Parameter],
    fixed: dict[str, float],
    near: Rows,
    starts: Sequence[Sequence[float]],
) -> list[float]:
    """The best of fits from several starts; the first of those that are as good."""
    found = [values_of(model, free, fixed, near, start, CLOSE) for start in starts]
    names = [p.name for p in free]
    losses = [
        Errors.of(model(fixed | dict(zip(names, values, strict=True)), near.ops), near.seconds).log
        for values in found
    ]
    good = min(losses) * (1 + AS_GOOD) + AS_GOOD / 100
    return next(v for v, loss in zip(found, losses, strict=True) if loss <= good)


def _bootstrap(
    model: Model,
    free: Sequence[Parameter],
    fixed: dict[str, float],
    near: Rows,
    values: Sequence[float],
    draws: int,
    seed: str,
) -> list[tuple[float, float]]:
    """90 % intervals from refits, each on as many groups drawn with replacement.

    Each starts elsewhere, too, and stays there where it is as good: what only a sum or product
    of parameters shows then scatters, while a search that got stuck does not count.
    """
    random = np.random.default_rng([*seed.encode()])
    names, group = np.unique(near.groups, return_inverse=True)
    members = [np.flatnonzero(group == g) for g in range(len(names))]
    drawn = []
    for _ in range(draws):
        rows = np.concatenate([members[g] for g in random.integers(0, len(names), len(names))])
        start = np.array(values) * np.exp(random.normal(0, ASIDE, len(values)))
        drawn.append(_refitted(model, free, fixed, near.take(rows), [start.tolist(), values]))
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    return list(zip(low.tolist(), high.tolist(), strict=True))
