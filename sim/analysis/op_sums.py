"""Aggregates of a run, summed over its op rows."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..engine_api.interface import NEVER
from ..facts.ops import Kind
from ..record.aggregates import (
    RunAggregates,
    add_dropped_ops,
    add_ticks,
    first_rows_of_equal_runs,
)
from ..record.run_record import RunRecord
from ..record.schedule import SubmittedRun
from ..units import seconds
from .holdings import amounts_held_by_ops, op_id_of_each_claim

CHUNK = 1 << 16  # places that are summed at once; they fit into a cache


Rows = slice | NDArray[np.int64]


def _place_slices(run: SubmittedRun) -> Iterator[tuple[slice, Rows, Rows]]:
    """Slices of the participants of a graph's ops, small enough for the CPU cache.

    Each comes with the row and the id of the op of each participant.
    """
    block, first = run.graph.explicit, run.first
    n, of = len(block), block.places.op
    for a in range(0, n, CHUNK):
        own = slice(a, min(a + CHUNK, n))  # a place of its own has each op: rows without a copy
        yield own, own, slice(first + own.start, first + own.stop)
    for a in range(0, len(of), CHUNK):
        op = of[a : a + CHUNK].astype(np.int64)
        yield slice(n + a, n + a + len(op)), op, first + op


def _select_columns(there: NDArray[np.bool_], *columns: NDArray[Any]) -> tuple[NDArray[Any], ...]:
    """Columns restricted to selected rows; unchanged, without a copy, if all are selected."""
    return columns if there.all() else tuple(c[there] for c in columns)


def stored_or_summed_aggregates(result: RunRecord) -> RunAggregates:
    """Aggregates of a run: the stored ones, else sums over its op rows; without time breakdown."""
    return _OpRowSums(result).aggregates() if result.summary is None else result.summary


class _OpRowSums:
    """Sums over the op rows of a run, from which its aggregates are built."""

    def __init__(self, result: RunRecord):
        self.result, self.columns = result, result.columns
        self.ended = self.columns.end != NEVER
        self.given = None if result.written is None else result.written.given

    def _ended_periods(self) -> NDArray[np.int64]:
        """(k,) periods in which at least one op ended, for a run of one job."""
        if len(self.result.jobs) > 1:
            return np.empty(0, np.int64)
        period = self.result.ops.period[: self.given][self.ended[: self.given]]
        found = np.unique(period[first_rows_of_equal_runs(period)]).astype(
            np.int64
        )  # mostly listed side by side
        return found[found >= 0]

    def aggregates(self) -> RunAggregates:
        result = self.result
        steps = self._ended_periods()
        in_step = result.ops.period >= 0
        if self.given is not None:
            in_step[self.given :] = False
        start, end = self._spans(steps)
        own = slice(self.given)
        size = len(result.parts), len(Kind)
        busy, moved = np.zeros(size, np.int64), np.zeros(size)
        for run in result.runs:
            busy = self._slots(run, busy)
            self._rates(run, moved)
        self._holds(moved)
        return RunAggregates(
            len(result.ops), result.first_release, steps, start, end, busy, moved, self._sources(),
            last_outside_periods=int(self.columns.end[~in_step].max(initial=NEVER)),
            last_outside_periods_of_graph=int(
                self.columns.end[own][~in_step[own]].max(initial=NEVER)
            ),
            dropped=self._dropped(),
        )  # fmt: skip

    def _spans(self, steps: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        ranks = self.result.ranks
        late = np.iinfo(np.int64).max
        start = np.full((max(len(steps), 1), ranks), late)
        end = np.full(start.shape, NEVER, np.int64)
        given = self.given is not None and len(steps)
        for run in self.result.runs[: 1 if given else None]:
            period_of, ranks_of = run.graph.explicit.ops.period, self.result.rank(run)
            for place, op, ids in _place_slices(run):
                there, period = self.ended[ids], period_of[op]
                if len(steps):
                    there = there & (period >= 0)
                period, rank, began, ended = _select_columns(
                    there, period, ranks_of[place], self.columns.start[ids], self.columns.end[ids]
                )
                if len(period):
                    first = first_rows_of_equal_runs(period, rank)
                    step = np.searchsorted(steps, period[first]) if len(steps) else 0 * first
                    at: Any = step, rank[first]
                    np.minimum.at(start, at, np.minimum.reduceat(began, first))
                    np.maximum.at(end, at, np.maximum.reduceat(ended, first))
        start[start == late] = NEVER
        return start, end

    def _ticks_taken(self, ids: Rows) -> NDArray[np.int64]:
        """Duration of ops in ticks; 0 for ops that did not end."""
        took = self.columns.end[ids] - self.columns.start[ids]
        took[~self.ended[ids]] = 0
        return took

    def _slots(self, run: SubmittedRun, busy: NDArray[Any]) -> NDArray[Any]:
        slots, kind = self.result.slots(run), run.graph.ops.kind
        for place, op, ids in _place_slices(run):
            slot = slots[place]
            slot, of, took = _select_columns(slot >= 0, slot, kind[op], self._ticks_taken(ids))
            busy = add_ticks(busy, (slot, of), took)
        return busy

    def _rates(self, run: SubmittedRun, moved: NDArray[np.float64]) -> None:
        timing = run.answers.timing
        if timing.usage is None or timing.work is None:
            return
        row = np.repeat(np.arange(len(timing)), np.diff(timing.usage.indptr))
        done = np.where(self.ended[run.first : run.first + len(timing)], timing.work, 0.0)
        work = done[row] * timing.usage.weight
        at: Any = timing.usage.component, run.graph.ops.kind[row]
        np.add.at(moved, at, work / self._rate[timing.usage.component])

    @cached_property
    def _rate(self) -> NDArray[np.float64]:
        """Rate of each component, shape (components,); infinite for none."""
        return self.result.system.components.column(lambda c: c.rate or np.inf, np.float64)

    def _holds(self, moved: NDArray[np.float64]) -> None:
        held, kind = (
            amounts_held_by_ops(self.result),
            self.result.ops.kind[op_id_of_each_claim(self.result)],
        )
        took = held.share * seconds(held.end - held.start, self.result.tick)
        np.add.at(moved, (held.component, kind), took)

    def _dropped(self) -> NDArray[np.int64] | None:
        """(components,) dropped ops; None without bounded queues."""
        if self.result.parts.queues is None:
            return None
        found = np.zeros(len(self.result.parts), np.int64)
        for run in self.result.runs:
            state = self.columns.state[run.first : run.first + len(run)]
            add_dropped_ops(found, self.result.slots(run), state[None])
        return found

    def _sources(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for run in self.result.runs:
            total: NDArray[Any] = np.zeros(len(run.answers.sources), np.int64)
            for a in range(0, len(run.graph), CHUNK):
                source = run.answers.source[a : a + CHUNK]
                took = self._ticks_taken(slice(run.first + a, run.first + a + len(source)))
                total = add_ticks(total, (source,), took)
            for text, t in zip(run.answers.sources, total.tolist(), strict=True):
                found[text] = found.get(text, 0) + t
        return found
