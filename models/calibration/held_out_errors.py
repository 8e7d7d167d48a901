"""Errors of what was held out, how sure their median is, and how far measurements agree.

Rows of one group are wrong together, so whole groups are drawn again, not rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .held_out_rows import Rows
from .parameter_search import SEED

LEVEL = 0.9
DRAWS = 2000

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Judged:
    """Errors of rows that nothing was fitted to.

    Parameters
    ----------
    errors : (n,) (predicted - measured) / measured
    groups : (n,) names of what was held out together
    spread : A/A: by how much two halves of the starts differ, the median op; NaN for one start
    """

    errors: Floats
    groups: tuple[str, ...]
    spread: float = np.nan

    @classmethod
    def of(cls, predicted: Floats, rows: Rows) -> Judged:
        """Compare row by row.

        >>> from foretrace.sim.ops import Ops
        >>> rows = Rows(Ops.of(bytes=[1, 2]), np.array([1.0, 2.0]), ("a", "b"))
        >>> round(Judged.of(np.array([1.1, 1.8]), rows).median, 3)
        0.1
        """
        return cls(np.asarray(predicted / rows.seconds - 1), rows.groups, spread(rows))

    @classmethod
    def together(cls, parts: Sequence[Judged]) -> Judged:
        """All rows of several, groups of each apart; the A/A counts by rows."""
        errors = np.concatenate([*(p.errors for p in parts), np.empty(0)])
        groups = tuple(f"{i}:{g}" for i, p in enumerate(parts) for g in p.groups)
        each = np.repeat([p.spread for p in parts], [len(p.errors) for p in parts])
        known = each[np.isfinite(each)]
        return cls(errors, groups, float(known.mean()) if len(known) else np.nan)

    @property
    def median(self) -> float:
        """Of the absolute errors."""
        return float(np.median(np.abs(self.errors)))

    @property
    def interval(self) -> tuple[float, float] | None:
        """90 % of the medians of as many groups drawn with replacement; None for a single one.

        >>> sure = Judged(np.array([0.1, 0.1, 0.1]), ("a", "b", "c"))
        >>> sure.interval, Judged(np.array([0.1]), ("a",)).interval
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


def spread(rows: Rows) -> float:
    """A/A: odd starts of each op against even ones, the median op; NaN where none has two.

    >>> from foretrace.sim.ops import Ops
    >>> ops = Ops.of(signature=[0, 0], signatures=("host:idle",))
    >>> round(spread(Rows(ops, np.array([1.0, 1.04]), ("a", "a"))), 3)
    0.04
    """
    found = []
    for op in np.unique(rows.ops.signature):
        seconds = rows.seconds[rows.ops.signature == op]
        if len(seconds) > 1:
            halves = [float(np.median(seconds[k::2])) for k in (0, 1)]
            found.append(max(halves) / min(halves) - 1)
    return float(np.median(found)) if found else float("nan")
