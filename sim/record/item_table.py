"""Results of a stream of items: one row per class and pool, and latencies by class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..units import Seconds

Times = NDArray[np.float64]
Counts = NDArray[np.int64]


@dataclass(frozen=True)
class ItemTable:
    """Results of one stream of items.

    Parameters
    ----------
    name, job : names of the stream and its job
    classes, pools : their names
    delays : (pools,) True for delays
    arrived, ended, dropped : (classes,) number of items
    inside : number of items that are still inside
    served : (classes, pools) number of services that began
    waiting, working : (classes, pools) sum of the time that items waited for a pool, and were in it
    drops : (classes, pools + 1) number of items dropped, the last column outside of all pools
    latency : (classes,) sum of the times from arrival to leaving
    longest : (classes,) longest latency
    counts : total of each counter of the policy
    samples : latencies of each class, and of all, ascending: every one, or 4,096 quantiles
    error : largest relative error of the samples; 0 if they are exact

    Examples
    --------
    >>> one = np.ones(1, np.int64)
    >>> table = ItemTable("packets", "main", ("any",), ("nf",), np.zeros(1, bool), one, one,
    ...     0 * one, 0, one[None], np.array([[2.0]]), np.array([[3.0]]), np.zeros((1, 2), np.int64),
    ...     np.array([5.0]), np.array([5.0]), {}, 2 * (np.array([5.0]),), 0.0)
    >>> table.quantile(0.99), table.rows()[0]
    (5.0, ('any', 'nf', 1, 2.0, 3.0, 0.0, 0))
    """

    name: str
    job: str
    classes: tuple[str, ...]
    pools: tuple[str, ...]
    delays: NDArray[np.bool_] = field(repr=False)
    arrived: Counts
    ended: Counts
    dropped: Counts
    inside: int
    served: Counts = field(repr=False)
    waiting: Times = field(repr=False)
    working: Times = field(repr=False)
    drops: Counts = field(repr=False)
    latency: Times = field(repr=False)
    longest: Times = field(repr=False)
    counts: Mapping[str, int]
    samples: tuple[Times, ...] = field(repr=False)
    error: float = 0.0

    def quantile(self, q: float, of: str | None = None) -> Seconds:
        """Latency at a quantile, of one class or of all items; NaN without items."""
        found = self.samples[-1 if of is None else self.classes.index(of)]
        return float(np.quantile(found, q)) if len(found) else float("nan")

    def mean_latency(self, of: str | None = None) -> Seconds:
        """Mean latency, of one class or of all items; NaN without items. It is always exact."""
        chosen = slice(None) if of is None else [self.classes.index(of)]
        ended = self.ended[chosen].sum()
        return float(self.latency[chosen].sum() / ended) if ended else float("nan")

    def rows(self) -> list[tuple[str, str, int, Seconds, Seconds, Seconds, int]]:
        """Class, pool, items served, seconds waited, served and delayed, and drops."""
        found = []
        for i, of in enumerate(self.classes):
            for k, pool in enumerate((*self.pools, "outside")):
                found.append((of, pool, *self._cells(i, k)))
        return [row for row in found if any(row[2:])]

    def _cells(self, i: int, k: int) -> tuple[int, Seconds, Seconds, Seconds, int]:
        if k == len(self.pools):
            return 0, 0.0, 0.0, 0.0, int(self.drops[i, k])
        work, is_delay = float(self.working[i, k]), bool(self.delays[k])
        times = (0.0, work) if is_delay else (work, 0.0)
        return int(self.served[i, k]), float(self.waiting[i, k]), *times, int(self.drops[i, k])
