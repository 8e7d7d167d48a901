"""Allocator of consecutive rows in a growing table."""

from __future__ import annotations


class RowAllocator:
    """Allocator of blocks of consecutive rows; freed blocks are reused for the same size.

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
        """Allocate ``count`` consecutive rows; returns the first."""
        free = self._free.get(count)
        if free:
            return free.pop()
        first = self.top
        self.top += count
        return first

    def free(self, first: int, count: int) -> None:
        """Free a block of rows that was allocated together; a count of 0 does nothing."""
        if count:
            self._free.setdefault(count, []).append(first)
