"""Late ranks: for each collective, the rank that arrives last and how long the others wait."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..engine_api.interface import NEVER
from ..record.run_record import RunRecord
from ..record.schedule import SubmittedRun
from ..units import Seconds, seconds


class Lateness(NamedTuple):
    """Lateness of each rank, over all collectives in which any member waited.

    Parameters
    ----------
    late : (ranks,) total time in s that other ranks waited for this rank as the last to arrive;
        split evenly if several ranks arrived last
    last : (ranks,) number of collectives in which this rank arrived last
    collectives : number of collectives with several members in which any member waited
    """

    late: NDArray[np.float64]
    last: NDArray[np.int64]
    collectives: int

    @property
    def straggler(self) -> int | None:
        """Rank that is last in over half of the collectives and causes over half of the waiting.

        None if no rank does both.
        """
        if not self.collectives:
            return None
        rank = int(np.argmax(self.late))
        most = 2 * self.late[rank] > self.late.sum() and 2 * self.last[rank] > self.collectives
        return rank if most else None

    @property
    def waited(self) -> Seconds:
        """Total time that ranks waited for others, in s."""
        return float(self.late.sum())


def lateness(result: RunRecord) -> Lateness:
    """Compute the lateness of each rank of a run; needs one row per op.

    Examples
    --------
    >>> from foretrace.sim.facts.backend import Backend, Timing
    >>> from foretrace.sim.facts.graph import Builder, Member
    >>> from foretrace.sim.facts.ops import Kind
    >>> from foretrace.sim.run.simulation import Simulation
    >>> from foretrace.sim.facts.system import Component, System
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
    >>> found.late.tolist(), found.last.tolist(), found.straggler
    ([0.0, 0.0, 3.0], [0, 0, 1], 2)
    """
    late = np.zeros(result.ranks)
    last = np.zeros(result.ranks, np.int64)
    met = 0
    for waits in collective_waits(result):
        op, of = np.unique(waits.op, return_inverse=True)
        arrives_last = waits.wait == 0
        tied = np.bincount(of, arrives_last, len(op))
        shared = np.bincount(of, waits.wait, len(op)) / tied
        np.add.at(late, waits.rank[arrives_last], shared[of[arrives_last]])
        np.add.at(last, waits.rank[arrives_last], 1)
        met += len(op)
    return Lateness(late, last, met)


class CollectiveWaits(NamedTuple):
    """Waits at the collectives of one graph, one row per member; only collectives with a wait.

    Parameters
    ----------
    run : the graph, as it was submitted
    op : (m,) row of the collective in the graph
    rank : (m,) rank of the member
    wait : (m,) time in s from the member's arrival to the last member's arrival; 0 for the last
        member
    """

    run: SubmittedRun
    op: NDArray[np.int64]
    rank: NDArray[np.int32]
    wait: NDArray[np.float64]


def collective_waits(result: RunRecord) -> Iterator[CollectiveWaits]:
    """Waits at the collectives of each graph of a run; needs one row per op."""
    columns = result.columns
    base = len(columns.end)  # of further places in the column of arrivals
    for run in result.runs:
        block, n, first = run.graph.explicit, len(run.graph), run.first
        further = len(block.places)
        arrived = np.concatenate(
            [columns.arrived[first : first + n], columns.arrived[base : base + further]]
        )
        base += further
        op = block.op_of_place
        wide = np.unique(block.places.op)
        chosen = np.zeros(n, bool)
        chosen[wide[columns.end[first + wide] != NEVER]] = True
        place = np.flatnonzero(chosen[op] & (arrived != NEVER))
        at = np.full(n, NEVER, np.int64)
        np.maximum.at(at, op[place], arrived[place])
        wait = at[op[place]] - arrived[place]
        waited = np.zeros(n, bool)
        waited[op[place[wait > 0]]] = True
        kept = waited[op[place]]
        place = place[kept]
        yield CollectiveWaits(
            run, op[place], result.rank(run)[place], seconds(wait[kept], result.tick)
        )
