"""Schedule of a run: its graphs as placed, timed and lowered, and the times of every op."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..engine_api.interface import EngineColumns, EngineGraph
from ..facts.graph import Graph
from ..facts.ops import Ops
from ..facts.sampling import MAIN
from .binding import OpTimings


class JobRecord(NamedTuple):
    """Job of a run, with its arrival.

    Parameters
    ----------
    name : str
    arrived : tick
    given : rows of the graph that its workload is; None where a process submits
    """

    name: str = MAIN
    arrived: int = 0
    given: int | None = None


@dataclass(frozen=True)
class SubmittedRun:
    """Graph of a run, as placed, timed and lowered; its row r has the id ``first + r``.

    ``ranks`` numbers its ranks as its job does; None where those are the graph's own numbers.
    ``job`` is the number of its job, ``at`` the tick at which it was handed in, ``by`` the process
    that submitted it, ``which`` the key of its draws.
    """

    graph: Graph
    answers: OpTimings
    lowered: EngineGraph
    first: int
    ranks: NDArray[np.int32] | None = None
    job: int = 0
    at: int = 0
    by: str = ""
    draw_key: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.lowered)

    def as_only_job(self, first: int) -> SubmittedRun:
        """Graph as it appears in its job's own result, where its first op has id ``first``."""
        return replace(self, first=first, job=0)

    @property
    def rank(self) -> NDArray[np.int32]:
        """(n + e,) rank of every place, as the job counts them."""
        own = self.graph.explicit.rank
        return own if self.ranks is None else self.ranks[own]

    @property
    def ops(self) -> Ops:
        """Table of its ops, with ranks as the job counts them."""
        ops = self.graph.ops
        return ops if self.ranks is None else replace(ops, rank=self.ranks[ops.rank])


@dataclass(frozen=True)
class Schedule:
    """Graphs of a run and the times of their ops, one row per op.

    Parameters
    ----------
    runs : tuple of SubmittedRun
        Every graph that was submitted, in order.
    columns : EngineColumns
        Ready, start, end, state and attempts of every op, in ticks.
    moved : frozenset
        Ops that a process resumed elsewhere; the tables say where they ran last.
    jobs : tuple of JobRecord
        Whose graphs they are.
    """

    runs: tuple[SubmittedRun, ...]
    columns: EngineColumns
    moved: frozenset[int] = frozenset()
    jobs: tuple[JobRecord, ...] = (JobRecord(),)

    @cached_property
    def first_release(self) -> int:
        """Tick at which the earliest job arrived; 0 without jobs."""
        return min((job.arrived for job in self.jobs), default=0)

    @property
    def given(self) -> int | None:
        """Number of rows of the only job's own graph, whose periods count; None for all graphs.

        What processes submit beside it is in no period.
        """
        return self.jobs[0].given if len(self.jobs) == 1 else None

    @cached_property
    def bases(self) -> NDArray[np.int64]:
        """(jobs + 1,) first rank of each job in the list of all ranks, and their number."""
        counts = np.zeros(len(self.jobs) + 1, np.int64)
        for run in self.runs:
            counts[run.job + 1] = max(counts[run.job + 1], ranks_of(run))
        return np.cumsum(counts)

    @property
    def ranks(self) -> int:
        """Number of ranks, of all jobs."""
        return int(self.bases[-1])

    def rank(self, run: SubmittedRun) -> NDArray[np.int32]:
        """(n + e,) rank of every place of a graph, in the list of all jobs' ranks."""
        base = self.bases[run.job]
        return run.rank if not base else (run.rank + base).astype(np.int32)

    @cached_property
    def job(self) -> NDArray[np.int32]:
        """(n,) number of the job of each op."""
        sizes = [len(run) for run in self.runs]
        return np.repeat(np.array([run.job for run in self.runs], np.int32), sizes)

    def rows(self, job: int) -> NDArray[np.int64]:
        """Ids of the ops of one job, ascending."""
        return np.flatnonzero(self.job == job)

    def of(self, job: int) -> Schedule:
        """Schedule of one job alone, with ops numbered from 0."""
        own, rows = [], self.rows(job)
        first = 0
        for run in self.runs:
            if run.job == job:
                own.append(run.as_only_job(first))
                first += len(run)
        moved = frozenset(
            int(np.searchsorted(rows, op)) for op in self.moved if self.job[op] == job
        )
        return Schedule(tuple(own), self._columns(job, rows), moved, (self.jobs[job],))

    def _columns(self, job: int, rows: NDArray[np.int64]) -> EngineColumns:
        """Times of the ops of one job."""
        c, places, claims = self.columns, [rows], [rows[:0]]
        at, claim = len(c.end), 0
        for run in self.runs:
            further, held = len(run.lowered.further), len(run.lowered.claims)
            if run.job == job:
                places.append(np.arange(at, at + further))
                claims.append(np.arange(claim, claim + held))
            at, claim = at + further, claim + held
        place, own = np.concatenate(places), np.concatenate(claims)
        return EngineColumns(
            c.ready[rows], c.start[rows], c.end[rows], c.state[rows], c.attempts[rows],
            c.arrived[place], c.asked[own], c.granted[own], c.returned[own],
        )  # fmt: skip

    @cached_property
    def ops(self) -> Ops:
        """Table of all ops, in the order of ids; empty of a job that submitted nothing."""
        tables = [r.ops for r in self.runs] or [Ops.of(kind=[])]
        return Ops.concat(tables) if len(tables) != 1 else tables[0]

    @cached_property
    def component(self) -> NDArray[np.int32]:
        """(n,) component that was asked about each op; -1 for none."""
        return np.concatenate([np.empty(0, np.int32), *(r.answers.component for r in self.runs)])

    def slots(self, run: SubmittedRun) -> NDArray[np.int32]:
        """(n + e,) component of the last slot of each place of a graph; -1 for none."""
        return run.lowered.slot


def ranks_of(run: SubmittedRun) -> int:
    """Number of ranks up to the last one of a graph."""
    return run.graph.ranks if run.ranks is None else 1 + int(run.ranks.max(initial=-1))
