"""Builder of the ``Timing`` of a fabric, filled group by group."""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from ...sim.backend import Usage
from ...sim.system import CORE
from .collective_plan import CollectivePlan
from .protocols import Floats

Cores = tuple[int, ...]  # of the members of a group, where a library's threads run on them


class TimingBuilder:
    """Builder of a ``Timing``, filled group by group."""

    def __init__(self, n: int):
        self.fixed, self.work = np.zeros(n), np.zeros(n)
        self._limit = np.full(n, np.inf)
        self.picked: Counter[str] = Counter()
        self._counts = np.zeros(n, np.int64)
        self._uses: list[tuple[NDArray[np.int64], NDArray[np.int32], Floats]] = []

    def add(
        self, rows: NDArray[np.int64], way: CollectivePlan, fixed: Floats, work: Floats
    ) -> None:
        """Set one plan for some rows; ``work`` is at the shared rate of all it uses."""
        self.fixed[rows], self.work[rows] = fixed, work
        if work.any():
            self._limit[rows] = way.limit
            self._add_use(rows, way.component, way.weight)

    def keep(
        self,
        rows: NDArray[np.int64],
        way: CollectivePlan,
        alone: Floats,
        spent: Floats,
        cores: Cores,
    ) -> None:
        """Set one plan that keeps its links for its whole time, and the cores for a part of it.

        Parameters
        ----------
        alone, spent : s, of each row: what it takes, and what it takes of each core
        """
        self.work[rows], self._limit[rows] = alone * CORE, CORE
        links = np.broadcast_to(way.weight / way.beta / CORE, (len(alone), len(way.weight)))
        share = np.repeat(spent[:, None] / alone[:, None], len(cores), axis=1)
        component = np.concatenate([way.component, np.array(cores, np.int32)])
        self._add_use(rows, component, np.hstack([links, share]))

    def keep_cores(
        self, rows: NDArray[np.int64], alone: Floats, spent: Floats, cores: Cores
    ) -> None:
        """Set what takes its time whatever else is on the links, and the cores for a part of it."""
        self.work[rows], self._limit[rows] = alone * CORE, CORE
        share = np.repeat(spent[:, None] / alone[:, None], len(cores), axis=1)
        self._add_use(rows, np.array(cores, np.int32), share)

    def _add_use(
        self, rows: NDArray[np.int64], component: NDArray[np.int32], weight: Floats
    ) -> None:
        self._counts[rows] = len(component)
        self._uses.append((rows, component, weight))

    def limit(self) -> Floats | None:
        """Largest work per second; None where nothing bounds a sender."""
        return self._limit if (self._limit < np.inf).any() else None

    def usage(self) -> Usage:
        """Components and weights of every row."""
        indptr = np.zeros(len(self.fixed) + 1, np.int64)
        np.cumsum(self._counts, out=indptr[1:])
        component, weight = np.zeros(indptr[-1], np.int32), np.zeros(indptr[-1])
        for rows, used, each in self._uses:
            at = indptr[rows, None] + np.arange(len(used))
            component[at], weight[at] = used, each
        return Usage(indptr, component, weight)
