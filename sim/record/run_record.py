"""Record of a run: the schedule that came out, or its aggregates, and what processes did."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ..engine_api.capacity_ledger import ProcessHoldHistory
from ..engine_api.interface import NEVER, ComponentTable, EngineColumns
from ..errors import NotKeptError
from ..facts.ops import Ops
from ..facts.sampling import MAIN
from ..facts.system import System
from ..units import Seconds, seconds
from .aggregates import RunAggregates
from .emitted_values import EmittedValues
from .schedule import Schedule, SubmittedRun


@dataclass(frozen=True)
class RunRecord:
    """What one run left: one row per op, or sums where those rows were not kept.

    The functions of :mod:`~foretrace.sim.analysis` read it; a
    :class:`~foretrace.sim.run.result.Result` is one that offers them as methods.

    Parameters
    ----------
    system : System
    parts : ComponentTable
        The components as engines know them.
    tick : Seconds
    engine : str
    seed : int
    written : Schedule or None
        One row per op, where that was kept.
    summary : RunAggregates or None
        What was kept where rows were not.
    repeat_run : callable, or str
        Runs the same once more with one row per op; or why it cannot.
    replica : int or None
    jobs : tuple of str
        Names of its jobs, in the order in which they were given and launched.
    emitted : EmittedValues
        Values of metrics that processes emitted.
    rate_log : tuple of (tick, component, rate)
        Changes of rates by processes.
    acquired : ProcessHoldHistory
        What processes held of capacities, and how long they waited for it.
    by_job : tuple of RunRecord
        The record of each of several jobs, where rows were not kept.
    whole : RunRecord or None
        The record of all jobs, where this is of one of several.
    copies : (ranks,) array or None
        How many ranks each one stands for, itself included, where identical ranks were run once;
        0 for those that have no rows. None where each stands for itself.
    """

    system: System
    parts: ComponentTable
    tick: Seconds
    engine: str
    seed: int
    written: Schedule | None = None
    summary: RunAggregates | None = None
    repeat_run: Callable[[], Self] | str = field(default="no way to repeat it is known", repr=False)
    replica: int | None = None
    jobs: tuple[str, ...] = (MAIN,)
    emitted: EmittedValues = field(default_factory=EmittedValues)
    rate_log: tuple[tuple[int, int, int], ...] = ()
    acquired: ProcessHoldHistory = field(default_factory=ProcessHoldHistory, repr=False)
    by_job: tuple[Self, ...] = field(default=(), repr=False)
    whole: Self | None = field(default=None, repr=False)
    copies: NDArray[np.int64] | None = field(default=None, repr=False)

    def rows(self, job: int) -> NDArray[np.int64]:
        """Ids of the ops of a job, by its number."""
        return self._schedule_rows.rows(job)

    def of(self, job: str) -> Self:
        """Record of one job: its own ops, ranks and metrics, from its arrival to its last end.

        Whatever is asked of it is answered from these; blame walks its ops, and sees those of
        others where they took what it waited for.

        Raises
        ------
        KeyError
            No such job.
        """
        if job not in self.jobs:
            near = difflib.get_close_matches(job, self.jobs, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"the jobs are {', '.join(self.jobs)}"
            raise KeyError(f"no job is named {job!r}; {hint}")
        return self if len(self.jobs) == 1 else self._records_by_job[job]

    @cached_property
    def _records_by_job(self) -> dict[str, Self]:
        if self.written is None:
            return {r.jobs[0]: replace(r, whole=self) for r in self.by_job}
        written = self.written
        return {
            name: replace(
                self,
                written=written.of(k),
                emitted=self.emitted.of_job(k),
                jobs=(name,),
                whole=self,
            )
            for k, name in enumerate(self.jobs)
        }

    @property
    def keep(self) -> str:
        """Detail kept: ``ops`` (one row per op), ``ranks`` (time by box per rank) or ``none``."""
        if self.written is not None:
            return "ops"
        return "ranks" if self.aggregates.boxes is not None else "none"

    def _not_kept_error(self, why: str) -> NotKeptError:
        return NotKeptError(
            f"result: rows of its {self.count:,} ops were not kept (keep={self.keep!r}), and "
            f"{why}; "
            "run it with keep='ops'"
        )

    @property
    def aggregates(self) -> RunAggregates:
        """Aggregates that were kept in place of rows.

        Raises
        ------
        NotKeptError
            Nothing was kept.
        """
        if self.summary is None:
            raise NotKeptError("result: neither rows nor aggregates were kept; run it again")
        return self.summary

    @property
    def _schedule_rows(self) -> Schedule:
        if self.written is None:
            raise self._not_kept_error("this analysis needs them")
        return self.written

    @property
    def runs(self) -> tuple[SubmittedRun, ...]:
        """Submitted graphs, in order."""
        return self._schedule_rows.runs

    @property
    def columns(self) -> EngineColumns:
        """Ready, start, end, state and attempts of every op, in ticks."""
        return self._schedule_rows.columns

    @property
    def moved(self) -> frozenset[int]:
        """Ops that a process resumed elsewhere; the tables say where they ran last."""
        return self._schedule_rows.moved

    @property
    def count(self) -> int:
        """Number of ops."""
        return self.aggregates.ops if self.written is None else len(self.columns.end)

    @property
    def ranks(self) -> int:
        """Number of ranks."""
        return self.aggregates.start.shape[1] if self.written is None else self.written.ranks

    @property
    def rank_weights(self) -> NDArray[np.int64]:
        """(ranks,) how many ranks each one stands for; they add up to all that there are."""
        return np.ones(self.ranks, np.int64) if self.copies is None else self.copies

    @property
    def ops(self) -> Ops:
        """Table of all ops, in the order of ids."""
        return self._schedule_rows.ops

    @property
    def job(self) -> NDArray[np.int32]:
        """(n,) number of the job of each op."""
        return self._schedule_rows.job

    @property
    def component(self) -> NDArray[np.int32]:
        """(n,) component that was asked about each op; -1 for none."""
        return self._schedule_rows.component

    def rank(self, run: SubmittedRun) -> NDArray[np.int32]:
        """(n + e,) rank of every place of a graph; ranks of several jobs are in one list."""
        return self._schedule_rows.rank(run)

    def slots(self, run: SubmittedRun) -> NDArray[np.int32]:
        """(n + e,) component of the last slot of each place of a graph; -1 for none."""
        return self._schedule_rows.slots(run)

    def _time_column(self, column: NDArray[np.int64]) -> NDArray[np.float64]:
        found = seconds(column, self.tick)
        found[column == NEVER] = np.nan
        return found

    @property
    def ready(self) -> NDArray[np.float64]:
        """(n,) s at which each op could have started; NaN if never."""
        return self._time_column(self.columns.ready)

    @property
    def start(self) -> NDArray[np.float64]:
        """(n,) s of each op's last start; NaN if it did not start."""
        return self._time_column(self.columns.start)

    @property
    def end(self) -> NDArray[np.float64]:
        """(n,) s of each op's end; NaN if it did not end."""
        return self._time_column(self.columns.end)

    # Neither is cached: until Python 3.12 a cached property locks its class while it computes, so
    # that two threads, each with a result of its own, would wait for each other by way of
    # ``aggregates``.
    @property
    def makespan_ticks(self) -> int:
        """Last end minus first release, in ticks."""
        if self.written is None:
            return self.aggregates.last - self.aggregates.first
        return max(int(self.columns.end.max(initial=0)) - self.first_release, 0)

    @property
    def first_release(self) -> int:
        """Tick at which the first graph may begin."""
        return self.aggregates.first if self.written is None else self.written.first_release

    @property
    def makespan(self) -> Seconds:
        """Last end minus first release, s."""
        return float(seconds(self.makespan_ticks, self.tick))
