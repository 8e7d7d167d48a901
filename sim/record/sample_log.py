"""Log of the emitted values of a run in order, in at most 16 bytes per value.

Chunks of values are packed: times as offsets from the first one, in as few bytes as their span
needs, and the stream (metric of a job) of each value in one byte where few streams exist.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..packed_ticks import PackedTicks

CHUNK = 4096  # values


class SampleRows(NamedTuple):
    """Values of a run: stream, tick and value of each, shape (n,)."""

    stream: NDArray[np.integer]
    tick: NDArray[np.int64]
    value: NDArray[np.float64]

    def chosen(self, rows: NDArray[np.bool_]) -> SampleRows:
        """The rows where a mask is True."""
        return SampleRows(self.stream[rows], self.tick[rows], self.value[rows])

    @classmethod
    def joined(cls, parts: Sequence[SampleRows]) -> SampleRows:
        """Rows of several parts in order."""
        if not parts:
            return cls(np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0))
        return parts[0] if len(parts) == 1 else cls(*map(np.concatenate, zip(*parts, strict=True)))


@dataclass(frozen=True)
class PackedSamples:
    """A chunk of values."""

    stream: int | NDArray[np.integer]
    at: PackedTicks
    value: NDArray[np.float64]

    @classmethod
    def of(cls, rows: SampleRows) -> PackedSamples:
        """Pack at least one row.

        >>> tick = np.array([10**15, 10**15 + 2**40])
        >>> one = PackedSamples.of(SampleRows(np.array([3, 3]), tick, np.array([0.5, 1.0])))
        >>> one.stream, one.at.low.dtype.name, np.array_equal(one.rows.tick, tick)
        (3, 'uint32', True)
        """
        most = int(rows.stream.max())
        same = most == int(rows.stream.min())
        stream = most if same else rows.stream.astype(np.min_scalar_type(most))
        return cls(stream, PackedTicks.of(rows.tick), np.array(rows.value))

    @property
    def rows(self) -> SampleRows:
        """The rows, unpacked."""
        stream = np.broadcast_to(np.asarray(self.stream, np.int64), len(self.value))
        return SampleRows(stream, self.at.ticks, self.value)

    @property
    def nbytes(self) -> int:
        """Bytes of its arrays."""
        stream = self.stream.nbytes if isinstance(self.stream, np.ndarray) else 0
        return stream + self.at.nbytes + self.value.nbytes

    def __len__(self) -> int:
        return len(self.value)


class SampleLog:
    """Values that were kept, in order, as packed chunks.

    Examples
    --------
    >>> log = SampleLog()
    >>> log.append(SampleRows(np.array([0, 1]), np.array([5, 7]), np.array([0.5, 2.5])))
    >>> len(log), [rows.value.tolist() for rows in log]
    (2, [[0.5, 2.5]])
    """

    def __init__(self) -> None:
        self._chunks: list[PackedSamples] = []
        self._loose: list[SampleRows] = []  # fewer rows than a chunk

    def __len__(self) -> int:
        return sum(map(len, self._chunks)) + sum(len(rows.value) for rows in self._loose)

    def __iter__(self) -> Iterator[SampleRows]:
        for chunk in self._chunks:
            yield chunk.rows
        yield from self._loose

    @property
    def nbytes(self) -> int:
        """Bytes of the packed chunks."""
        return sum(chunk.nbytes for chunk in self._chunks)

    def append(self, rows: SampleRows) -> None:
        """Append rows; they are packed once there are enough of them."""
        if not len(rows.value):
            return
        self._loose.append(rows)
        if sum(len(loose.value) for loose in self._loose) >= CHUNK:
            self._chunks.append(PackedSamples.of(SampleRows.joined(self._loose)))
            self._loose = []

    def take(self, stream: int) -> Iterator[SampleRows]:
        """Remove the rows of a stream, and yield them in order."""
        parts = deque[PackedSamples | SampleRows]([*self._chunks, *self._loose])
        self._chunks, self._loose = [], []
        while parts:
            part = parts.popleft()
            rows = part if isinstance(part, SampleRows) else part.rows
            own = rows.stream == stream
            self.append(rows.chosen(~own))
            yield rows.chosen(own)

    def copy(self) -> SampleLog:
        """Copy that later values do not change; packed chunks are shared."""
        found = SampleLog()
        found._chunks, found._loose = list(self._chunks), list(self._loose)
        return found
