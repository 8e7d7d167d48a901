"""Amounts of capacities that ops and processes hold over time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..engine_api.interface import NEVER
from ..record.run_record import RunRecord
from ..units import seconds

Numbers = NDArray[np.int64]


class HeldAmounts(NamedTuple):
    """Intervals (ticks) in which a fraction ``share`` of a capacity is held.

    A negative share is an amount released: it is subtracted from what is held.
    """

    component: Numbers
    start: Numbers
    end: Numbers
    share: NDArray[np.float64]


class CapacityWait(NamedTuple):
    """Wait for a capacity: its component, and the ticks of the request and of the grant."""

    component: int
    asked: int
    granted: int


def op_id_of_each_claim(result: RunRecord) -> Numbers:
    """(claims,) id of the op that owns each claim on a capacity."""
    return np.concatenate(
        [np.empty(0, np.int64), *(r.first + r.lowered.claims.op for r in result.runs)]
    )


def amounts_held_by_ops(result: RunRecord) -> HeldAmounts:
    """Amounts held by ops, one row per claim; an amount never released lasts to the end of the run.

    The run ends at the last end of an op. Releases after that, by ops that are cancelled later, are
    not counted.
    """
    claims = [r.lowered.claims for r in result.runs]
    none = np.empty(0, np.int64)
    component = np.concatenate([none, *(c.component for c in claims)])
    amount = np.concatenate([none, *(c.amount for c in claims)])
    granted, returned = result.columns.granted, result.columns.returned
    last = _last_tick(result)
    end = np.where(returned == NEVER, last, np.minimum(returned, last))
    start = np.where(granted == NEVER, end, np.minimum(granted, last))
    return HeldAmounts(component, start, end, amount / _whole_capacity(result, component))


def amounts_held_by_processes(result: RunRecord) -> HeldAmounts:
    """Changes of the amounts held by processes, each lasting to the end of the run.

    Amounts held before the job's first op count from that op on.
    """
    return _held_by_processes(result, result.acquired.changes)


def _held_by_processes(result: RunRecord, changes: Numbers) -> HeldAmounts:
    """Some changes of the amounts held by processes, each lasting to the end of the run."""
    tick, component, change = changes.T
    last = np.full(len(tick), _last_tick(result))
    start = np.clip(tick, result.first_release, last)
    return HeldAmounts(component, start, last, change / _whole_capacity(result, component))


def seconds_held_by_processes(result: RunRecord) -> NDArray[np.float64]:
    """(components,) time in s that processes held a capacity, weighted by the held fraction."""
    found = np.zeros(len(result.parts))
    for part in result.acquired.log:  # not all at once, to save memory
        held = _held_by_processes(result, part)
        took = held.share * seconds(held.end - held.start, result.tick)
        np.add.at(found, held.component, took)
    return found


def _last_tick(result: RunRecord) -> int:
    return result.first_release + result.makespan_ticks


def _whole_capacity(result: RunRecord, component: Numbers) -> Numbers:
    return result.parts.capacity[component] if len(component) else np.empty(0, np.int64)
