"""Engine of a stream of items: its arrays, which grow, and copies of them to return to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..engine_api.item_setup import ItemSetup
from ..facts.items import layout as lay
from ..facts.items.arrival_process import ON_OFF, unit_exponential
from ..facts.items.layout import NONE, ItemSums, ItemTurn
from ..facts.sampling import random_bits
from . import item_arrays as rows
from .arrival_source import prepare_arrival
from .item_arrays import SHARED, ItemArrays, new_clock
from .item_sums import BUCKETS, fill_histogram
from .item_targets import value_of
from .policy_loop import loop_of

FIRST_ROWS = 64  # items inside at first, and latencies
UNLIMITED = 2**62  # servers of a delay


class Checkpoint(NamedTuple):
    """Copy of what a run changes."""

    state: Any
    arrays: ItemArrays


class ItemEngine:
    """Compiled engine of one stream.

    Parameters
    ----------
    setup : what it starts from
    """

    def __init__(self, setup: ItemSetup):
        self.setup, self.state = setup, _copied(setup.state)
        self.arrays, self._loop = _new_arrays(setup), loop_of(setup.step)
        with np.errstate(over="ignore"):
            prepare_arrival(self.arrays)
        self._kept = Checkpoint(self.state, self.arrays)
        self.keep()

    def run(self, horizon: int, budget: int) -> int:
        """Process events up to and including a tick; returns a status."""
        while True:
            with np.errstate(over="ignore"):
                status = int(self._loop(self.state, self.arrays, horizon, budget))
            if status == lay.NO_ROWS and not self._grow_rows():
                return status
            if status == lay.NO_LATENCIES:
                self._grow_latencies()
            if status not in (lay.NO_ROWS, lay.NO_LATENCIES):
                return status

    def keep(self) -> None:
        """Remember the present state, to `rewind` to."""
        self._kept = Checkpoint(_copied(self.state), self._copied_arrays(self.arrays))

    def rewind(self) -> None:
        """Return to the state that was kept last."""
        self.state = _copied(self._kept.state)
        self.arrays = self._copied_arrays(self._kept.arrays)._replace(wanted=self.arrays.wanted)

    def want(self, wanted: Sequence[tuple[int, int, int]]) -> None:
        """Stop where one of these quantities has reached its value."""
        table = np.array(wanted, np.int64).reshape(-1, 3)
        self.arrays = self.arrays._replace(wanted=table)

    @property
    def met(self) -> int:
        """Row of what was wanted and has come true."""
        return int(self.arrays.clock[rows.MET])

    @property
    def now(self) -> int:
        """Tick of the last event."""
        return int(self.arrays.turn.head[lay.NOW])

    @property
    def wrong(self) -> int:
        """Value that was wrong."""
        return int(self.arrays.turn.head[lay.WRONG])

    def value(self, quantity: int, of: int = 0) -> int:
        """Present value of a quantity."""
        return int(value_of(self.arrays, quantity, of))

    @property
    def inside(self) -> int:
        """Number of items inside."""
        return int(self.arrays.clock[rows.INSIDE])

    @property
    def full_pools(self) -> list[int]:
        """Pools for which items wait at their source."""
        waited_for = self.arrays.turn.pools[:, rows.HELD_UP] != NONE
        return [int(k) for k in np.flatnonzero(waited_for)]

    @property
    def longest_line(self) -> int:
        """Pool with the longest line."""
        return int(np.argmax(self.arrays.turn.pools[:, lay.WAITING]))

    def sums(self) -> ItemSums:
        """Sums so far."""
        arrays, classes = self.arrays, self.setup.classes
        by_pool = arrays.sums.reshape(classes, -1, arrays.sums.shape[1])
        inner, of = by_pool[:, :-1], arrays.totals
        latencies = histogram = None
        if arrays.clock[rows.IS_EXACT]:
            known = arrays.latencies[: arrays.clock[rows.LATENCIES]]
            latencies = [known[known[:, 0] == k, 1] for k in range(classes)]
        else:
            histogram = arrays.histogram.tolist()
        return ItemSums(
            inner[:, :, rows.SERVED].tolist(),
            [_wide(pools, rows.WAIT) for pools in inner],
            [_wide(pools, rows.WORK) for pools in inner],
            by_pool[:, :, rows.DROPS].tolist(),
            of[:, rows.CAME].tolist(),
            of[:, rows.LEFT].tolist(),
            of[:, rows.LOST].tolist(),
            _wide(of, rows.LATENCY),
            of[:, rows.LONGEST].tolist(),
            self.inside,
            arrays.turn.counts.tolist(),
            latencies,
            histogram,
        )

    def _copied_arrays(self, arrays: ItemArrays) -> ItemArrays:
        """Copy of all arrays that a run changes."""
        fields = {
            name: array.copy()
            for name, array in arrays._asdict().items()
            if name != "turn" and name not in SHARED
        }
        return arrays._replace(turn=ItemTurn(*(part.copy() for part in arrays.turn)), **fields)

    def _grow_rows(self) -> bool:
        """Double the items that fit; False if that is more than may be inside."""
        arrays = self.arrays
        if len(arrays.items) >= self.setup.most_inside:
            return False
        size = min(2 * len(arrays.items), self.setup.most_inside)
        self.arrays = arrays._replace(
            items=_longer(arrays.items, size), events=_longer(arrays.events, size)
        )
        return True

    def _grow_latencies(self) -> None:
        """Double the latencies that fit; once they are too many, only count them in buckets."""
        arrays, most = self.arrays, self.setup.most_latencies
        if len(arrays.latencies) < most:
            size = min(max(2 * len(arrays.latencies), FIRST_ROWS), most)
            self.arrays = arrays._replace(latencies=_longer(arrays.latencies, size))
            return
        histogram = np.zeros((self.setup.classes, BUCKETS), np.int64)
        fill_histogram(histogram, arrays.latencies)
        arrays.clock[rows.IS_EXACT] = 0
        self.arrays = arrays._replace(latencies=arrays.latencies[:0].copy(), histogram=histogram)


def _copied(state: Any) -> Any:
    """Copy of the arrays of a policy."""
    arrays = [np.array(array, order="C") for array in state]
    return type(state)(*arrays) if arrays else ()


def _wide(table: Any, column: int) -> list[int]:
    """Sums of two words as integers."""
    low, high = table[:, column].tolist(), table[:, column + 1].tolist()
    return [a + rows.WORD * b for a, b in zip(low, high, strict=True)]


def _longer(array: Any, size: int) -> Any:
    made = np.zeros((size, *array.shape[1:]), array.dtype)
    made[: len(array)] = array
    return made


def _new_arrays(setup: ItemSetup) -> ItemArrays:
    """Arrays of a stream that has not begun."""
    pools, arrivals = len(setup.servers), setup.arrivals
    head = np.zeros(lay.HEAD_FIELDS, np.int64)
    head[lay.NOW], head[lay.PER_SECOND] = setup.start, setup.per_second
    head[lay.KEY] = random_bits(*setup.key).astype(np.int64).item()
    first = min(FIRST_ROWS, setup.most_inside)
    kept = min(FIRST_ROWS, setup.most_latencies)
    limits = arrivals.kind, arrivals.most, arrivals.last, setup.start
    left = 0.0
    if arrivals.kind == ON_OFF:
        left = unit_exponential(random_bits(*setup.key, NONE, 0).item()) * arrivals.on
    return ItemArrays(
        turn=ItemTurn(head, _pool_rows(setup), np.zeros(setup.counters, np.int64)),
        clock=new_clock(),
        items=np.zeros((first, rows.ITEM_COLUMNS), np.int64),
        events=np.zeros((first, 3), np.int64),
        sums=np.zeros((setup.classes * (pools + 1), 6), np.int64),
        totals=np.zeros((setup.classes, 7), np.int64),
        latencies=np.zeros((kept, 2), np.int64),
        histogram=np.zeros((0, 0), np.int64),
        wanted=np.zeros((0, 3), np.int64),
        tried=setup.queues.elsewhere.values.astype(np.int64),
        source=np.array(limits, np.int64),
        means=np.array([arrivals.gap, arrivals.on, arrivals.off, left]),
        at=arrivals.at,
        columns=arrivals.columns,
    )


def _pool_rows(setup: ItemSetup) -> Any:
    """One row per pool, empty."""
    queues, count = setup.queues, len(setup.servers)
    table = np.zeros((count, rows.POOL_COLUMNS), np.int64)
    table[:, lay.SERVERS] = [UNLIMITED if n is None else n for n in setup.servers]
    table[:, rows.LENGTH], table[:, rows.LAST] = queues.length, queues.last
    ends = queues.elsewhere.indptr
    table[:, rows.TRIED], table[:, rows.TRIED_END] = ends[:-1], ends[1:]
    lists = rows.FIRST, rows.TAIL, rows.HELD_UP, rows.HELD_TAIL, rows.NEXT_FREED
    table[:, lists] = NONE
    return table
