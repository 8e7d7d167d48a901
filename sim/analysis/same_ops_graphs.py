"""Graphs in memory, grouped by their ops, with the times of their ops."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..engine_api.interface import HeldOpTimes
from ..record.grid_answers import GridSubmissions
from ..record.prepared import PreparedRun
from ..record.schedule import SubmittedRun

Ticks = NDArray[np.int64]


@dataclass(frozen=True)
class SameOpsGraphs:
    """Submitted graphs with the same ops and participants, with times in one row per graph.

    Ways of a graph differ in shape: in slots, sources and usage. Graphs of a shape are consecutive
    rows. Graphs that hold amounts have one shape.

    Parameters
    ----------
    run : one of the graphs; all have its ops and participants
    shapes : (s,) one graph of each shape; all of a shape have its slots, sources and usage
    heads : (s,) first row of each shape
    own : (k,) True if the periods of the graph count
    work : (s, n) total work of ended ops, in the unit of the components they use
    arrived, start, end : (k, n + e) ticks of each participant of each op
    state, fresh : (k, n + e) state, and True if the op ended since the last call
    over : (k,) True if all ops of the graph have ended or were cancelled
    amount : (k, h) amount of each claim on a capacity
    asked, granted, returned : (k, h) ticks of request, grant and release of each claim
    """

    run: SubmittedRun
    shapes: Sequence[SubmittedRun]
    heads: Ticks
    own: NDArray[np.bool_]
    work: NDArray[np.float64]
    arrived: Ticks
    start: Ticks
    end: Ticks
    state: NDArray[np.uint8]
    fresh: NDArray[np.bool_]
    over: NDArray[np.bool_]
    amount: Ticks
    asked: Ticks
    granted: Ticks
    returned: Ticks

    @property
    def shape(self) -> Ticks:
        """(k,) number of each graph's shape."""
        return np.searchsorted(self.heads, np.arange(len(self.over)), side="right") - 1

    @property
    def slots(self) -> NDArray[np.int32]:
        """(s, n + e) slot component of each place."""
        return np.stack([run.lowered.slot for run in self.shapes])


def group_graphs_by_ops(
    held: HeldOpTimes, own: Sequence[int], runs: Sequence[SubmittedRun], given: int | None
) -> Iterator[SameOpsGraphs]:
    """Group the graphs in memory by ops; a group has consecutive shapes, so sums keep their order.

    The shapes of a graph are its ways and the structures of its timings.
    """
    shapes: dict[int, list[int]] = {}
    last, members = None, list[int]()
    for k in own:
        if runs[k] is not last:  # graphs without a record of their own share one
            last = runs[k]
            members = shapes.setdefault(id(_representative_run(last)), [])
        members.append(k)
    counts = np.full(len(held.index), given is None) | (held.index == given)
    of_shapes = [(_representative_run(runs[rows[0]]), rows) for rows in shapes.values()]
    for _, same in groupby(of_shapes, key=lambda one: _key_of_ops(one[0])):
        found, rows = zip(*same, strict=True)
        run, members = found[0], [k for own in rows for k in own]
        heads = np.cumsum([0, *map(len, rows[:-1])])
        at = held.base[members][:, None] + np.arange(len(run.lowered.slot))
        fresh = held.fresh[at]
        yield SameOpsGraphs(
            run, found, heads, counts[members],
            _work_of_ended_ops(found, heads, [runs[k] for k in members], fresh),
            held.arrived[at], held.start[at], held.end[at], held.state[at], fresh,
            held.over[members], *_claim_ticks(held, members, run, runs),
        )  # fmt: skip


def _key_of_ops(run: SubmittedRun) -> tuple[object, ...]:
    """Key that is equal for the ways of a graph on the same ranks that hold no amounts."""
    if len(run.lowered.claims):
        return (id(run),)
    block, ranks = run.graph.explicit, None if run.ranks is None else run.ranks.tobytes()
    return id(block.ops), id(block.places), id(run.graph.streams), ranks


def _claim_ticks(
    held: HeldOpTimes, members: Sequence[int], shape: SubmittedRun, runs: Sequence[SubmittedRun]
) -> tuple[Ticks, Ticks, Ticks, Ticks]:
    """Amount of each claim of each graph, and the ticks of its request, grant and release."""
    claims = len(shape.lowered.claims)
    at = held.claim[members][:, None] + np.arange(claims)
    if not claims:
        nothing = np.empty(at.shape, np.int64)
        return nothing, nothing, nothing, nothing
    amount = np.array([_claimed_amount(runs[k]) for k in members], np.int64).reshape(at.shape)
    return amount, held.asked[at], held.granted[at], held.returned[at]


def _claimed_amount(run: SubmittedRun) -> Ticks:
    return (
        run.submission.numbers.amount if isinstance(run, PreparedRun) else run.lowered.claims.amount
    )


def _representative_run(run: SubmittedRun) -> SubmittedRun:
    """Run that represents all submissions of a prepared graph; otherwise the run itself."""
    return run.submission.variant.run if isinstance(run, PreparedRun) else run


def _work_of_ended_ops(
    shapes: Sequence[SubmittedRun],
    heads: Ticks,
    runs: Sequence[SubmittedRun],
    fresh: NDArray[np.bool_],
) -> NDArray[np.float64]:
    """(s, n) work of ended ops, summed over the graphs of each shape; 0 without work."""
    n = len(shapes[0].graph)
    works = [run.answers.timing.work for run in shapes]
    each = np.stack([np.zeros(n) if work is None else work for work in works])
    found: NDArray[np.float64] = each * np.add.reduceat(fresh[:, :n], heads, axis=0, dtype=int)
    for s, (first, last) in enumerate(pairwise([*heads.tolist(), len(runs)])):
        if works[s] is not None:
            _add_changed_work(found[s], each[s], runs[first:last], fresh[first:last])
    return found


def _add_changed_work(
    into: NDArray[np.float64],
    work: NDArray[np.float64],
    runs: Sequence[SubmittedRun],
    fresh: NDArray[np.bool_],
) -> None:
    """Add the difference of work in submissions with other numbers to the (n,) work of a shape."""
    n, k = len(work), 0
    while k < len(runs):
        run = runs[k]
        made: Any = run.submission if isinstance(run, PreparedRun) else None
        if isinstance(made, GridSubmissions):
            more = np.where(fresh[k : k + made.times, :n], made.work - work, 0.0)
            into[:] = np.add.accumulate(np.concatenate([into[None], more]))[-1]  # one by one
            k += made.times
            continue
        for row, other in zip(made.timed, made.work, strict=True) if made else ():
            if fresh[k, row]:
                into[row] += other - work[row]
        k += 1
