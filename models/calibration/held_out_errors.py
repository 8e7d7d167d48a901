"""Errors on held-out rows, the interval of their median, and the A/A spread.

Errors within a group are correlated, so the bootstrap resamples complete groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .held_out_rows import CalibrationRows
from .parameter_search import SEED

LEVEL = 0.9
DRAWS = 2000

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class HeldOutErrors:
    """Prediction errors on held-out rows.

    Parameters
    ----------
    errors : (n,) relative error: (predicted - measured) / measured
    groups : (n,) group name of each row
    spread : A/A spread: median relative difference between odd and even process starts of the same
        op; NaN if every op has a single start
    """

    errors: Floats
    groups: tuple[str, ...]
    spread: float = np.nan

    @classmethod
    def of(cls, predicted: Floats, rows: CalibrationRows) -> HeldOutErrors:
        """Errors of predicted times against the measured times of these rows.

        >>> from foretrace.sim.facts.ops import Ops
        >>> rows = CalibrationRows(Ops.of(bytes=[1, 2]), np.array([1.0, 2.0]), ("a", "b"))
        >>> round(HeldOutErrors.of(np.array([1.1, 1.8]), rows).median, 3)
        0.1
        """
        return cls(np.asarray(predicted / rows.seconds - 1), rows.groups, start_spread(rows))

    @classmethod
    def pooled(cls, parts: Sequence[HeldOutErrors]) -> HeldOutErrors:
        """Errors of several parts joined: groups stay separate, spreads are averaged by rows."""
        errors = np.concatenate([*(p.errors for p in parts), np.empty(0)])
        groups = tuple(f"{i}:{g}" for i, p in enumerate(parts) for g in p.groups)
        each = np.repeat([p.spread for p in parts], [len(p.errors) for p in parts])
        known = each[np.isfinite(each)]
        return cls(errors, groups, float(known.mean()) if len(known) else np.nan)

    @property
    def median(self) -> float:
        """Median absolute error."""
        return float(np.median(np.abs(self.errors)))

    @property
    def interval(self) -> tuple[float, float] | None:
        """90 % bootstrap interval of the median error, resampling groups; None for a single group.

        >>> sure = HeldOutErrors(np.array([0.1, 0.1, 0.1]), ("a", "b", "c"))
        >>> sure.interval, HeldOutErrors(np.array([0.1]), ("a",)).interval
        ((0.1, 0.1), None)
        """
        names, group = np.unique(self.groups, return_inverse=True)
        if len(names) < 2:
            return None
        size = np.abs(self.errors)
        order = np.argsort(size)
        random = np.random.default_rng([*SEED.encode()])
        drawn = random.multinomial(len(names), np.full(len(names), 1 / len(names)), DRAWS)
        below = np.cumsum(drawn[:, group[order]], axis=1)
        at = (2 * below >= below[:, -1:]).argmax(axis=1)
        low, high = np.quantile(size[order][at], [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
        return float(low), float(high)


def start_spread(rows: CalibrationRows) -> float:
    """A/A spread: median relative difference between odd and even process starts of the same op.

    NaN if every op has a single start.

    >>> from foretrace.sim.facts.ops import Ops
    >>> ops = Ops.of(signature=[0, 0], signatures=("host:idle",))
    >>> round(start_spread(CalibrationRows(ops, np.array([1.0, 1.04]), ("a", "a"))), 3)
    0.04
    """
    spreads = []
    for op in np.unique(rows.ops.signature):
        seconds = rows.seconds[rows.ops.signature == op]
        if len(seconds) > 1:
            halves = [float(np.median(seconds[k::2])) for k in (0, 1)]
            spreads.append(max(halves) / min(halves) - 1)
    return float(np.median(spreads)) if spreads else float("nan")
