"""CSR table, a list of lists as two arrays: row ``i`` is ``values[indptr[i]:indptr[i + 1]]``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True)
class Csr:
    """Rows of integers of different lengths, in CSR form.

    Parameters
    ----------
    indptr : (n + 1,) int64, position of each row's first value, and the number of values
    values : (m,) int32, values of all rows

    Examples
    --------
    >>> table = Csr.of([[1, 2], [], [0]])
    >>> len(table), table[0].tolist(), table.counts.tolist()
    (3, [1, 2], [2, 0, 1])
    """

    indptr: NDArray[np.int64]
    values: NDArray[np.int32]

    @classmethod
    def of(cls, rows: Iterable[Sequence[int]]) -> Csr:
        """Table from Python lists, one per row."""
        rows = list(rows)
        indptr = np.zeros(len(rows) + 1, np.int64)
        np.cumsum([len(r) for r in rows], out=indptr[1:])
        flat = [v for r in rows for v in r]
        return cls(indptr, np.array(flat, np.int32))

    @classmethod
    def empty(cls, n: int) -> Csr:
        """Table of ``n`` empty rows."""
        return cls(np.zeros(n + 1, np.int64), np.empty(0, np.int32))

    @classmethod
    def from_pairs(cls, row: ArrayLike, value: ArrayLike, n: int) -> Csr:
        """Table from (row, value) pairs; order and duplicates within a row are kept.

        >>> Csr.from_pairs([2, 0, 2], [5, 6, 7], 3)[2].tolist()
        [5, 7]
        """
        row = np.asarray(row, np.int64)
        order = np.argsort(row, kind="stable")
        indptr = np.zeros(n + 1, np.int64)
        np.cumsum(np.bincount(row, minlength=n), out=indptr[1:])
        return cls(indptr, np.asarray(value, np.int32)[order])

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def __getitem__(self, i: int) -> NDArray[np.int32]:
        return self.values[self.indptr[i] : self.indptr[i + 1]]

    @property
    def counts(self) -> NDArray[np.int64]:
        """Length of each row, shape (n,)."""
        return np.diff(self.indptr)

    @property
    def owner(self) -> NDArray[np.int64]:
        """Row number of each value, shape (m,)."""
        return np.repeat(np.arange(len(self)), self.counts)

    def take(self, rows: ArrayLike) -> Csr:
        """Selected rows, in the given order.

        >>> Csr.of([[1], [2, 3], []]).take([1, 0]).values.tolist()
        [2, 3, 1]
        """
        rows = np.asarray(rows, np.int64)
        counts = self.counts[rows]
        indptr = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(counts, out=indptr[1:])
        at = np.arange(indptr[-1]) - np.repeat(indptr[:-1] - self.indptr[rows], counts)
        return Csr(indptr, self.values[at])
