"""Op times that override the backends: fixed times, and factors on the backends' times."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from .backend import Timing

SAID = "said: a rule of ops"


@dataclass(frozen=True)
class OpTimeOverrides:
    """Fixed time or factor for each op of a graph.

    Parameters
    ----------
    time : (n,) s
        Time of each op in s, or NaN to use its backend's time. An op with a time is not passed to a
        backend and shares no rate.
    factor : (n,)
        Factor on the time and work that the backend returns; 1 for an op with a fixed time.

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
        """Overrides that change none of ``n`` ops."""
        return cls(np.full(n, np.nan), np.ones(n))

    @property
    def is_given(self) -> NDArray[np.bool_]:
        """True for each op with a fixed time, shape (n,)."""
        return ~np.isnan(self.time)

    def with_time(self, rows: NDArray[np.int64], time: float) -> OpTimeOverrides:
        """Copy with a fixed time for some rows."""
        found = OpTimeOverrides(self.time.copy(), self.factor.copy())
        found.time[rows], found.factor[rows] = time, 1.0
        return found

    def with_factor(self, rows: NDArray[np.int64], factor: float) -> OpTimeOverrides:
        """Copy in which the times of some rows are multiplied by a factor."""
        found = OpTimeOverrides(self.time.copy(), self.factor.copy())
        found.time[rows] *= factor
        asked = rows[np.isnan(found.time[rows])]
        found.factor[asked] *= factor
        return found

    def take(self, rows: NDArray[np.int64]) -> OpTimeOverrides:
        """Overrides of selected rows, in the given order."""
        return OpTimeOverrides(self.time[rows], self.factor[rows])

    def apply_to(self, timing: Timing) -> Timing:
        """Multiply the fixed time and work of each op timing by the op's factor."""
        work = None if timing.work is None else timing.work * self.factor
        return replace(timing, fixed=timing.fixed * self.factor, work=work)
