"""Rank numbers of a job: one per GPU and rank on it, in order of first appearance.

A graph counts its own ranks from 0. If a job submits several graphs, one number may stand for
different GPUs. Within the job, every GPU (and every further rank on it) has one number.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Place = tuple[int, int]  # component, and index of the rank on it


class Ranks:
    """Numbering of a job's ranks by GPU, in order of first appearance.

    Examples
    --------
    >>> ranks = Ranks()
    >>> ranks.number(np.array([4, 5])), ranks.number(np.array([5, 6])).tolist()
    (None, [1, 2])
    """

    def __init__(self) -> None:
        self.count = 0
        self._of: dict[Place, int] = {}
        self._known: dict[bytes, NDArray[np.int32] | None] = {}

    def number(
        self, gpus: NDArray[np.integer], first: int | None = None
    ) -> NDArray[np.int32] | None:
        """Job's number of each rank of a graph; None if they equal the graph's numbers.

        Parameters
        ----------
        gpus : (ranks,) GPU component of each rank
        first : job's number of the graph's rank 0, the others following; None to number by GPU
        """
        if first is not None:
            found = np.arange(first, first + len(gpus), dtype=np.int32)
            for place, number in zip(_places_of_gpus(gpus), found.tolist(), strict=True):
                self._of.setdefault(place, number)
            self.count = max(self.count, first + len(gpus))
            return _none_if_unchanged(found)
        key = gpus.tobytes()
        if key not in self._known:
            self._known[key] = _none_if_unchanged(
                np.array([self._rank_number(place) for place in _places_of_gpus(gpus)], np.int32)
            )
        return self._known[key]

    def _rank_number(self, place: Place) -> int:
        if place not in self._of:
            self._of[place] = self.count
            self.count += 1
        return self._of[place]


def _places_of_gpus(gpus: NDArray[np.integer]) -> list[Place]:
    """For each rank, its GPU and the number of earlier ranks on that GPU."""
    there: dict[int, int] = {}
    found = []
    for gpu in gpus.tolist():
        found.append((gpu, there.get(gpu, 0)))
        there[gpu] = found[-1][1] + 1
    return found


def _none_if_unchanged(found: NDArray[np.int32]) -> NDArray[np.int32] | None:
    return None if np.array_equal(found, np.arange(len(found))) else found
