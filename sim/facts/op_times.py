"""Times of ops that are said whatever a backend says: given ones, and factors of what it says."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from .backend import Timing

SAID = "said: a rule of ops"


@dataclass(frozen=True)
class OpTimes:
    """Given times and factors, one row per op of a graph.

    Parameters
    ----------
    time : (n,) s
        NaN where backends are asked; an op with a time is asked of nobody, and shares nothing.
    factor : (n,)
        Of what a backend says, time and work; 1 where a time is given.

    Examples
    --------
    >>> times = OpTimes.none(2).scaled(np.array([1]), 3.0)
    >>> times.applied(Timing.of([1.0, 2.0])).fixed.tolist()
    [1.0, 6.0]
    """

    time: NDArray[np.float64]
    factor: NDArray[np.float64]

    @classmethod
    def none(cls, n: int) -> OpTimes:
        """Times of a graph of which nothing is said."""
        return cls(np.full(n, np.nan), np.ones(n))

    @property
    def told(self) -> NDArray[np.bool_]:
        """(n,) whether a time is given."""
        return ~np.isnan(self.time)

    def given(self, rows: NDArray[np.int64], time: float) -> OpTimes:
        """The same with a given time of some rows."""
        found = OpTimes(self.time.copy(), self.factor.copy())
        found.time[rows], found.factor[rows] = time, 1.0
        return found

    def scaled(self, rows: NDArray[np.int64], factor: float) -> OpTimes:
        """The same with some rows so many times as long."""
        found = OpTimes(self.time.copy(), self.factor.copy())
        found.time[rows] *= factor
        asked = rows[np.isnan(found.time[rows])]
        found.factor[asked] *= factor
        return found

    def take(self, rows: NDArray[np.int64]) -> OpTimes:
        """Times of chosen rows."""
        return OpTimes(self.time[rows], self.factor[rows])

    def applied(self, timing: Timing) -> Timing:
        """Answers with each row so many times as long."""
        work = None if timing.work is None else timing.work * self.factor
        return replace(timing, fixed=timing.fixed * self.factor, work=work)
