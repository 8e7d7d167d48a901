"""Who is late: of each collective the rank that arrives last, and how long others wait for it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..engine_api import NEVER
from ..run_record import RunRecord
from ..units import Seconds, seconds


class Lateness(NamedTuple):
    """Lateness of each rank in collectives for which any member waited.

    Parameters
    ----------
    late : (ranks,) s that others waited for it, where it arrived last; added up over those others,
        and split evenly where several arrived last
    last : (ranks,) collectives in which it arrived last
    collectives : of several members for which anybody waited
    """

    late: NDArray[np.float64]
    last: NDArray[np.int64]
    collectives: int

    @property
    def cause(self) -> int | None:
        """Rank that arrives last in most of them and is waited for most of the time; else None."""
        if not self.collectives:
            return None
        rank = int(np.argmax(self.late))
        most = 2 * self.late[rank] > self.late.sum() and 2 * self.last[rank] > self.collectives
        return rank if most else None

    @property
    def waited(self) -> Seconds:
        """Time that ranks waited for others, added up, s."""
        return float(self.late.sum())


def lateness(result: RunRecord) -> Lateness:
    """Lateness of the ranks of a run with one row per op.

    Examples
    --------
    >>> from foretrace.sim.backend import Backend, Timing
    >>> from foretrace.sim.graph import Builder, Member
    >>> from foretrace.sim.ops import Kind
    >>> from foretrace.sim.simulation import Simulation
    >>> from foretrace.sim.system import Component, System
    >>> class Recorded(Backend):
    ...     def timing(self, ops, now=0.0):
    ...         return Timing.of(ops.duration)
    >>> build = Builder("late")
    >>> own = [build.op(Kind.COMPUTE, rank=r, duration=1.0 + r) for r in range(3)]
    >>> _ = build.collective([Member(r, 0, (own[r],)) for r in range(3)], duration=1.0)
    >>> gpus = tuple(Component(f"node0.gpu{r}", "gpu", slots=1) for r in range(3))
    >>> parts = (*gpus, Component("fabric", "fabric"))
    >>> system = System(parts, tuple(g.name for g in gpus), fabric="fabric")
    >>> found = lateness(Simulation(system, {"*": Recorded()}, "reference").run(build.graph()))
    >>> found.late.tolist(), found.last.tolist(), found.cause
    ([0.0, 0.0, 3.0], [0, 0, 1], 2)
    """
    late = np.zeros(result.ranks)
    last = np.zeros(result.ranks, np.int64)
    met, columns = 0, result.columns
    base = len(columns.end)  # of further places in the column of arrivals
    for run in result.runs:
        block, n, first = run.graph.explicit, len(run.graph), run.first
        further = len(block.places)
        rank = result.rank(run)
        arrived = np.concatenate(
            [columns.arrived[first : first + n], columns.arrived[base : base + further]]
        )
        base += further
        op = block.op_of_place
        wide = np.unique(block.places.op)
        chosen = np.zeros(n, bool)
        chosen[wide[columns.end[first + wide] != NEVER]] = True
        place = np.flatnonzero(chosen[op] & (arrived != NEVER))
        if not len(place):
            continue
        at = np.full(n, NEVER, np.int64)
        np.maximum.at(at, op[place], arrived[place])
        wait = np.zeros(n)
        np.add.at(wait, op[place], seconds(at[op[place]] - arrived[place], result.tick))
        tied = np.bincount(op[place], arrived[place] == at[op[place]], n)
        slow = place[(arrived[place] == at[op[place]]) & (wait[op[place]] > 0)]
        np.add.at(late, rank[slow], wait[op[slow]] / tied[op[slow]])
        np.add.at(last, rank[slow], 1)
        met += int(np.count_nonzero(wait > 0))
    return Lateness(late, last, met)
