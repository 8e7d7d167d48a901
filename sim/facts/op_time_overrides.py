"""Times of ops that are said whatever a backend says: given ones, and factors of what it says."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from .backend import Timing

SAID = "said: a rule of ops"


@dataclass(frozen=True)
class OpTimeOverrides:
    """Given times and factors, one row per op of a graph.

    Parameters
    ----------
    time : (n,) s
        NaN where backends are asked; an op with a time is asked of nobody, and shares nothing.
    factor : (n,)
        Of what a backend says, time and work; 1 where a time is given.

    Examples
    --------
    >>> times = OpTimeOverrides.none(2).with_factor(np.array([1]), 3.0)
    >>> times.apply_to(Timing.of([1.0, 2.0])).fixed.tolist()
    [1.0, 6.0]
    """

    time: NDArray[np.float64]
    factor: NDArray[np.float64]

    @classmethod
    def none(cls, n: int) -> OpTimeOverrides:
        """Times of a graph of which nothing is said."""
        return cls(np.full(n, np.nan), np.ones(n))

    @property
    def is_given(self) -> NDArray[np.bool_]:
        """(n,) whether a time is given."""
        return ~np.isnan(self.time)

    def with_time(self, rows: NDArray[np.int64], time: float) -> OpTimeOverrides:
        """The same with a given time of some rows."""
        found = OpTimeOverrides(self.time.copy(), self.factor.copy())
        found.time[rows], found.factor[rows] = time, 1.0
        return found

    def with_factor(self, rows: NDArray[np.int64], factor: float) -> OpTimeOverrides:
        """The same with some rows so many times as long."""
        found = OpTimeOverrides(self.time.copy(), self.factor.copy())
        found.time[rows] *= factor
        asked = rows[np.isnan(found.time[rows])]
        found.factor[asked] *= factor
        return found

    def take(self, rows: NDArray[np.int64]) -> OpTimeOverrides:
        """Times of chosen rows."""
        return OpTimeOverrides(self.time[rows], self.factor[rows])

    def apply_to(self, timing: Timing) -> Timing:
        """Answers with each row so many times as long."""
        work = None if timing.work is None else timing.work * self.factor
        return replace(timing, fixed=timing.fixed * self.factor, work=work)
