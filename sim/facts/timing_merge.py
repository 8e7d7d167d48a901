"""Merge of op timings that several backends returned for different rows of one table."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..errors import BackendError
from .backend import Holds, Spread, Timing, Usage
from .coded import Coded
from .doubt import Doubt

Rows = NDArray[np.int64]


class Merge:
    """Table of op timings that is filled in groups of rows, one backend at a time.

    Parameters
    ----------
    n : int
        Number of rows of the table.

    Examples
    --------
    >>> merge = Merge(3)
    >>> merge.add(np.array([0, 2]), Timing.of([1.0, 3.0]), None, "a table")
    >>> merge.add(np.array([1]), Timing.of([2.0]), None, "a model")
    >>> merge.timing().fixed.tolist(), merge.timing().source[1]
    ([1.0, 2.0, 3.0], 'a model')
    """

    def __init__(self, n: int):
        self.fixed = np.zeros(n)
        self.work: NDArray[np.float64] | None = None  # None: no op has work so far
        self.limit: NDArray[np.float64] | None = None
        self.source = np.zeros(n, np.int32)
        self.sources: dict[str, int] = {}
        self.spreads: list[tuple[Rows, Spread]] = []
        self._doubt: NDArray[np.int16] | None = None
        self._doubts: dict[Doubt, int] = {}
        self._usage: list[tuple[Rows, NDArray[np.int32], NDArray[np.float64]]] = []
        self._holds: list[tuple[Rows, Holds]] = []

    def add(
        self, rows: Rows, timing: Timing, component: NDArray[np.int32] | None, source: str
    ) -> None:
        """Add the timings of some rows.

        Parameters
        ----------
        component : (rows,) component whose backend timed each row; None if the graph is not placed
        source : source of the rows for which the timing names none
        """
        if not len(rows):
            return
        self.fixed[rows] = timing.fixed
        self._add_coded(rows, timing, source)
        if timing.limit is not None:
            if self.limit is None:
                self.limit = np.full(len(self.fixed), np.inf)
            self.limit[rows] = timing.limit
        if timing.work is not None:
            if self.work is None:
                self.work = np.zeros(len(self.fixed))
            self.work[rows] = timing.work
        usage = _explicit_usage(timing, component)
        if usage is not None:
            row = np.repeat(rows, np.diff(usage.indptr))
            self._usage.append((row, usage.component, usage.weight))
        if timing.holds is not None:
            self._holds.append((rows, timing.holds))

    def _add_coded(self, rows: Rows, timing: Timing, source: str) -> None:
        """Add the dictionary-encoded columns of a timing: sources, spreads, error distributions."""
        if timing.source is None:
            self.source[rows] = self._source_number(source)
        else:
            numbers = [self._source_number(s) for s in timing.source.values]
            codes = timing.source.codes
            if np.any(codes < 0):
                numbers.append(self._source_number(source))
            self.source[rows] = np.array(numbers, np.int32)[codes]
        if timing.spread is not None:
            for code, spread in enumerate(timing.spread.values):
                self.spreads.append((rows[timing.spread.codes == code], spread))
        if timing.doubt is not None:
            if self._doubt is None:
                self._doubt = np.full(len(self.fixed), -1, np.int16)
            known = [self._doubts.setdefault(d, len(self._doubts)) for d in timing.doubt.values]
            self._doubt[rows] = np.array([*known, -1], np.int16)[timing.doubt.codes]

    def _source_number(self, source: str) -> int:
        return self.sources.setdefault(source, len(self.sources))

    def timing(self) -> Timing:
        """Merged timings of all rows, with the usage of every row explicit."""
        n = len(self.fixed)
        usage = None
        if self._usage:
            row, component, weight = (np.concatenate([u[k] for u in self._usage]) for k in range(3))
            order = np.argsort(row, kind="stable")
            indptr = np.zeros(n + 1, np.int64)
            np.cumsum(np.bincount(row, minlength=n), out=indptr[1:])
            usage = Usage(indptr, component[order].astype(np.int32), weight[order])
        return Timing(
            self.fixed, self.work, usage, self.limit, self._spread(),
            Coded(self.source, tuple(self.sources)), self._merged_holds(),
            None if self._doubt is None else Coded(self._doubt, tuple(self._doubts)),
        )  # fmt: skip

    def _spread(self) -> Coded[Spread] | None:
        if not self.spreads:
            return None
        codes = np.full(len(self.fixed), -1, np.int16)
        for code, (rows, _) in enumerate(self.spreads):
            codes[rows] = code
        return Coded(codes, tuple(s for _, s in self.spreads))

    def _merged_holds(self) -> Holds | None:
        """Holds of all groups, in the order of the merged table's rows."""
        if not self._holds:
            return None
        row = np.concatenate([np.repeat(rows, np.diff(h.indptr)) for rows, h in self._holds])
        until = [np.where(h.until < 0, -1, rows[h.until]) for rows, h in self._holds]
        order = np.argsort(row, kind="stable")
        indptr = np.zeros(len(self.fixed) + 1, np.int64)
        np.cumsum(np.bincount(row, minlength=len(self.fixed)), out=indptr[1:])
        return Holds(
            indptr,
            np.concatenate([h.component for _, h in self._holds])[order],
            np.concatenate([h.amount for _, h in self._holds])[order],
            np.concatenate(until)[order].astype(np.int32),
        )


def _explicit_usage(timing: Timing, component: NDArray[np.int32] | None) -> Usage | None:
    """Explicit usage of a timing; raises an error for work of ops that are not placed."""
    if component is not None:
        return timing.with_explicit_usage(component).usage
    if timing.work is not None and timing.usage is None:
        raise BackendError(
            "ops: they have work on components, but no placement; call place() on their graph first"
        )
    return timing.usage
