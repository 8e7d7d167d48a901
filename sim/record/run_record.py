"""Record of a run: its schedule or aggregates, and the actions of its processes."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ..engine_api.capacity_ledger import ProcessHoldHistory
from ..engine_api.interface import NEVER, ComponentTable, EngineColumns
from ..engine_api.store_control import StoreHistory
from ..errors import NotKeptError
from ..facts.ops import Ops
from ..facts.sampling import MAIN
from ..facts.system import System
from ..units import Seconds, seconds
from .aggregates import RunAggregates
from .emitted_values import EmittedValues
from .item_table import ItemTable
from .prepared_grid import GridError
from .schedule import Schedule, SubmittedRun
from .time_series import SeriesName, TimeSeries, series_of_job

UNKNOWN = "no way to repeat it is known"


@dataclass(frozen=True)
class RunRecord:
    """Data that one run leaves: one row per op, or aggregates if those rows were not kept.

    The functions of :mod:`~foretrace.sim.analysis` read it; a
    :class:`~foretrace.sim.run.result.Result` also offers them as methods.

    Parameters
    ----------
    system : System
        Machine of the run.
    parts : ComponentTable
        Components in the engine's integer units.
    tick : Seconds
        Length of a tick.
    engine : str
        Engine that ran it: ``core`` or ``reference``.
    seed : int
        Seed of the random factors on durations.
    written : Schedule or None
        One row per op, if it was kept.
    summary : RunAggregates or None
        Aggregates, if rows were not kept.
    repeat_run : callable, or str
        Function that repeats the run and keeps one row per op; or the reason why it cannot.
    repeat_window : callable, or str
        Function of two ticks that repeats the run and keeps the rows of the ops between them; or
        the reason why it cannot.
    span : (first tick, last tick) or None
        Window of the run that its rows cover; None if they cover the complete run.
    replica : int or None
        Number of the random draw; None for typical durations.
    jobs : tuple of str
        Names of its jobs, in the order in which they were given and launched.
    emitted : EmittedValues
        Metric values that processes emitted.
    recorded : mapping
        Time series that processes recorded, by job number and name.
    grid_errors : mapping
        Size of each grid that was prepared, and the error of its op times, by name.
    rate_log : tuple of (tick, component, rate)
        Rate changes by processes.
    acquired : ProcessHoldHistory
        Capacity amounts that processes held, and their waits.
    stored : mapping
        History of each store that was used, by component.
    found_full : (components,) or (0,) array
        Number of ops that found the queue of each component full; empty without bounded queues.
    items : tuple of ItemTable
        Results of the streams of items, in the order in which they ended.
    by_job : tuple of RunRecord
        Record of each job, if there are several and rows were not kept.
    whole : RunRecord or None
        Record of all jobs, if this is the record of one of several.
    copies : (ranks,) array or None
        Number of ranks that each rank represents, itself included, if identical ranks were run
        once; 0 for ranks without rows. None if each rank represents itself.
    ended : int
        Tick at which the run ended.
    """

    system: System
    parts: ComponentTable
    tick: Seconds
    engine: str
    seed: int
    written: Schedule | None = None
    summary: RunAggregates | None = None
    repeat_run: Callable[[], Self] | str = field(default=UNKNOWN, repr=False)
    repeat_window: Callable[[int, int], Self] | str = field(default=UNKNOWN, repr=False)
    span: tuple[int, int] | None = None
    replica: int | None = None
    jobs: tuple[str, ...] = (MAIN,)
    emitted: EmittedValues = field(default_factory=EmittedValues)
    recorded: Mapping[SeriesName, TimeSeries] = field(default_factory=dict, repr=False)
    grid_errors: Mapping[str, GridError] = field(default_factory=dict, repr=False)
    rate_log: tuple[tuple[int, int, int], ...] = ()
    acquired: ProcessHoldHistory = field(default_factory=ProcessHoldHistory, repr=False)
    stored: Mapping[int, StoreHistory] = field(default_factory=dict, repr=False)
    found_full: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64), repr=False)
    items: tuple[ItemTable, ...] = field(default=(), repr=False)
    by_job: tuple[Self, ...] = field(default=(), repr=False)
    whole: Self | None = field(default=None, repr=False)
    copies: NDArray[np.int64] | None = field(default=None, repr=False)
    ended: int = 0

    def rows(self, job: int) -> NDArray[np.int64]:
        """Ids of the ops of one job, given by its number."""
        return self._schedule_rows.rows(job)

    def of(self, job: str) -> Self:
        """Record of one job: its own ops, ranks and metrics, from its arrival to its last end.

        All analyses then use only these. Blame also charges other jobs for resources that this job
        waited for.

        Raises
        ------
        KeyError
            There is no such job.
        """
        if job not in self.jobs:
            near = difflib.get_close_matches(job, self.jobs, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"the jobs are {', '.join(self.jobs)}"
            raise KeyError(f"no job is named {job!r}; {hint}")
        return self if len(self.jobs) == 1 else self._records_by_job[job]

    @cached_property
    def _records_by_job(self) -> dict[str, Self]:
        if self.written is None:
            return {
                r.jobs[0]: replace(r, whole=self, items=self._items_of(r.jobs[0]))
                for r in self.by_job
            }
        written = self.written
        return {
            name: replace(
                self,
                written=written.of(k),
                emitted=self.emitted.of_job(k),
                recorded=series_of_job(self.recorded, k),
                items=self._items_of(name),
                jobs=(name,),
                whole=self,
            )
            for k, name in enumerate(self.jobs)
        }

    def _items_of(self, job: str) -> tuple[ItemTable, ...]:
        """Tables of the streams of one job."""
        return tuple(table for table in self.items if table.job == job)

    @property
    def keep(self) -> str:
        """Level of detail: ``ops`` (rows), ``ranks`` (time breakdown per rank) or ``none``."""
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
        """Aggregates that were kept instead of rows.

        Raises
        ------
        NotKeptError
            No aggregates were kept.
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
        """Submitted graphs, in order of submission."""
        return self._schedule_rows.runs

    @property
    def columns(self) -> EngineColumns:
        """Ready, start and end ticks, state and attempts of every op."""
        return self._schedule_rows.columns

    @property
    def moved(self) -> frozenset[int]:
        """Ids of ops that a process moved to other components; tables show where they ran last."""
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
        """Number of identical ranks that each rank represents, itself included."""
        return np.ones(self.ranks, np.int64) if self.copies is None else self.copies

    @property
    def ops(self) -> Ops:
        """Table of all ops, by id."""
        return self._schedule_rows.ops

    @property
    def job(self) -> NDArray[np.int32]:
        """Job number of each op, shape (n,)."""
        return self._schedule_rows.job

    @property
    def component(self) -> NDArray[np.int32]:
        """Component whose backend timed each op, shape (n,); -1 for none."""
        return self._schedule_rows.component

    def rank(self, run: SubmittedRun) -> NDArray[np.int32]:
        """Rank of each place (op on one rank) of a graph, numbered over all jobs."""
        return self._schedule_rows.rank(run)

    def slots(self, run: SubmittedRun) -> NDArray[np.int32]:
        """Last slot component of each place (op on one rank) of a graph; -1 for none."""
        return self._schedule_rows.slots(run)

    def _time_column(self, column: NDArray[np.int64]) -> NDArray[np.float64]:
        found = seconds(column, self.tick)
        found[column == NEVER] = np.nan
        return found

    @property
    def ready(self) -> NDArray[np.float64]:
        """Time at which each op was first ready, in s, shape (n,); NaN if never."""
        return self._time_column(self.columns.ready)

    @property
    def start(self) -> NDArray[np.float64]:
        """Time of each op's last start, in s, shape (n,); NaN if it did not start."""
        return self._time_column(self.columns.start)

    @property
    def end(self) -> NDArray[np.float64]:
        """Time of each op's end, in s, shape (n,); NaN if it did not end."""
        return self._time_column(self.columns.end)

    # Neither is cached: until Python 3.12 a cached property locks its class while it computes, so
    # that two threads, each with a result of its own, would wait for each other by way of
    # ``aggregates``.
    @property
    def makespan_ticks(self) -> int:
        """Last end minus first release, in ticks; of a run without ops, its length."""
        if not self.count:
            return 0 if self.whole else self.ended
        if self.written is None:
            return self.aggregates.last - self.aggregates.first
        return max(int(self.columns.end.max(initial=0)) - self.first_release, 0)

    @property
    def first_release(self) -> int:
        """Earliest tick at which an op may start."""
        return self.aggregates.first if self.written is None else self.written.first_release

    @property
    def makespan(self) -> Seconds:
        """Last end minus first release, in s; of a run without ops, its length."""
        return float(seconds(self.makespan_ticks, self.tick))
