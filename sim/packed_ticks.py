"""Ticks of events in the order of a run, as offsets in as few bytes as their span needs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class PackedTicks(NamedTuple):
    """Ticks: ``first`` plus an offset of 4, 6 or 8 bytes each.

    Examples
    --------
    >>> found = PackedTicks.of(np.array([10**15, 10**15 + 2**40]))
    >>> found.low.dtype.name, found.nbytes, (found.ticks - 10**15).tolist()
    ('uint32', 12, [0, 1099511627776])
    """

    first: int
    low: NDArray[np.integer]
    high: NDArray[np.uint16] | None

    @classmethod
    def of(cls, ticks: NDArray[np.int64]) -> PackedTicks:
        """Pack at least one tick."""
        first = int(ticks.min())
        offset = ticks - first
        span = int(offset.max())
        low = offset.astype(np.uint32) if span < 1 << 48 else offset
        high = (offset >> 32).astype(np.uint16) if 1 << 32 <= span < 1 << 48 else None
        return cls(first, low, high)

    @property
    def ticks(self) -> NDArray[np.int64]:
        """The ticks, unpacked."""
        offset = self.low.astype(np.int64)
        if self.high is not None:
            offset += self.high.astype(np.int64) << 32
        return offset + self.first

    @property
    def nbytes(self) -> int:
        """Bytes of its arrays."""
        return self.low.nbytes + (0 if self.high is None else self.high.nbytes)
