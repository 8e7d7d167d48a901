"""Work phases of all flows of a run, and the component that limited each flow's rate."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..engine_api.interface import NEVER, ONE
from ..facts.csr import Csr
from ..record.run_record import RunRecord

_NONE = np.empty(0, np.int64)


class RateBound(NamedTuple):
    """Component that limits the rate of a flow between two ticks.

    Parameters
    ----------
    component : index of the saturated component; None if the flow's own limit applies
    taken : rate of that component used by each flow in flight, by op id
    """

    start: int
    end: int
    component: int | None
    taken: dict[int, int]


class FlowHistory:
    """Work phases (intervals of transfer) of all flows of a run, and what limited their rates."""

    def __init__(self, result: RunRecord):
        self.result = result

    @cached_property
    def _work_phase_table(self) -> NDArray[np.int64]:
        """(5, n) table of work phases: op id, first and last tick, graph number, graph row."""
        columns = self.result.columns
        found = [np.empty((5, 0), np.int64)]
        for k, run in enumerate(self.result.runs):
            flows = run.lowered.flows
            op = flows.op.astype(np.int64) + run.first
            begin, end = columns.start[op] + run.lowered.fixed[flows.op], columns.end[op]
            row = np.arange(len(op))
            whole = np.stack([op, begin, end, np.full(len(op), k), row])
            found.append(whole[:, (end != NEVER) & (end > begin)])
        return np.concatenate(found, axis=1)

    @cached_property
    def _phases_by_begin(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Work-phase rows by first tick; first ticks; running maxima of last ticks."""
        begin, last = self._work_phase_table[1:3]
        order = np.argsort(begin, kind="stable")
        return order, begin[order], np.maximum.accumulate(last[order])

    @cached_property
    def _components(self) -> Csr:
        """Components that each work phase uses."""
        _, _, _, number, row = self._work_phase_table
        each = [
            Csr(run.lowered.flows.indptr, run.lowered.flows.component).take(row[number == k])
            for k, run in enumerate(self.result.runs)
        ]
        counts = np.concatenate([_NONE, *(c.counts for c in each)])
        values = np.concatenate([_NONE, *(c.values for c in each)])
        return Csr(np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), values)

    def bounds(self, op: int, start: int, end: int) -> Iterator[RateBound]:
        """Limiting components of an op between two ticks of its work phase, in order of time.

        For a plugged-in medium the limits are unknown; the result is a single bound.
        """
        _, begin, last, *_ = self._work_phase_table
        near = self._in_flight(start, end)
        near = self._connected(near, op)
        usages = [uses for uses, _ in self._flows_by_id(near[self._ops[near] == op]).values()]
        if any(map(self.result.parts.is_plugged, usages)):
            yield RateBound(start, end, None, {})
            return
        cuts = {start, end}
        for tick in np.concatenate([begin[near], last[near]]).tolist():
            cuts.add(min(max(tick, start), end))
        cuts |= {t for t, _, _ in self.result.rate_log if start < t < end}
        for a, b in pairwise(sorted(cuts)):
            flying = near[(begin[near] <= a) & (last[near] >= b)]
            yield RateBound(
                a, b, *bounding_component(self._rates_at(a), self._flows_by_id(flying), op)
            )

    @property
    def _ops(self) -> NDArray[np.int64]:
        return np.asarray(self._work_phase_table[0])

    def _in_flight(self, start: int, end: int) -> NDArray[np.int64]:
        """Rows of the work phases in flight at any time between two ticks, ascending."""
        order, begins, reach = self._phases_by_begin
        first, beyond = np.searchsorted(reach, start, "right"), np.searchsorted(begins, end)
        rows = np.sort(order[first:beyond])
        return np.asarray(rows[self._work_phase_table[2, rows] > start])

    def _connected(self, rows: NDArray[np.int64], op: int) -> NDArray[np.int64]:
        """Rows of flows that share components with an op, directly or through other flows."""
        uses = self._components.take(rows)
        mine = self._ops[rows] == op
        marked = np.zeros(len(self.result.parts), bool)
        while True:
            marked[uses.values[mine[uses.owner]]] = True
            met = np.zeros(len(rows), bool)
            met[uses.owner[marked[uses.values]]] = True
            if np.all(met <= mine):
                return np.asarray(rows[mine])
            mine |= met

    def _flows_by_id(self, rows: NDArray[np.int64]) -> dict[int, tuple[dict[int, int], int]]:
        """Usage and limit of the flows in some rows, by op id."""
        found = {}
        for op, _, _, k, row in self._work_phase_table[:, rows].T.tolist():
            flows = self.result.runs[k].lowered.flows
            found[op] = flows.usage(row), int(flows.limit[row])
        return found

    def _rates_at(self, tick: int) -> dict[int, int]:
        """Rate of each component at a tick, including all changes by processes."""
        rates = {c: r for c, r in enumerate(self.result.parts.rate.tolist()) if r >= 0}
        return rates | {c: rate for at, c, rate in self.result.rate_log if at <= tick}


def bounding_component(
    capacity: dict[int, int], flows: dict[int, tuple[dict[int, int], int]], flow_id: int
) -> tuple[int | None, dict[int, int]]:
    """Component that limits one flow under max-min fairness, and each flow's rate on it.

    None if the flow's own limit applies.

    Parameters
    ----------
    capacity : rate of each component, in rate units
    flows : ({component: weight}, limit or -1) of each flow, by id
    flow_id : id of the flow

    Examples
    --------
    >>> flows = {0: ({7: ONE}, -1), 1: ({7: ONE, 8: ONE}, -1)}
    >>> c, taken = bounding_component({7: 10, 8: 3}, flows, 0)
    >>> c, {op: t // ONE for op, t in taken.items()}
    (7, {0: 7, 1: 3})
    >>> bounding_component({7: 10, 8: 3}, flows, 1)[0]
    8
    """
    rates: dict[int, int] = {}
    room = {c: r * ONE for c, r in capacity.items()}
    left = dict(flows)
    while left:
        weight: dict[int, int] = {}
        for usage, _ in left.values():
            for c, w in usage.items():
                weight[c] = weight.get(c, 0) + w
        level = {c: room[c] // w for c, w in weight.items()}
        limits = [limit for _, limit in left.values() if limit >= 0]
        lowest = min([*level.values(), *limits])
        usage, limit = left[flow_id]
        full = [c for c in sorted(usage) if level[c] == lowest]
        if full:
            users = ((i, uses[full[0]]) for i, (uses, _) in flows.items() if full[0] in uses)
            return full[0], {i: w * rates.get(i, lowest) for i, w in users}
        if limit == lowest:
            return None, {}
        for i, (uses, bound) in list(left.items()):
            if bound == lowest or any(level[c] == lowest for c in uses):
                del left[i]
                rates[i] = lowest
                for c, w in uses.items():
                    room[c] -= w * lowest
    raise AssertionError(f"flow {flow_id} is not in flight")
