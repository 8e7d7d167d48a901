"""Allocation of consecutive rows of a growing table."""

from __future__ import annotations


class RowAllocator:
    """Free list of a growing table: blocks of consecutive rows, reused by size.

    Examples
    --------
    >>> rows = RowAllocator()
    >>> rows.take(3), rows.take(2)
    (0, 3)
    >>> rows.free(0, 3)
    >>> rows.take(3), rows.top
    (0, 5)
    """

    def __init__(self) -> None:
        self.top = 0  # rows below it were allocated at some time
        self._free: dict[int, list[int]] = {}

    def take(self, count: int) -> int:
        """Allocate ``count`` consecutive rows; returns the number of the first."""
        free = self._free.get(count)
        if free:
            return free.pop()
        first = self.top
        self.top += count
        return first

    def free(self, first: int, count: int) -> None:
        """Free rows that were taken together; none where the count is 0."""
        if count:
            self._free.setdefault(count, []).append(first)
