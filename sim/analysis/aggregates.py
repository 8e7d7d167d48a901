"""What every result keeps: when each rank began and ended its steps, and where its time went.

A row an op is kept where asked for; this is kept always, and is some hundred bytes a rank.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..engine_api import NEVER
from ..ops import Kind
from ..units import seconds
from .holdings import by_ops, holders

if TYPE_CHECKING:
    from ..flat_graph import FlatGraph
    from ..result import Result
    from ..schedule import SubmittedRun

KEEP = ("none", "ranks", "ops")
MOST_OPS = 5_000_000  # more are kept only on request
BOXES = (
    "compute",
    "overlapped",
    "exposed_communication",
    "memory",
    "waiting",
    "host",
    "idle",
)
CHUNK = 1 << 16  # places that are summed at once; they fit into a cache
EXPOSED = BOXES.index("exposed_communication")


@dataclass(frozen=True)
class RunAggregates:
    """Ticks of a run, by rank, period, component and kind.

    A run without periods has one window instead, from its first release to its last end; so has
    the whole of several jobs, whose ranks are listed job after job.

    Parameters
    ----------
    ops : number of ops
    first : tick of the first release
    steps : (k,) periods that there are, ascending
    start, end : (k, ranks) first start and last end on each rank; -1 where it has none
    busy : (components, kinds) ticks of slots that were held; int64, or Python integers where the
        slots of a run together held more than int64 does
    moved : (components, kinds) s of work at the full rate, or of holding the whole capacity
    sources : s of ops by where their time comes from
    exposed : (k, ranks) ticks with communication in flight and no compute, in each step's window
    boxes : (7, 1 + k, ranks) ticks in each box of ``activity`` before the first step and in each
        step's window; or None where not kept
    windows : (components, 100) share in use in equal windows of the run, or None
    beside : tick of the last end of what is in no step
    """

    ops: int
    first: int
    steps: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    busy: NDArray[Any]
    moved: NDArray[np.float64]
    sources: dict[str, int]
    exposed: NDArray[np.int64] | None = None
    boxes: NDArray[np.int64] | None = None
    windows: NDArray[np.float64] | None = None
    beside: int = NEVER

    @cached_property
    def last(self) -> int:
        """Tick of the last end."""
        return max(int(self.end.max(initial=self.first)), self.first, self.beside)

    @cached_property
    def edges(self) -> NDArray[np.int64]:
        """(k + 1,) ticks at which the first step begins and each step ends on its last rank."""
        if not len(self.steps):
            return np.array([self.first, self.last])
        first = self.start[0][self.start[0] != NEVER].min()
        return np.concatenate([[first], np.maximum.accumulate(self.end.max(axis=1))])

    @cached_property
    def marks(self) -> NDArray[np.int64]:
        """(k + 2,) The same after the first release: ends of the windows that boxes are kept of."""
        return np.concatenate([[min(self.first, self.edges[0])], self.edges])

    def boxed(self, boxes: NDArray[np.int64], keep: str) -> RunAggregates:
        """With the boxes between the marks, as far as ``keep`` keeps them."""
        found = replace(self, exposed=boxes[EXPOSED, 1:].copy())
        return replace(found, boxes=boxes) if keep == "ranks" else found


def add_ticks(
    into: NDArray[Any], at: tuple[NDArray[Any], ...], ticks: NDArray[np.int64]
) -> NDArray[Any]:
    """A table with ticks added to its cells: of Python integers where int64 would not hold them.

    Times of all ranks add up beyond the range of one: 16,384 of them in ten minutes.

    Examples
    --------
    >>> add_ticks(np.zeros(2, np.int64), (np.array([1, 1]),), np.array([2**62] * 2)).tolist()
    [0, 9223372036854775808]
    """
    most = float(into.sum(dtype=None if into.dtype == object else np.float64))
    if into.dtype != object and most + ticks.sum(dtype=np.float64) < 2.0**62:
        if len(ticks):
            heads = _heads(*at)
            np.add.at(into, tuple(a[heads] for a in at), np.add.reduceat(ticks, heads))
        return into
    high, low = np.zeros(into.shape, np.int64), np.zeros(into.shape, np.int64)
    np.add.at(high, at, ticks >> 32)
    np.add.at(low, at, ticks & (2**32 - 1))
    return np.asarray(into.astype(object) + high.astype(object) * 2**32 + low)


def _heads(*columns: NDArray[Any]) -> NDArray[np.int64]:
    """Where rows begin that differ from the one before: what is alike is mostly side by side.

    >>> _heads(np.array([5, 5, 5, 7]), np.array([1, 1, 0, 0])).tolist()
    [0, 2, 3]
    """
    new = np.ones(len(columns[0]), bool)
    new[1:] = False
    for column in columns:
        new[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(new)


def _chunks(block: FlatGraph) -> Iterator[tuple[slice, NDArray[np.int64]]]:
    """Places, some at once, and the op of each."""
    n, of = len(block), block.places.op
    for a in range(0, n, CHUNK):
        yield slice(a, min(a + CHUNK, n)), np.arange(a, min(a + CHUNK, n))
    for a in range(0, len(of), CHUNK):
        op = of[a : a + CHUNK].astype(np.int64)
        yield slice(n + a, n + a + len(op)), op


def kept_of(result: Result) -> RunAggregates:
    """The same from a row an op; the boxes are left to who asks."""
    return _Sums(result).kept()


class _Sums:
    """Sums over the rows of a result."""

    def __init__(self, result: Result):
        self.result, self.columns = result, result.columns
        self.ended = self.columns.end != NEVER
        self.given = None if result.written is None else result.written.given

    def _steps(self) -> NDArray[np.int64]:
        """(k,) Periods that there are: of the only job, and of ops that ended."""
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
                    heads = _heads(step, rank)
                    at, ids = (step[heads], rank[heads]), run.first + op[there]
                    np.minimum.at(start, at, np.minimum.reduceat(self.columns.start[ids], heads))
                    np.maximum.at(end, at, np.maximum.reduceat(self.columns.end[ids], heads))
        start[start == late] = NEVER
        return start, end

    def _took(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Ticks of ops from start to end; 0 of those that did not end."""
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
