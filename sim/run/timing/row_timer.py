"""Timing of some rows of a prepared graph with new numbers, at a cost of microseconds.

Which backends are called with which rows does not depend on the numbers, so their tables are kept;
answers are read with Python scalars. An answer that is unusual, or invalid, goes through
:meth:`~.graph_timing.GraphTiming.time_rows` instead, which gives the same numbers or the error.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, repeat
from math import inf
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...engine_api.row_lowering import OpUsage
from ...errors import BackendError
from ...facts.backend import Backend, Holds, Spread, Timing, Usage, check_spread
from ...facts.coded import Coded
from ...facts.csr import Csr
from ...facts.graph import Graph
from ...facts.ops import Ops
from ...facts.system import System
from ...facts.way import Pins
from ...record.binding import backend_calls
from ...record.prepared import RowTiming, TimingStructure, row_timings
from .graph_timing import GraphTiming

C = TypeVar("C")
Hold = tuple[int, int, int]  # component, amount, row whose end releases it or -1
MOST_TABLES = 64  # size of the cache of tables; then it is cleared
MOST_KNOWN = 4_096  # size of the cache of spreads; then it is cleared


class UnusualTimingError(Exception):
    """A timing that the quick path does not read."""


class KeptCall(NamedTuple):
    """One call to a backend: its rows within a table, their components, and their table."""

    backend: Backend
    rows: Sequence[int]
    at: NDArray[np.int64] | None
    usage: Sequence[OpUsage]
    table: Ops

    def ask(self, flop: NDArray[np.float64], bytes: NDArray[np.float64]) -> Timing:
        """Timing of the rows with new numbers."""
        if self.at is not None:
            flop, bytes = flop[self.at], bytes[self.at]
        return self.backend.timing(self.table.with_work(flop, bytes))


class RowTimer:
    """Times rows of a placed graph, each time with other flop and bytes.

    Parameters
    ----------
    timing : timing of the run's graphs
    graph : placed graph
    component : (n,) component whose backend times each row
    members : (n,) GPUs of each send and collective
    pins : routes that the graph chose
    """

    def __init__(
        self,
        timing: GraphTiming,
        graph: Graph,
        component: NDArray[np.int32],
        members: Csr,
        pins: Pins | None = None,
    ):
        self._timing, self._graph, self._pins = timing, graph, pins
        self._component, self._members = component, members
        self._calls: dict[tuple[int, ...], tuple[System, list[KeptCall]]] = {}
        self._spreads: dict[int, tuple[Spread, tuple[bytes, ...]]] = {}

    def times(
        self, rows: Sequence[int], flop: Sequence[float], bytes: Sequence[float]
    ) -> list[RowTiming]:
        """Timings of rows with other flop and bytes.

        Raises
        ------
        BackendError, GraphError
            A backend cannot time a row, or the engine cannot run its timing.
        """
        answered: list[Timing] = []
        found: list[RowTiming | None] = [None] * len(rows)
        flops, moved = np.array(flop, np.float64), np.array(bytes, np.float64)
        try:
            for call in self._calls_of(tuple(rows)):
                answered.append(call.ask(flops, moved))
                for row, one in zip(call.rows, self._read(answered[-1], call), strict=True):
                    found[row] = one
        except UnusualTimingError:
            return self._time_by_table(rows, flops, moved, answered)
        return [one for one in found if one is not None]

    def _time_by_table(
        self,
        rows: Sequence[int],
        flop: NDArray[np.float64],
        bytes: NDArray[np.float64],
        answered: Sequence[Timing],
    ) -> list[RowTiming]:
        at = np.array(rows, np.int64)
        ops = self._graph.ops.take(at).replace(flop=flop, bytes=bytes)
        component, members = self._component[at], self._members.take(at)
        return row_timings(
            *self._timing.time_rows(self._graph, at, component, members, ops, self._pins, answered)
        )

    def _calls_of(self, rows: tuple[int, ...]) -> list[KeptCall]:
        """Calls for a set of rows, with the current routes."""
        system = self._timing.routes(self._pins)
        kept = self._calls.get(rows)
        if kept is None or kept[0] is not system:
            if len(self._calls) >= MOST_TABLES:
                self._calls.clear()
            kept = self._calls[rows] = system, self._find_calls(rows, system)
        return kept[1]

    def _find_calls(self, rows: tuple[int, ...], system: System) -> list[KeptCall]:
        """Calls for a set of rows.

        Raises
        ------
        UnusualTimingError
            Some rows take a recorded or overridden time, or are timed during the run.
        """
        at = np.array(rows, np.int64)
        component, whole = self._component[at], len(rows)
        if self._graph.times is not None or (component < 0).any():
            raise UnusualTimingError
        calls = []
        for who, own, table in backend_calls(
            self._graph.ops.take(at), component, self._members.take(at), system, self._timing.bound
        ):
            if who.online:
                raise UnusualTimingError
            usage = [((c, 1.0),) for c in component[own].tolist()]
            local = None if len(own) == whole else own
            calls.append(KeptCall(who, own.tolist(), local, usage, table))
        return calls

    def _read(self, said: Timing, call: KeptCall) -> list[RowTiming]:
        """Timing of each row of a backend's answer.

        Raises
        ------
        UnusualTimingError
            The answer is invalid, or must be lowered as a table.
        """
        n = len(call.rows)
        if not isinstance(said, Timing):
            raise UnusualTimingError
        if said.doubt is not None:
            _values_by_row(said.doubt, n, said.doubt.values, None)
        columns = (
            _floats(said.fixed, n),
            repeat(0.0, n) if said.work is None else _floats(said.work, n),
            repeat(inf, n) if said.limit is None else _floats(said.limit, n),
            self._usages(said, call),
            repeat((), n) if said.holds is None else _holds_by_row(said.holds, n),
            self._sources(said, call.backend.source, n),
            self._spread_keys(said, n),
        )
        return [self._row(*row) for row in zip(*columns, strict=True)]

    def _row(
        self,
        fixed: float,
        work: float,
        limit: float,
        usage: OpUsage,
        holds: tuple[Hold, ...],
        source: str,
        spread: tuple[bytes, ...],
    ) -> RowTiming:
        lowering = self._timing.row_lowering
        integers = lowering.integers(fixed, work, limit, usage)
        if integers is None or (holds and not lowering.may_hold(holds)):
            raise UnusualTimingError
        held = tuple([(c, until) for c, _, until in holds]) if holds else ()
        amounts = tuple([amount for _, amount, _ in holds]) if holds else ()
        structure = TimingStructure(usage, limit < inf, source, held, spread)
        return RowTiming(fixed, work, limit, amounts, structure, *integers)

    def _usages(self, said: Timing, call: KeptCall) -> Sequence[OpUsage]:
        """Usage of each row; by default, rows with work use their own component."""
        n = len(call.rows)
        if said.usage is None:
            return [()] * n if said.work is None else call.usage
        usage: Usage = said.usage
        if usage.weight.dtype != np.float64:
            raise UnusualTimingError
        return _rows_of_csr(usage.indptr, n, usage.component, usage.weight)

    def _sources(self, said: Timing, default: str, n: int) -> Sequence[str]:
        if said.source is None:
            return [default] * n
        return _values_by_row(said.source, n, said.source.values, default)

    def _spread_keys(self, said: Timing, n: int) -> Sequence[tuple[bytes, ...]]:
        if said.spread is None:
            return [()] * n
        keys = [self._spread_key(spread) for spread in said.spread.values]
        return _values_by_row(said.spread, n, keys, ())

    def _spread_key(self, spread: Spread) -> tuple[bytes, ...]:
        """Contents of a spread, after validation; cached per object."""
        known = self._spreads.get(id(spread))
        if known is None:
            try:
                check_spread(spread, "")
            except BackendError as error:
                raise UnusualTimingError from error
            if len(self._spreads) >= MOST_KNOWN:
                self._spreads.clear()
            known = spread, tuple(c.tobytes() for c in (spread.step, spread.op, spread.start))
            self._spreads[id(spread)] = known  # holding the object keeps its id
        return known[1]


def _floats(column: NDArray[np.float64], n: int) -> list[float]:
    if column.dtype != np.float64 or column.shape != (n,):
        raise UnusualTimingError
    found: list[float] = column.tolist()
    return found


def _values_by_row(column: Coded[Any], n: int, values: Sequence[C], default: C) -> list[C]:
    """Value of each row of a coded column; the default for code -1."""
    codes = column.codes.tolist()
    if len(codes) != n or min(codes, default=0) < -1 or max(codes, default=-1) >= len(values):
        raise UnusualTimingError
    return [default if code < 0 else values[code] for code in codes]


def _holds_by_row(holds: Holds, n: int) -> list[tuple[Hold, ...]]:
    if holds.amount.dtype.kind not in "iu":
        raise UnusualTimingError
    return _rows_of_csr(holds.indptr, n, holds.component, holds.amount, holds.until)


def _rows_of_csr(
    indptr: NDArray[np.int64], n: int, *columns: NDArray[Any]
) -> list[tuple[Any, ...]]:
    """Rows of a table in CSR form, each a tuple of tuples with one number per column."""
    ends = indptr.tolist()
    flat = list(zip(*(column.tolist() for column in columns), strict=False))
    if len(ends) != n + 1 or ends[0] or any(len(column) != ends[-1] for column in columns):
        raise UnusualTimingError
    if any(a > b for a, b in pairwise(ends)):
        raise UnusualTimingError
    return [tuple(flat[a:b]) for a, b in pairwise(ends)]
