"""Aggregates of a run, summed over its ops where one row per op was kept."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..aggregates import RunAggregates, add_ticks, heads
from ..engine_api import NEVER
from ..flat_graph import FlatGraph
from ..ops import Kind
from ..run_record import RunRecord
from ..schedule import SubmittedRun
from ..units import seconds
from .holdings import by_ops, holders

CHUNK = 1 << 16  # places that are summed at once; they fit into a cache


def _chunks(block: FlatGraph) -> Iterator[tuple[slice, NDArray[np.int64]]]:
    """Slices of the places of a block, small enough for a cache, with the op of each place."""
    n, of = len(block), block.places.op
    for a in range(0, n, CHUNK):
        yield slice(a, min(a + CHUNK, n)), np.arange(a, min(a + CHUNK, n))
    for a in range(0, len(of), CHUNK):
        op = of[a : a + CHUNK].astype(np.int64)
        yield slice(n + a, n + a + len(op)), op


def aggregates_of(result: RunRecord) -> RunAggregates:
    """Aggregates of a run: the stored ones, else sums over its op rows, without a breakdown."""
    return _Sums(result).kept() if result.summary is None else result.summary


class _Sums:
    """Sums over the op rows of a run, which make its aggregates."""

    def __init__(self, result: RunRecord):
        self.result, self.columns = result, result.columns
        self.ended = self.columns.end != NEVER
        self.given = None if result.written is None else result.written.given

    def _steps(self) -> NDArray[np.int64]:
        """(k,) periods with an op that ended, of a run of one job."""
        if len(self.result.jobs) > 1:
            return np.empty(0, np.int64)
        own = self.ended[: self.given]
        found = np.unique(self.result.ops.period[: self.given][own]).astype(np.int64)
        return found[found >= 0]

    def kept(self) -> RunAggregates:
        result = self.result
        steps = self._steps()
        in_step = result.ops.period >= 0
        if self.given is not None:
            in_step[self.given :] = False
        start, end = self._spans(steps)
        size = len(result.parts), len(Kind)
        busy, moved = np.zeros(size, np.int64), np.zeros(size)
        for run in result.runs:
            busy = self._slots(run, busy)
            self._rates(run, moved)
        self._holds(moved)
        return RunAggregates(
            len(result.ops), result.first_release, steps, start, end, busy, moved, self._sources(),
            beside=int(self.columns.end[~in_step].max(initial=NEVER)),
        )  # fmt: skip

    def _spans(self, steps: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        ranks = self.result.ranks
        late = np.iinfo(np.int64).max
        start = np.full((max(len(steps), 1), ranks), late)
        end = np.full(start.shape, NEVER, np.int64)
        given = self.given is not None and len(steps)
        for run in self.result.runs[: 1 if given else None]:
            block, ranks_of = run.graph.explicit, self.result.rank(run)
            for place, op in _chunks(block):
                there = self.ended[run.first + op]
                if len(steps):
                    there &= block.ops.period[op] >= 0
                period, rank = block.ops.period[op[there]], ranks_of[place][there]
                step = np.searchsorted(steps, period) if len(steps) else np.zeros_like(period)
                if len(step):
                    first = heads(step, rank)
                    at, ids = (step[first], rank[first]), run.first + op[there]
                    np.minimum.at(start, at, np.minimum.reduceat(self.columns.start[ids], first))
                    np.maximum.at(end, at, np.maximum.reduceat(self.columns.end[ids], first))
        start[start == late] = NEVER
        return start, end

    def _took(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Ticks from start to end of ops; 0 of those that did not end."""
        took = self.columns.end[ids] - self.columns.start[ids]
        took[~self.ended[ids]] = 0
        return took

    def _slots(self, run: SubmittedRun, busy: NDArray[Any]) -> NDArray[Any]:
        slots, kind = self.result.slots(run), run.graph.ops.kind
        for place, op in _chunks(run.graph.explicit):
            there = slots[place] >= 0
            op = op[there]
            busy = add_ticks(busy, (slots[place][there], kind[op]), self._took(run.first + op))
        return busy

    def _rates(self, run: SubmittedRun, moved: NDArray[np.float64]) -> None:
        timing = run.answers.timing
        if timing.usage is None or timing.work is None:
            return
        row = np.repeat(np.arange(len(timing)), np.diff(timing.usage.indptr))
        done = np.where(self.ended[run.first : run.first + len(timing)], timing.work, 0.0)
        work = done[row] * timing.usage.weight
        components = self.result.system.components
        rate = np.array([c.rate or np.inf for c in components], np.float64)
        at: Any = timing.usage.component, run.graph.ops.kind[row]
        np.add.at(moved, at, work / rate[timing.usage.component])

    def _holds(self, moved: NDArray[np.float64]) -> None:
        held, kind = by_ops(self.result), self.result.ops.kind[holders(self.result)]
        took = held.share * seconds(held.end - held.start, self.result.tick)
        np.add.at(moved, (held.component, kind), took)

    def _sources(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for run in self.result.runs:
            total: NDArray[Any] = np.zeros(len(run.answers.sources), np.int64)
            for a in range(0, len(run.graph), CHUNK):
                source = run.answers.source[a : a + CHUNK]
                took = self._took(run.first + np.arange(a, a + len(source)))
                total = add_ticks(total, (source,), took)
            for text, t in zip(run.answers.sources, total.tolist(), strict=True):
                found[text] = found.get(text, 0) + t
        return found
