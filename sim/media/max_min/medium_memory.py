"""Memory of the max-min medium: allocation, growth and reading of its tables."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ...engine_api.interface import NO_LIMIT, ONE, ComponentTable, Flows
from ...engine_api.validation import may_exceed_rate_range
from ...errors import BackendError
from ...kernel.jit import jit
from ...kernel.row_allocator import RowAllocator
from . import table_layout as lay
from .pairing_heap import ABSENT, BEFORE, NONE
from .table_layout import Array, State


class MaxMinMemory:
    """State of the max-min medium of one run; kernels of :mod:`.medium` take its ``state``.

    Flows of all graphs share one numbering, in the order of `add`; freed rows are reused. ``state``
    is a new tuple after `add`, `append` and `set_usage`, so fetch it again. In interpreted mode,
    kernels need ``np.errstate(over="ignore")``.

    Parameters
    ----------
    parts : ComponentTable
        Components; those without a rate cannot be used.

    Examples
    --------
    >>> from foretrace.sim.media.max_min.medium import due, join, settle
    >>> link = ComponentTable(("link",), np.array([-1]), np.array([10]), np.array([160]))
    >>> sharing = MaxMinMemory(link)
    >>> sharing.append(work=40, usage={0: ONE}), sharing.append(work=60, usage={0: ONE})
    (0, 1)
    >>> s = sharing.state
    >>> join(s, 0, 0)
    >>> join(s, 1, 0)
    >>> settle(s, 0)
    >>> int(due(s))  # 40 at a rate of 5
    8
    """

    def __init__(self, parts: ComponentTable):
        self._of = parts
        self._parts = _empty_table(len(parts), lay.PART_COLUMNS)
        self._parts[:, lay.CAP] = np.maximum(parts.rate, 0)
        self._parts[:, lay.LEVEL] = lay.OPEN
        self._parts[:, lay.HEAD] = NONE
        self._parts[:, BEFORE] = ABSENT
        self._flows, self._flow_rows = _empty_table(4, lay.FLOW_COLUMNS), RowAllocator()
        self._uses, self._use_rows = _empty_table(4, lay.USE_COLUMNS), RowAllocator()
        self._bundles = _empty_table(0, lay.BUNDLE_COLUMNS)
        self._grow_classes(5)
        self._bundles[0, [lay.FIRST_DUE, lay.FIRST_QUEUED]] = NONE
        self._bundles[0, [lay.FIRST_LOOSE, lay.FIRST_ROOMY]] = NONE
        self._bundles[0, lay.FRESH] = 1

    def __len__(self) -> int:
        return self._flow_rows.top

    @property
    def state(self) -> State:
        """Tables of the medium as a tuple, the first argument of its kernels."""
        return self._parts, self._flows, self._uses, self._bundles

    def add(self, flows: Flows) -> int:
        """Append flows of a validated graph, not yet in flight; return the first's number."""
        n, m = len(flows), len(flows.component)
        owner = np.repeat(np.arange(n), np.diff(flows.indptr))
        order = np.lexsort((self._use_order(flows.component), owner))
        component, weight = flows.component[order].astype(np.int64), flows.weight[order]
        first, first_use = self.reserve_rows(n, m)
        uses = self._uses[first_use : first_use + m]
        uses[:] = 0
        uses[:, lay.COMPONENT], uses[:, lay.WEIGHT] = component, weight
        self.mark_fractional_weights(uses)
        rows = self._flows[first : first + n]
        rows[:] = 0
        rows[:, lay.START] = flows.indptr[:-1] + first_use
        rows[:, lay.COUNT] = np.diff(flows.indptr)
        rows[:, lay.LIMIT] = np.where(flows.limit == NO_LIMIT, lay.OPEN, flows.limit)
        rows[:, lay.TAG_HI] = flows.work_hi
        rows[:, lay.TAG_LO] = flows.work_lo.view(np.int64)
        rows[:, BEFORE] = ABSENT
        return first

    def _use_order(self, component: NDArray[np.int32]) -> NDArray[np.int32]:
        """(uses,) sort key for the uses of a flow: the component; other media use another order."""
        if not len(self._of.plugged):
            return component
        return np.where(self._of.plugged[component], 0, component)

    def reserve_rows(self, flows: int, uses: int) -> tuple[int, int]:
        """Reserve consecutive rows in the tables of flows and uses; returns the first row of each.

        A use is one flow on one component. A freed block of rows of the same length is reused.
        """
        first, first_use = self._flow_rows.take(flows), self._use_rows.take(uses)
        if self._flow_rows.top > len(self._flows):
            self._flows = _grow_table(self._flows, self._flow_rows.top)
            self._grow_classes(len(self._flows) + 1)
        if self._use_rows.top > len(self._uses):
            self._uses = _grow_table(self._uses, self._use_rows.top)
        return first, first_use

    def free_rows(self, flows: tuple[int, int], uses: tuple[int, int]) -> None:
        """Free rows of flows and uses, each as (first, count); these flows never run again."""
        self._flows[flows[0] : flows[0] + flows[1], lay.COUNT] = 0
        self._flow_rows.free(*flows)
        self._use_rows.free(*uses)

    def end_flows(self, rows: Array) -> None:
        """Mark flows that never run again; their rows stay reserved."""
        self._flows[rows, lay.COUNT] = 0

    def uses_of(self, flow: int) -> tuple[int, int]:
        """Rows of a flow's uses, as (first, count)."""
        return int(self._flows[flow, lay.START]), int(self._flows[flow, lay.COUNT])

    def mark_fractional_weights(self, uses: Array) -> None:
        """Mark the components on which a flow has a fractional weight."""
        self._parts[uses[uses[:, lay.WEIGHT] % ONE != 0, lay.COMPONENT], lay.FINE] = 1

    def rows(self, flows: int, uses: int) -> tuple[Array, Array]:
        """Copies of the tables of flows and uses, up to row ``flows`` and row ``uses``."""
        return self._flows[:flows].copy(), self._uses[:uses].copy()

    def append(self, work: int, usage: Mapping[int, int], limit: int = NO_LIMIT) -> int:
        """Append one flow; returns its number.

        Raises
        ------
        BackendError
            Nothing keeps it below 2^62 rate units.
        """
        flow = single_flow_table(work, usage, limit)
        self._check(flow)
        return self.add(flow)

    def set_usage(self, flow: int, usage: Mapping[int, int], limit: int = NO_LIMIT) -> None:
        """Replace usage and limit of a flow not in flight; its old rows are not freed."""
        new = self.append(0, usage, limit)
        for field in (lay.START, lay.COUNT, lay.LIMIT):
            self._flows[flow, field] = self._flows[new, field]
        self.free_rows((new, 1), (0, 0))

    def set_work_left(self, flow: int, work: int) -> None:
        """Set the remaining work of a flow that is not in flight."""
        self._flows[flow, lay.TAG_HI] = work >> 64
        self._flows[flow, lay.TAG_LO] = np.uint64(work & (2**64 - 1)).astype(np.int64)

    def work_left(self, flow: int) -> int:
        """Remaining work of a flow that is not in flight."""
        hi, lo = self._flows[flow, lay.TAG_HI], self._flows[flow, lay.TAG_LO]
        return (int(hi) << 64) + int(lo) % 2**64

    def _grow_classes(self, rows: int) -> None:
        """Grow the table of flow classes to one row per flow, and rebuild its hash index."""
        if rows <= len(self._bundles):
            return
        old = len(self._bundles)
        self._bundles = _copy_table(self._bundles, rows)
        self._bundles[max(old, 1) :, BEFORE] = ABSENT
        self._bundles[0, lay.MASK] = (1 << (rows.bit_length() - 1)) - 1
        _rehash(self._bundles)

    def usage(self, flow: int) -> dict[int, int]:
        """Components that a flow uses, as ``{component: weight}``."""
        first = int(self._flows[flow, lay.START])
        rows = self._uses[first : first + int(self._flows[flow, lay.COUNT])]
        return dict(zip(rows[:, lay.COMPONENT].tolist(), rows[:, lay.WEIGHT].tolist(), strict=True))

    def limit(self, flow: int) -> int:
        """Rate limit of a flow, -1 for none."""
        found = int(self._flows[flow, lay.LIMIT])
        return NO_LIMIT if found == lay.OPEN else found

    def users(self, component: int) -> list[int]:
        """Flows that use a component, in flight or not."""
        flows = self._flows[: len(self)]
        count = flows[:, lay.COUNT]
        if not count.sum():
            return []
        at = np.repeat(flows[:, lay.START] - np.cumsum(count) + count, count)
        row = np.repeat(np.arange(len(flows)), count)
        hit = self._uses[at + np.arange(len(at)), lay.COMPONENT] == component
        found: list[int] = row[hit].tolist()
        return found

    def _check(self, flows: Flows) -> None:
        """Raise an error for flows whose numbers exceed the integer range of the kernels."""
        for row in np.flatnonzero(may_exceed_rate_range(self._of, flows)):
            raise BackendError(
                f"op {flows.op[row]}: its rate may reach 2^62 rate units; "
                "set a limit for the op, or a lower max_rate for its components"
            )


@jit
def _rehash(bundles: Array) -> None:
    """Insert every flow class in use into the hash index."""
    bundles[:, lay.BUCKET] = 0
    for b in range(1, len(bundles)):
        if bundles[b, lay.SIZE]:
            at = bundles[b, lay.HASH] & bundles[0, lay.MASK]
            bundles[b, lay.CHAIN] = bundles[at, lay.BUCKET]
            bundles[at, lay.BUCKET] = b


def _empty_table(rows: int, columns: int) -> Array:
    """Table of zeros, aligned to a CPU cache line."""
    numbers = np.zeros(rows * columns + lay.LINE, np.int64)
    first = -(numbers.ctypes.data // numbers.itemsize) % lay.LINE
    return numbers[first : first + rows * columns].reshape(rows, columns)


def _grow_table(table: Array, rows: int) -> Array:
    """Table with room for the given number of rows; doubled if it has to grow."""
    return table if rows <= len(table) else _copy_table(table, max(rows, 2 * len(table)))


def _copy_table(table: Array, rows: int) -> Array:
    """Copy of a table with the given number of rows; additional rows are 0."""
    copied = _empty_table(rows, table.shape[1])
    copied[: len(table)] = table
    return copied


def single_flow_table(work: int, usage: Mapping[int, int], limit: int = NO_LIMIT) -> Flows:
    """Flow table with a single flow.

    >>> single_flow_table(2**64 + 5, {3: ONE}).work(0) == 2**64 + 5
    True
    """
    return Flows(
        np.zeros(1, np.int32),
        np.array([work >> 64], np.int64),
        np.array([work & (2**64 - 1)], np.uint64),
        np.array([limit], np.int64),
        np.array([0, len(usage)], np.int64),
        np.array(list(usage), np.int32),
        np.array(list(usage.values()), np.int64),
    )
