"""Column with few distinct values, stored as integer codes into a small table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

T = TypeVar("T")
MOST = 2**15 - 1  # distinct values of one column


@dataclass(frozen=True, eq=False)
class Coded(Generic[T]):
    """Dictionary-encoded column: for each op an integer code into a table of distinct values.

    It takes 2 or 4 bytes per row, however large the values are.

    Parameters
    ----------
    codes : (n,) int16 or int32, index of each row's value in ``values``; -1 for no value
    values : the distinct values

    Examples
    --------
    >>> column = Coded.of(["table", "roofline", "table", None])
    >>> column.codes.tolist(), column.values, column[2], column[3]
    ([0, 1, 0, -1], ('table', 'roofline'), 'table', None)
    """

    codes: NDArray[np.int16] | NDArray[np.int32]
    values: tuple[T, ...]

    @classmethod
    def of(cls, rows: Iterable[T | None]) -> Coded[T]:
        """Encode one value per row; equal values share a code, None becomes -1.

        Raises
        ------
        ValueError
            There are more distinct values than int16 codes.
        """
        table: dict[T, int] = {}
        codes = [-1 if v is None else table.setdefault(v, len(table)) for v in rows]
        if len(table) > MOST:
            raise ValueError(
                f"a coded column has {len(table):,} different values; give at most {MOST:,}"
            )
        return cls(np.array(codes, np.int16), tuple(table))

    @classmethod
    def constant(cls, value: T, n: int) -> Coded[T]:
        """Column of ``n`` rows that all have the same value."""
        return cls(np.zeros(n, np.int16), (value,))

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, row: int) -> T | None:
        code = int(self.codes[row])
        return None if code < 0 else self.values[code]

    def take(self, rows: ArrayLike) -> Coded[T]:
        """Selected rows, in the given order."""
        return Coded(self.codes[np.asarray(rows)], self.values)
