"""Result of a run, with analyses as methods."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..analysis.blame import Blame, Charge, blame
from ..analysis.frames import op_frame, rank_period_frame
from ..analysis.holdings import seconds_held_by_processes
from ..analysis.metrics import component_busy_spans, may_ops_overlap
from ..analysis.notebook import html_table
from ..analysis.op_sums import stored_or_summed_aggregates
from ..analysis.periods import period_edges
from ..analysis.row_aggregates import aggregates_of_op_rows
from ..engine_api.store_control import StoreHistory
from ..errors import ForetraceError
from ..facts.ops import Kind
from ..facts.system import UNCOUNTED
from ..record.aggregates import RunAggregates
from ..record.run_record import RunRecord
from ..record.time_series import TimeSeries
from ..units import Seconds, seconds, ticks_per_second
from .row_window import require_same_run

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger(__name__)


class Difference(NamedTuple):
    """One metric of two results: this value, the other value, and the relative change."""

    this: float
    other: float
    change: float


class QueueUse(NamedTuple):
    """Ops that found a bounded queue full, and those of them that were dropped.

    Parameters
    ----------
    full : number of ops that found it full; None for one of several jobs
    dropped : number of them that were dropped
    """

    full: int | None
    dropped: int


@dataclass(frozen=True, repr=False)
class Result(RunRecord):
    """Result of a run: its record, with analyses (blame, utilization, frames) as methods.

    Times are available at any level of detail. Methods that need one row per op say so; they use
    :attr:`detail`.
    """

    def __repr__(self) -> str:
        return f"<Result {self.count} ops, makespan {self.makespan:.6g} s, {self.engine}>"

    def _repr_html_(self) -> str:
        """HTML table for notebooks: main numbers, and the largest charges of the critical path."""
        # Displaying a result repeats no run: charges are shown only if rows were kept.
        blamed = {} if self.written is None else self.blame().seconds
        charged = sorted(blamed.items(), key=lambda c: -c[1])[:5]
        rows = [
            ("makespan", f"{self.makespan:.6g} s"),
            *(("period, p50", f"{t:.6g} s") for t in [self.period_time] if t == t),
            ("ops", f"{self.count:,}"),
            ("engine", self.engine),
            *((f"critical path: {who}", f"{t:.6g} s") for who, t in charged),
        ]
        return html_table(repr(self), rows)

    def without_rows(self, keep: str, repeat_run: Callable[[], Result] | str) -> Result:
        """Result with aggregates instead of one row per op, for each job.

        Parameters
        ----------
        repeat_run : function that repeats the run and keeps one row per op, or the reason why it
            cannot
        """
        several = self.jobs if len(self.jobs) > 1 else ()
        by_job = tuple(self.of(name).without_rows(keep, repeat_run) for name in several)
        summary = aggregates_of_op_rows(self, keep)
        return replace(
            self, written=None, summary=summary, repeat_run=repeat_run, by_job=by_job, whole=None
        )

    @cached_property
    def detail(self) -> Result:
        """Result with one row per op; if rows were not kept, the run is repeated, with a log line.

        A run that processes steered is repeated with the same seed; it must give the same result.

        Identical ranks of an SPMD graph stay folded: one rank represents each class, under its own
        number.

        Raises
        ------
        NotKeptError
            The run cannot be repeated.
        """
        if self.written is not None:
            return self
        if self.whole is not None:
            return self.whole.detail.of(self.jobs[0])
        if isinstance(self.repeat_run, str):
            raise self._not_kept_error(f"the run cannot be repeated: {self.repeat_run}")
        log.info("rows of ops were not kept (keep=%r): running again for them", self.keep)
        found = self.repeat_run()
        if found.copies is None:
            require_same_run(self, found)
        return found

    def window(self, first: Seconds, last: Seconds) -> Result:
        """Result with one row per op between two times of the run.

        If rows were kept, it is this result. If not, and processes steered the run, it is repeated
        up to ``last`` s. Its attribute ``span`` gives the ticks that its rows cover: of a window
        with too many ops the end. Analyses of it, such as :meth:`blame`, concern that span only.

        Raises
        ------
        NotKeptError
            The run cannot be repeated, or the repeated run is another run.
        """
        if self.written is not None:
            return self
        if self.whole is not None:
            return self.whole.window(first, last).of(self.jobs[0])
        if isinstance(self.repeat_window, str):
            raise self._not_kept_error(f"the run cannot be repeated: {self.repeat_window}")
        per_second = ticks_per_second(self.tick)
        found = self.repeat_window(round(first * per_second), round(last * per_second))
        require_same_run(self, found)
        return found

    @cached_property
    def kept(self) -> RunAggregates:
        """Aggregates by rank, period, component and kind of op, at any level of detail."""
        return stored_or_summed_aggregates(self)

    @property
    def stores(self) -> dict[str, StoreHistory]:
        """Hits, misses, evictions and amounts over time of each store that was used, by name."""
        return {self.parts.names[c]: history for c, history in self.stored.items()}

    @property
    def metrics(self) -> tuple[tuple[str, float, float], ...]:
        """Metric values that processes emitted: (name, time in s, value), in order of time.

        A run keeps 1,048,576 values. With more, the metric with most values has only its
        distribution, in ``emitted.samples``.
        """
        return tuple(self.emitted)

    @property
    def series(self) -> dict[str, TimeSeries]:
        """Time series that processes recorded, by name; of several jobs by ``job.name``."""
        several = len(self.jobs) > 1
        return {
            f"{self.jobs[job]}.{name}" if several else name: one
            for (job, name), one in self.recorded.items()
        }

    @cached_property
    def periods(self) -> NDArray[np.float64]:
        """Wall time of each period in s, in order, shape (k,); (0,) without periods.

        A period lasts from the end of the previous one to the last end of its ops on any rank. The
        first begins at its first start, or at the end of earlier ops without a period that overlap
        with it.
        """
        edges = period_edges(self)
        return seconds(np.diff(edges) if edges is not None else np.empty(0, np.int64), self.tick)

    @property
    def period_time(self) -> Seconds:
        """Median wall time of a period, in s; NaN without periods."""
        return float(np.median(self.periods)) if len(self.periods) else float("nan")

    @cached_property
    def busy_by_kind(self) -> dict[tuple[str, str], Seconds]:
        """Busy time in s by (component, kind of op): slots, work at full rate, or capacity held.

        Amounts that processes hold are not included.
        """
        found: dict[tuple[str, str], float] = {}
        whole = seconds(self.kept.busy, self.tick) + self.kept.work_seconds
        for c, kind in np.argwhere(whole).tolist():
            found[self.parts.names[c], Kind(kind).name.lower()] = float(whole[c, kind])
        return found

    @cached_property
    def busy(self) -> dict[str, Seconds]:
        """Busy time of each component, in s: sum over its slots, or its work at full rate.

        For a capacity, it is the time for which holding all of it would give the same amount x
        time. A moved op counts where it ran last. Idle components are left out.
        """
        whole = self._busy_seconds
        return {self.parts.names[c]: float(whole[c]) for c in np.flatnonzero(whole).tolist()}

    @cached_property
    def _busy_seconds(self) -> NDArray[np.float64]:
        """Busy time of each component, in s, shape (components,)."""
        held = seconds(self.kept.busy.sum(axis=1), self.tick)
        worked = self.kept.work_seconds.sum(axis=1)
        return np.asarray(held + worked + seconds_held_by_processes(self))

    def utilization(self) -> dict[str, float]:
        """Fraction of wall time in which each component works; idle components are left out.

        A GPU works while a kernel runs on any of its streams, communication kernels included; it is
        left out if the run kept too little detail. For a host it is busy cores over all cores
        (left out if their number is unknown), for other components the mean use.
        """
        wall, apart = self.makespan or 1.0, may_ops_overlap(self)
        slots = self.system.components.column(lambda part: part.slots or 1, np.int64)
        share, names = self._busy_seconds / (wall * slots), self.parts.names
        told = np.flatnonzero((self._busy_seconds != 0) & (slots != UNCOUNTED) & ~apart)
        found = {names[c]: float(share[c]) for c in told.tolist()}
        return dict(sorted((found | self._overlapping(apart, wall)).items()))

    def _overlapping(self, chosen: NDArray[np.bool_], wall: Seconds) -> dict[str, float]:
        """Fraction of wall time in which at least one slot of each chosen component is in use."""
        names = self.parts.names
        if self.written is None:
            windows = self.aggregates.windows
            mean = np.zeros(len(names)) if windows is None else windows.mean(axis=1)
            return {names[c]: float(mean[c]) for c in np.flatnonzero(chosen & (mean > 0)).tolist()}
        component, start, end = component_busy_spans(self, chosen)
        ticks = np.zeros(len(names), np.int64)
        np.add.at(ticks, component, end - start)
        took = seconds(ticks, self.tick)
        return {names[c]: float(took[c]) / wall for c in np.flatnonzero(took).tolist()}

    def queues(self) -> dict[str, QueueUse]:
        """Bounded queues that turned ops away: how many found each full, and were dropped.

        Ops count at the component to which they were sent first. How many found a queue full is
        known of the whole run only.
        """
        names, dropped, full = self.parts.names, self.kept.dropped, self.found_full
        if dropped is None:
            return {}
        if self.whole is not None or not len(full):
            return {
                names[c]: QueueUse(None, int(dropped[c])) for c in np.flatnonzero(dropped).tolist()
            }
        return {
            names[c]: QueueUse(int(full[c]), int(dropped[c])) for c in np.flatnonzero(full).tolist()
        }

    @property
    def plot(self) -> Any:
        """Figures by matplotlib: ``result.plot.timeline()``, ``.blame()``, ``.use()`` and others.

        Raises
        ------
        ForetraceError
            The installation registers no plots.
        """
        from importlib.metadata import entry_points

        for point in entry_points(group="foretrace.plots", name="result"):
            return point.load()(self)
        raise ForetraceError("plot: the installation registers no plots; install foretrace again")

    def compare(self, other: Result) -> dict[str, Difference]:
        """Differences to another result in makespan, period time and busy times.

        Equal numbers are left out.

        It works at any level of detail of both results.
        """
        mine, others = self._numbers_by_name(), other._numbers_by_name()
        found = {}
        for name in dict.fromkeys((*mine, *others)):
            a, b = mine.get(name, 0.0), others.get(name, 0.0)
            if a != b:
                found[name] = Difference(a, b, b / a - 1 if a else np.inf)
        return found

    def _numbers_by_name(self) -> dict[str, float]:
        """Makespan, period time and busy times in s, by name."""
        found = {"makespan": self.makespan}
        if len(self.periods):
            found["period_time"] = self.period_time
        return found | {f"{name}.busy": t for name, t in sorted(self.busy.items())}

    def blame(self) -> Blame:
        """Critical path, with every tick charged; see :mod:`~foretrace.sim.analysis.blame`."""
        return blame(self.detail)

    def critical_path(self) -> list[Charge]:
        """Chain of ops and waits that determines the makespan, from first to last."""
        return list(self.blame().path)

    def frame(self) -> pd.DataFrame:
        """Data frame, one row per op: name, kind, rank, stream, period, component, times in µs.

        With several jobs, the first column is the job; without periods, there is no period column.

        Raises
        ------
        ImportError
            pandas is missing.
        """
        return op_frame(self.detail)

    def rank_frame(self) -> pd.DataFrame:
        """Data frame, one row per rank and period: first start, last end, exposed communication.

        Without periods there is one row per rank; with several jobs, the first column is the job.

        Raises
        ------
        ImportError
            pandas is missing.
        """
        return rank_period_frame(self)

    @property
    def sources(self) -> dict[str, Seconds]:
        """Time of ops in s by the source of their timing, largest first."""
        found = {text: float(seconds(t, self.tick)) for text, t in self.kept.sources.items()}
        return dict(sorted(found.items(), key=lambda item: -item[1]))
