"""Rows of a table, taken and given back in blocks."""

from __future__ import annotations


class Blocks:
    """Which rows of a growing table are free, by the size of the block that was given back.

    Examples
    --------
    >>> rows = Blocks()
    >>> rows.take(3), rows.take(2)
    (0, 3)
    >>> rows.give(0, 3)
    >>> rows.take(3), rows.top
    (0, 5)
    """

    def __init__(self) -> None:
        self.top = 0  # rows before it were taken at some time
        self._free: dict[int, list[int]] = {}

    def take(self, count: int) -> int:
        """The first of so many rows."""
        free = self._free.get(count)
        if free:
            return free.pop()
        first = self.top
        self.top += count
        return first

    def give(self, first: int, count: int) -> None:
        """Rows that were taken together, or nothing."""
        if count:
            self._free.setdefault(count, []).append(first)
