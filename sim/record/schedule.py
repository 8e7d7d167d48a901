"""Schedule of a run: its submitted graphs with their op timings, and the times of every op."""

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
from ..facts.way import Pins
from .binding import OpTimings


class JobRecord(NamedTuple):
    """Record of a job: its name and its arrival.

    Parameters
    ----------
    name : str
    arrived : tick of its arrival
    given : number of ops, if its workload is a single graph; None if a process submits graphs
    """

    name: str = MAIN
    arrived: int = 0
    given: int | None = None


@dataclass(frozen=True)
class SubmittedRun:
    """Submitted graph of a run, placed and timed; the op in its row r has the id ``first + r``.

    ``ranks`` maps its ranks to those of its job; None if they are equal. ``job`` is the job's
    number, ``at`` the tick of the submission, ``by`` the process that submitted it,
    ``draw_key`` the key of its random draws, and ``pins`` are the routes that it chose.
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
    pins: Pins | None = None

    def __len__(self) -> int:
        return len(self.structure)

    @property
    def structure(self) -> EngineGraph:
        """Engine graph of the same ops, which may have other durations and amounts."""
        return self.lowered

    def as_only_job(self, first: int) -> SubmittedRun:
        """The graph in its job's own result, where its first op has id ``first``."""
        return replace(self, first=first, job=0)

    @property
    def rank(self) -> NDArray[np.int32]:
        """Rank of each place (op on one rank), numbered within the job."""
        own = self.graph.explicit.rank
        return own if self.ranks is None else self.ranks[own]

    @property
    def ops(self) -> Ops:
        """Table of its ops, with ranks numbered within the job."""
        ops = self.graph.ops
        return ops if self.ranks is None else replace(ops, rank=self.ranks[ops.rank])


@dataclass(frozen=True)
class Schedule:
    """Submitted graphs of a run and the times of their ops, one row per op.

    Parameters
    ----------
    runs : tuple of SubmittedRun
        Every submitted graph, in order of submission.
    columns : EngineColumns
        Ready, start and end ticks, state and attempts of every op.
    moved : frozenset
        Ids of ops that a process moved to other components; tables show where they ran last.
    jobs : tuple of JobRecord
        Jobs that submitted the graphs.
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
        """Number of ops with periods, if the only job is one graph; None if all may have them.

        Graphs that processes submit in addition have no periods.
        """
        return self.jobs[0].given if len(self.jobs) == 1 else None

    @cached_property
    def bases(self) -> NDArray[np.int64]:
        """First rank of each job among all ranks, then the number of ranks; shape (jobs + 1,)."""
        counts = np.zeros(len(self.jobs) + 1, np.int64)
        for run in self.runs:
            counts[run.job + 1] = max(counts[run.job + 1], ranks_of(run))
        return np.cumsum(counts)

    @property
    def ranks(self) -> int:
        """Number of ranks of all jobs."""
        return int(self.bases[-1])

    def rank(self, run: SubmittedRun) -> NDArray[np.int32]:
        """Rank of each place (op on one rank) of a submitted graph, numbered over all jobs."""
        base = self.bases[run.job]
        return run.rank if not base else (run.rank + base).astype(np.int32)

    @cached_property
    def job(self) -> NDArray[np.int32]:
        """Job number of each op, shape (n,)."""
        sizes = [len(run) for run in self.runs]
        return np.repeat(np.array([run.job for run in self.runs], np.int32), sizes)

    def rows(self, job: int) -> NDArray[np.int64]:
        """Ids of the ops of one job, ascending."""
        return np.flatnonzero(self.job == job)

    def of(self, job: int) -> Schedule:
        """Schedule of one job, with its ops numbered from 0."""
        own, rows = [], self.rows(job)
        first = 0
        for run, _, _ in self._runs_by_job[job]:
            own.append(run.as_only_job(first))
            first += len(run)
        moved = frozenset(
            int(np.searchsorted(rows, op)) for op in self.moved if self.job[op] == job
        )
        return Schedule(tuple(own), self._columns(job, rows), moved, (self.jobs[job],))

    @cached_property
    def _runs_by_job(self) -> list[list[tuple[SubmittedRun, range, range]]]:
        """Submitted graphs of each job; rows of their further places and of their claims."""
        by_job: list[list[tuple[SubmittedRun, range, range]]] = [[] for _ in self.jobs]
        at, claim = len(self.columns.end), 0
        for run in self.runs:
            more, held = at + len(run.structure.further), claim + len(run.structure.claims)
            by_job[run.job].append((run, range(at, more), range(claim, held)))
            at, claim = more, held
        return by_job

    def _columns(self, job: int, rows: NDArray[np.int64]) -> EngineColumns:
        """Times of the ops of one job."""
        c, own = self.columns, self._runs_by_job[job]
        place = np.concatenate([rows, *(r for _, r, _ in own if r)])
        claims = np.fromiter((k for *_, held in own for k in held), np.int64)
        return EngineColumns(
            c.ready[rows], c.start[rows], c.end[rows], c.state[rows], c.attempts[rows],
            c.arrived[place], c.asked[claims], c.granted[claims], c.returned[claims],
        )  # fmt: skip

    @cached_property
    def ops(self) -> Ops:
        """Table of all ops, by id; empty if nothing was submitted."""
        tables = [r.ops for r in self.runs] or [Ops.of(kind=[])]
        return Ops.concat(tables) if len(tables) != 1 else tables[0]

    @cached_property
    def component(self) -> NDArray[np.int32]:
        """Component whose backend timed each op, shape (n,); -1 for none."""
        return np.concatenate([np.empty(0, np.int32), *(r.answers.component for r in self.runs)])

    def slots(self, run: SubmittedRun) -> NDArray[np.int32]:
        """Last slot component of each place (op on one rank) of a graph; -1 for none."""
        return run.structure.slot


def ranks_of(run: SubmittedRun) -> int:
    """Number of ranks of a submitted graph: its highest rank number plus 1."""
    return run.graph.ranks if run.ranks is None else 1 + int(run.ranks.max(initial=-1))
