"""Counters of a run: integers that processes add to; their totals are metrics of the run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray


class Counters:
    """Counters of all jobs of a run, by job and name.

    Examples
    --------
    >>> counters = Counters()
    >>> counters.add(0, "drops", 2)
    >>> counters.table(0, ["drops", "hits"])[:] += 5, 1
    >>> list(counters.totals())
    [(0, 'drops', 7), (0, 'hits', 1)]
    """

    def __init__(self) -> None:
        self._tables: list[tuple[int, Sequence[str], NDArray[np.int64]]] = []
        self._single: dict[tuple[int, str], NDArray[np.int64]] = {}

    def add(self, job: int, name: str, by: int) -> None:
        """Add to a counter of a job."""
        if (job, name) not in self._single:
            self._single[job, name] = self.table(job, [name])
        self._single[job, name][0] += by

    def table(self, job: int, names: Sequence[str]) -> NDArray[np.int64]:
        """New array of zeros, one per name; what is added to it counts for these counters."""
        totals = np.zeros(len(names), np.int64)
        self._tables.append((job, names, totals))
        return totals

    def totals(self) -> Iterator[tuple[int, str, int]]:
        """Job, name and total of each counter, in the order in which they were first named."""
        found: dict[tuple[int, str], int] = {}
        for job, names, values in self._tables:
            for name, value in zip(names, values.tolist(), strict=True):
                found[job, name] = found.get((job, name), 0) + value
        for (job, name), total in found.items():
            yield job, name, total
