"""The schedule that came out, immutable, with what people ask of it."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .analysis.aggregates import RunAggregates, kept_of
from .analysis.holdings import held_by_processes
from .capacity import Acquired
from .emitted import Emitted
from .engine_api import NEVER, ComponentTable, EngineColumns
from .errors import NotKeptError
from .ops import Kind, Ops
from .sampling import MAIN
from .schedule import Schedule, SubmittedRun
from .system import System
from .units import Seconds, seconds

if TYPE_CHECKING:
    import pandas as pd

    from .analysis.blame import Blame, Charge

log = logging.getLogger(__name__)


class Difference(NamedTuple):
    """One number of two results: this one's, the other's, and other / this - 1."""

    this: float
    other: float
    change: float


@dataclass(frozen=True)
class Result:
    """What happened, to the tick.

    Parameters
    ----------
    system : System
    parts : Parts
    tick : Seconds
    engine : str
    seed : int
    written : Written or None
        A row an op, where it was kept.
    summary : Kept or None
        What is kept without.
    again : callable, or str
        The same run with a row an op; or why there is no such run.
    replica : int or None
    jobs : tuple of str
        Names of its jobs, in the order in which they were given and launched.
    emitted : Emitted
        Values of metrics that processes emitted.
    rate_log : tuple of (tick, component, rate)
        What processes set.
    acquired : Acquired
        What processes held of capacities, and how long they waited for it.
    by_job : tuple of Result
        The result of each of several jobs, where no row an op was kept.
    whole : Result or None
        The result of all jobs, where this is of one of several.
    """

    system: System
    parts: ComponentTable
    tick: Seconds
    engine: str
    seed: int
    written: Schedule | None = None
    summary: RunAggregates | None = None
    again: Callable[[], Result] | str = field(default="nobody says how", repr=False)
    replica: int | None = None
    jobs: tuple[str, ...] = (MAIN,)
    emitted: Emitted = field(default_factory=Emitted)
    rate_log: tuple[tuple[int, int, int], ...] = ()
    acquired: Acquired = field(default_factory=Acquired, repr=False)
    by_job: tuple[Result, ...] = field(default=(), repr=False)
    whole: Result | None = field(default=None, repr=False)

    def _repr_html_(self) -> str:
        """As a notebook shows it: the numbers first asked for, and who bounds the run."""
        from .analysis.notebook import table

        # Looking at a result repeats no run: who is charged is shown where it is known.
        blamed = {} if self.written is None else self.blame().seconds
        charged = sorted(blamed.items(), key=lambda c: -c[1])[:5]
        rows = [
            ("makespan", f"{self.makespan:.6g} s"),
            *(("period, p50", f"{t:.6g} s") for t in [self.period_time] if t == t),
            ("ops", f"{self.count:,}"),
            ("engine", self.engine),
            *((f"critical path: {who}", f"{t:.6g} s") for who, t in charged),
        ]
        return table(repr(self), rows)

    def __repr__(self) -> str:
        return f"<Result {self.count} ops, makespan {self.makespan:.6g} s, {self.engine}>"

    def rows(self, job: int) -> NDArray[np.int64]:
        """Ids of the ops of a job, by its number."""
        return self._rows.rows(job)

    def of(self, job: str) -> Result:
        """The result of one job: its own ops, ranks and metrics, from its arrival to its last end.

        Whatever is asked of it is answered from these; blame walks its ops, and sees those of
        others where they took what it waited for.

        Raises
        ------
        KeyError
            No such job.
        """
        if job not in self.jobs:
            near = difflib.get_close_matches(job, self.jobs, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"they are {', '.join(self.jobs)}"
            raise KeyError(f"no job is named {job!r}; {hint}")
        return self if len(self.jobs) == 1 else self._of_jobs[job]

    @cached_property
    def _of_jobs(self) -> dict[str, Result]:
        if self.written is None:
            return {r.jobs[0]: replace(r, whole=self) for r in self.by_job}
        written = self.written
        return {
            name: replace(
                self, written=written.of(k), emitted=self.emitted.of(k), jobs=(name,), whole=self
            )
            for k, name in enumerate(self.jobs)
        }

    def without_rows(self, keep: str, again: Callable[[], Result] | str) -> Result:
        """What ``keep`` keeps of it, job by job.

        Parameters
        ----------
        again : the same run with a row an op, or why there is none
        """
        from .analysis.folded_aggregates import summarised

        several = self.jobs if len(self.jobs) > 1 else ()
        by_job = tuple(self.of(name).without_rows(keep, again) for name in several)
        summary = summarised(self, keep)
        return replace(self, written=None, summary=summary, again=again, by_job=by_job, whole=None)

    @property
    def metrics(self) -> tuple[tuple[str, float, float], ...]:
        """What processes emitted: (name, time in s, value), in order."""
        return tuple(self.emitted)

    @property
    def keep(self) -> str:
        """What was kept: ``ops`` (a row an op), ``ranks`` (every box of every rank), ``none``."""
        if self.written is not None:
            return "ops"
        return "ranks" if self.kept.boxes is not None else "none"

    @cached_property
    def kept(self) -> RunAggregates:
        """Times by rank, period, component and kind: kept always."""
        return kept_of(self) if self.summary is None else self.summary

    @cached_property
    def detail(self) -> Result:
        """The same with a row an op; the run is repeated where none was kept, and it is said.

        Identical ranks of a template stay folded: there is one of each, under its own number.

        Raises
        ------
        NotKeptError
            The run cannot be repeated.
        """
        if self.written is not None:
            return self
        if isinstance(self.again, str):
            raise self._lacks(f"the run cannot be repeated: {self.again}")
        log.info("a row an op was not kept (keep=%r): running again for it", self.keep)
        return self.again()

    def _lacks(self, why: str) -> NotKeptError:
        return NotKeptError(
            f"result: of {self.count:,} ops no row an op was kept (keep={self.keep!r}), and {why}; "
            "run it with keep='ops'"
        )

    @property
    def _rows(self) -> Schedule:
        if self.written is None:
            raise self._lacks("this needs one")
        return self.written

    @property
    def runs(self) -> tuple[SubmittedRun, ...]:
        """Every graph that was submitted, in order."""
        return self._rows.runs

    @property
    def columns(self) -> EngineColumns:
        """Ready, start, end, state and attempts of every op, in ticks."""
        return self._rows.columns

    @property
    def moves(self) -> Mapping[int, tuple[int, ...]]:
        """Ops that a process resumed elsewhere: the component of each place."""
        return self._rows.moves

    @property
    def count(self) -> int:
        """Number of ops."""
        return self.kept.ops if self.written is None else len(self.columns.end)

    @property
    def ranks(self) -> int:
        """Number of ranks."""
        return self.kept.start.shape[1] if self.written is None else self.written.ranks

    @property
    def ops(self) -> Ops:
        """Every op, in the order of ids."""
        return self._rows.ops

    @property
    def job(self) -> NDArray[np.int32]:
        """(n,) The number of the job of each op."""
        return self._rows.job

    @property
    def component(self) -> NDArray[np.int32]:
        """(n,) The component that was asked about each op; -1 for nobody."""
        return self._rows.component

    def rank(self, run: SubmittedRun) -> NDArray[np.int32]:
        """(n + e,) The rank of every place of a graph; those of several jobs are in one list."""
        return self._rows.rank(run)

    def slots(self, run: SubmittedRun) -> NDArray[np.int32]:
        """(n + e,) The component whose slot each place of a graph had last, -1 for none."""
        return self._rows.slots(run)

    def _time(self, column: NDArray[np.int64]) -> NDArray[np.float64]:
        found = seconds(column, self.tick)
        found[column == NEVER] = np.nan
        return found

    @property
    def ready(self) -> NDArray[np.float64]:
        """(n,) s when each op could have started; NaN if never."""
        return self._time(self.columns.ready)

    @property
    def start(self) -> NDArray[np.float64]:
        """(n,) s of each op's last start; NaN if never."""
        return self._time(self.columns.start)

    @property
    def end(self) -> NDArray[np.float64]:
        """(n,) s of each op's end; NaN if it did not."""
        return self._time(self.columns.end)

    # Neither is cached: until Python 3.12 a cached property locks its class while it computes, so
    # that two threads, each with a result of its own, would wait for each other by way of `kept`.
    @property
    def makespan_ticks(self) -> int:
        """Last end minus first release, in ticks."""
        if self.written is None:
            return self.kept.last - self.kept.first
        return max(int(self.columns.end.max(initial=0)) - self.first_release, 0)

    @property
    def first_release(self) -> int:
        """Tick at which the first graph may begin."""
        return self.kept.first if self.written is None else self.written.first_release

    @property
    def makespan(self) -> Seconds:
        """Last end minus first release, s."""
        return float(seconds(self.makespan_ticks, self.tick))

    @cached_property
    def periods(self) -> NDArray[np.float64]:
        """(k,) s: wall time of each period, in order; (0,) without any.

        A period lasts from the end of the one before it (the first: from its own first start) to
        the last end of its ops on any rank.
        """
        from .analysis.metrics import period_edges

        edges = period_edges(self)
        return seconds(np.diff(edges) if edges is not None else np.empty(0, np.int64), self.tick)

    @property
    def period_time(self) -> Seconds:
        """Median wall time of one period, s; NaN without any."""
        return float(np.median(self.periods)) if len(self.periods) else float("nan")

    @cached_property
    def busy_by_kind(self) -> dict[tuple[str, str], Seconds]:
        """Seconds of work of each component by kind of op: of all slots, at full rate or all held.

        What processes hold of a capacity is of no kind.
        """
        found: dict[tuple[str, str], float] = {}
        whole = seconds(self.kept.busy, self.tick) + self.kept.moved
        for c, kind in np.argwhere(whole).tolist():
            found[self.parts.names[c], Kind(kind).name.lower()] = float(whole[c, kind])
        return found

    @cached_property
    def busy(self) -> dict[str, Seconds]:
        """Seconds of work that each component did: of all its slots together, or at full rate.

        Of a capacity, seconds at which all of it was held would come to the same.  Charged where
        an op ran last.  Names of idle components are left out.
        """
        held = seconds(self.kept.busy.sum(axis=1), self.tick)
        whole = held + self.kept.moved.sum(axis=1) + held_by_processes(self)
        return {self.parts.names[c]: float(whole[c]) for c in np.flatnonzero(whole).tolist()}

    def utilization(self) -> dict[str, float]:
        """Busy time / wall time of each component that did anything (slots: mean over slots)."""
        wall = self.makespan or 1.0
        return {
            name: busy / (wall * (self.system[name].slots or 1))
            for name, busy in sorted(self.busy.items())
        }

    def compare(self, other: Result) -> dict[str, Difference]:
        """What differs: times of the run, and busy time by component; equal numbers are left out.

        Works whatever either result kept.
        """
        mine, others = self._numbers(), other._numbers()
        found = {}
        for name in dict.fromkeys((*mine, *others)):
            a, b = mine.get(name, 0.0), others.get(name, 0.0)
            if a != b:
                found[name] = Difference(a, b, b / a - 1 if a else np.inf)
        return found

    def _numbers(self) -> dict[str, float]:
        """Seconds by name."""
        found = {"makespan": self.makespan}
        if len(self.periods):
            found["period_time"] = self.period_time
        return found | {f"{name}.busy": t for name, t in sorted(self.busy.items())}

    def blame(self) -> Blame:
        """Every tick of the critical path, charged; see :mod:`~foretrace.sim.analysis.blame`."""
        from .analysis.blame import blame

        return blame(self.detail)

    def critical_path(self) -> list[Charge]:
        """The chain of ops and waits that made the run as long as it was, first to last."""
        return list(self.blame().path)

    def frame(self) -> pd.DataFrame:
        """One row per op: name, kind, rank, stream, period, component, ready/start/end in µs.

        The job before them where there are several, no period where there are none.

        Raises
        ------
        ImportError
            pandas is missing.
        """
        from .analysis.frames import of_ops

        return of_ops(self.detail)

    def rank_frame(self) -> pd.DataFrame:
        """One row for each period of each rank: first start, last end, exposed communication.

        One for each rank where there are no periods; the job first where there are several.

        Raises
        ------
        ImportError
            pandas is missing.
        """
        from .analysis.frames import of_ranks

        return of_ranks(self)

    @property
    def sources(self) -> dict[str, Seconds]:
        """Seconds of ops by where their time comes from, largest first."""
        found = {text: float(seconds(t, self.tick)) for text, t in self.kept.sources.items()}
        return dict(sorted(found.items(), key=lambda item: -item[1]))
