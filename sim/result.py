"""The schedule that came out, immutable, with what people ask of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .bind import Answers
from .graph import Graph
from .machine import NEVER, Columns, Lowered, Parts, State
from .ops import Ops
from .system import System
from .units import Seconds, seconds

if TYPE_CHECKING:
    import pandas as pd

    from .blame import Blame, Charge


@dataclass(frozen=True)
class Run:
    """One graph of a run: as placed, as timed, as lowered; its row r has the id ``first + r``."""

    graph: Graph
    answers: Answers
    lowered: Lowered
    first: int


@dataclass(frozen=True)
class Result:
    """What happened, to the tick.

    Parameters
    ----------
    system : System
    runs : tuple of Run
        Every graph that was submitted, in order.
    columns : Columns
        Ready, start, end, state and attempts of every op, in ticks.
    parts : Parts
    tick : Seconds
    engine : str
    seed : int
    replica : int or None
    metrics : tuple of (name, time in s, value)
        What processes emitted.
    rate_log : tuple of (tick, component, rate)
        What processes set.
    """

    system: System
    runs: tuple[Run, ...]
    columns: Columns
    parts: Parts
    tick: Seconds
    engine: str
    seed: int
    replica: int | None = None
    metrics: tuple[tuple[str, float, float], ...] = ()
    rate_log: tuple[tuple[int, int, int], ...] = ()

    def __repr__(self) -> str:
        return f"<Result {len(self.ops)} ops, makespan {self.makespan:.6g} s, {self.engine}>"

    @cached_property
    def ops(self) -> Ops:
        """Every op, in the order of ids."""
        tables = [r.graph.ops for r in self.runs]
        return Ops.concat(tables) if len(tables) != 1 else tables[0]

    @cached_property
    def component(self) -> NDArray[np.int32]:
        """(n,) The component that was asked about each op; -1 for nobody."""
        return _concat([r.answers.component for r in self.runs], np.int32)

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

    @cached_property
    def makespan_ticks(self) -> int:
        """Last end minus first release, in ticks."""
        last = int(self.columns.end.max(initial=0))
        return max(last - self.first_release, 0)

    @cached_property
    def first_release(self) -> int:
        """Tick at which the first graph may begin."""
        if not self.runs or not len(self.runs[0].lowered):
            return 0
        release = self.runs[0].lowered.release
        return int(release.min(initial=0)) if len(release) else 0

    @property
    def makespan(self) -> Seconds:
        """Last end minus first release, s."""
        return float(seconds(self.makespan_ticks, self.tick))

    @cached_property
    def iterations(self) -> NDArray[np.float64]:
        """(k,) s: wall time of each optimizer step, in order.

        A step lasts from the end of the one before it (the first: from its own first start) to
        the last end of its ops on any rank.
        """
        from .metrics import step_edges

        return seconds(np.diff(step_edges(self)), self.tick)

    @property
    def iteration_time(self) -> Seconds:
        """Median wall time of one optimizer step, s."""
        return float(np.median(self.iterations))

    @cached_property
    def busy(self) -> dict[str, Seconds]:
        """Seconds of work that each component did: of all its slots together, or at full rate.

        Names of idle components are left out.
        """
        found: dict[str, float] = {}
        took = self.columns.end - self.columns.start
        ended = self.columns.state == State.ENDED
        for run in self.runs:
            at = slice(run.first, run.first + len(run.lowered))
            self._busy_slots(run, np.where(ended, took, 0)[at], found)
            self._busy_rates(run, ended[at], found)
        return {k: v for k, v in found.items() if v}

    def _busy_slots(self, run: Run, took: NDArray[np.int64], found: dict[str, float]) -> None:
        place = np.flatnonzero(run.lowered.slot >= 0)
        op = run.graph.explicit.op_of_place[place]
        total = np.bincount(run.lowered.slot[place], took[op].astype(np.float64), len(self.parts))
        for c in np.flatnonzero(total).tolist():
            name = self.parts.names[c]
            found[name] = found.get(name, 0.0) + float(seconds(total[c], self.tick))

    def _busy_rates(self, run: Run, ended: NDArray[np.bool_], found: dict[str, float]) -> None:
        timing = run.answers.timing
        if timing.usage is None or timing.work is None:
            return
        row = np.repeat(np.arange(len(timing)), np.diff(timing.usage.indptr))
        moved = np.where(ended, timing.work, 0.0)[row] * timing.usage.weight
        total = np.bincount(timing.usage.component, moved, len(self.parts))
        for c in np.flatnonzero(total).tolist():
            part = self.system.components[c]
            if part.rate:
                found[part.name] = found.get(part.name, 0.0) + float(total[c]) / part.rate

    def utilization(self) -> dict[str, float]:
        """Busy time / wall time of each component that did anything (slots: mean over slots)."""
        wall = self.makespan or 1.0
        return {
            name: busy / (wall * (self.system[name].slots or 1))
            for name, busy in sorted(self.busy.items())
        }

    def blame(self) -> Blame:
        """Every tick of the critical path, charged; see :mod:`~foretrace.sim.blame`."""
        from .blame import blame

        return blame(self)

    def critical_path(self) -> list[Charge]:
        """The chain of ops and waits that made the run as long as it was, first to last."""
        return list(self.blame().path)

    def frame(self) -> pd.DataFrame:
        """A row an op: name, kind, rank, stream, iteration, component, ready/start/end in µs.

        Raises
        ------
        ImportError
            pandas is missing.
        """
        import pandas as pd

        names = np.array([*self.parts.names, ""], object)
        labels = [run.graph.label(i).name for run in self.runs for i in range(len(run.graph))]
        ops = self.ops
        return pd.DataFrame(
            {
                "name": labels,
                "kind": ops.kind_names,
                "rank": ops.rank,
                "stream": ops.stream,
                "iteration": ops.iteration,
                "component": names[self.component],
                "ready_us": self.ready * 1e6,
                "start_us": self.start * 1e6,
                "end_us": self.end * 1e6,
                "state": [State(s).name.lower() for s in self.columns.state.tolist()],
            }
        )

    @property
    def sources(self) -> dict[str, Seconds]:
        """Seconds of ops by where their time comes from, largest first."""
        found: dict[str, float] = {}
        took = np.nan_to_num(self.end - self.start)
        for run in self.runs:
            at = slice(run.first, run.first + len(run.lowered))
            total = np.bincount(run.answers.source, took[at], len(run.answers.sources))
            for text, t in zip(run.answers.sources, total.tolist(), strict=True):
                found[text] = found.get(text, 0.0) + t
        return dict(sorted(found.items(), key=lambda item: -item[1]))


def _concat(parts: list[NDArray[np.int32]], dtype: type) -> NDArray[np.int32]:
    return np.concatenate([np.empty(0, dtype), *parts]).astype(dtype)
