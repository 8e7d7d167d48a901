"""Table of NumPy columns; ``event_columns`` declares the columns of each table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .event_columns import TABLES, EventColumn

Ints = NDArray[np.int64]
"""Column of integers: ticks, or rows of another table."""


class ColumnTable:
    """Table of columns of equal length, accessed by name: ``table["ts"]``.

    Examples
    --------
    >>> table = ColumnTable.of("syncs", event=[4, 7], stream=7)
    >>> len(table), table["stream"].tolist(), table["awaited_stream"].tolist()
    (2, [7, 7], [-1, -1])
    """

    def __init__(self, kind: str, columns: Mapping[str, NDArray[Any]]):
        self.kind, self._columns = kind, dict(columns)

    @classmethod
    def of(cls, kind: str, /, **columns: ArrayLike) -> ColumnTable:
        """Create a table of the given kind, such as ``events``.

        Scalars are repeated. Columns that are not given hold the value for "not recorded".

        Raises
        ------
        TypeError
            This kind of table has no column of that name.
        """
        unknown = columns.keys() - TABLES[kind].keys()
        if unknown:
            raise TypeError(
                f"{kind} have no column {sorted(unknown)}; they have {list(TABLES[kind])}"
            )
        n = max((np.size(c) for c in columns.values() if np.ndim(c)), default=0)
        return cls(kind, {k: _filled_column(c, columns.get(k), n) for k, c in TABLES[kind].items()})

    @staticmethod
    def concatenate(tables: Sequence[ColumnTable]) -> ColumnTable:
        """Concatenate tables; the inputs are emptied to save memory."""
        names = list(tables[0]._columns)
        return ColumnTable(
            tables[0].kind, {k: np.concatenate([t._columns.pop(k) for t in tables]) for k in names}
        )

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._columns[name]

    def __len__(self) -> int:
        return len(next(iter(self._columns.values())))

    def __repr__(self) -> str:
        return f"<{self.kind}: {len(self)} rows>"

    def take(self, rows: NDArray[np.int64]) -> ColumnTable:
        """Table of the given rows, in that order."""
        return ColumnTable(self.kind, {k: c[rows] for k, c in self._columns.items()})

    def replace(self, **columns: NDArray[Any]) -> ColumnTable:
        """Copy of the table with some columns replaced."""
        return ColumnTable(self.kind, {**self._columns, **columns})

    @property
    def columns(self) -> dict[str, NDArray[Any]]:
        """All columns by name."""
        return dict(self._columns)


def _filled_column(column: EventColumn, values: ArrayLike | None, n: int) -> NDArray[Any]:
    array = np.asarray(column.absent if values is None else values, column.dtype)
    return np.ascontiguousarray(np.broadcast_to(array, (n,)))
