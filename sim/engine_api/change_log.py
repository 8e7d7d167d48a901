"""Log of changes of the amounts that processes hold, in a few bytes per change."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..packed_ticks import PackedTicks

CHUNK = 4096  # changes
NARROW = np.int8, np.int16, np.int32
Changes = NDArray[np.int64]  # (k, 3) tick, component, change


class PackedChanges(NamedTuple):
    """A chunk of changes; components and changes have as few bytes as their numbers need."""

    at: PackedTicks
    component: NDArray[np.integer]
    change: NDArray[np.integer]

    @classmethod
    def of(cls, rows: Changes) -> PackedChanges:
        """Pack at least one row."""
        return cls(PackedTicks.of(rows[:, 0]), _narrow(rows[:, 1]), _narrow(rows[:, 2]))

    @property
    def rows(self) -> Changes:
        """The rows, unpacked."""
        columns = self.at.ticks, self.component, self.change
        return np.stack([column.astype(np.int64) for column in columns], axis=1)

    @property
    def nbytes(self) -> int:
        """Bytes of its arrays."""
        return self.at.nbytes + self.component.nbytes + self.change.nbytes


class ChangeLog:
    """Changes of held amounts in order; changes of one component at one tick in a row are one.

    Examples
    --------
    >>> log = ChangeLog()
    >>> log.add(5, 2, 4)
    >>> log.add(5, 2, -1)
    >>> log.add(7, 2, 1)
    >>> log.rows.tolist(), log.nbytes
    ([[5, 2, 3], [7, 2, 1]], 48)
    """

    def __init__(self) -> None:
        self._chunks: list[PackedChanges] = []
        self._last = array("q")  # fewer than a chunk, as the last one may still change

    def add(self, tick: int, component: int, change: int) -> None:
        """Append a change, or add it to the last one."""
        last = self._last
        if len(last) and last[-3] == tick and last[-2] == component:
            last[-1] += change
            return
        if len(last) == 3 * CHUNK:
            self._pack()
        self._last.extend((tick, component, change))

    def extend(self, rows: Changes) -> None:
        """Append many changes, in which those that could be one are one already."""
        if not len(rows):
            return
        self.add(*rows[0].tolist())
        done = 1
        while done < len(rows):
            if len(self._last) == 3 * CHUNK:
                self._pack()
            part = rows[done : done + CHUNK - len(self._last) // 3]
            self._last.frombytes(np.ascontiguousarray(part, np.int64).tobytes())
            done += len(part)

    def _pack(self) -> None:
        self._chunks.append(PackedChanges.of(self._loose()))
        self._last = array("q")

    def _loose(self) -> Changes:
        return np.array(self._last, np.int64).reshape(-1, 3)

    def __iter__(self) -> Iterator[Changes]:
        """Rows of one part after the other, in order."""
        for chunk in self._chunks:
            yield chunk.rows
        yield self._loose()

    @property
    def rows(self) -> Changes:
        """(k, 3) tick, component and change of all of them."""
        return np.concatenate(list(self))

    @property
    def nbytes(self) -> int:
        """Bytes of what is kept."""
        return sum(chunk.nbytes for chunk in self._chunks) + len(self._last) * 8

    def copy(self) -> ChangeLog:
        """Copy that later changes do not alter; packed chunks are shared."""
        found = ChangeLog()
        found._chunks, found._last = list(self._chunks), self._last[:]
        return found


def _narrow(values: NDArray[np.int64]) -> NDArray[np.integer]:
    """Integers in as few bytes as the smallest and largest need."""
    least, most = int(values.min()), int(values.max())
    for kind in NARROW:
        if np.iinfo(kind).min <= least and most <= np.iinfo(kind).max:
            return values.astype(kind)
    return values.copy()
