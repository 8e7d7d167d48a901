"""Step times of several process starts, measured without a profiler.

A trace shows one process start, slowed by the profiler.  Starts of the same program on the same
machine differ by more than the steps of one do (where memory lands, who the neighbours are), so
what a step takes, and how much that varies, is read from steps that nobody traced, of several
starts.  `trace capture` leaves their times beside every trace.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..sim.errors import TraceError
from ..sim.graph import Graph
from ..sim.units import Seconds

UNTRACED = "untraced"
TABLE, TABLES = "steps.csv", "rank*.steps.csv"


@dataclass(frozen=True)
class StepTimes:
    """Step times of several process starts.

    Parameters
    ----------
    steps : for each start, (n,) s of its untraced steps, mean over its ranks

    Examples
    --------
    >>> starts = StepTimes((np.array([0.9, 1.0, 1.2]), np.array([4.0])))
    >>> starts.medians.tolist(), starts.typical
    ([1.0, 4.0], 2.0)
    """

    steps: tuple[NDArray[np.float64], ...]

    @property
    def medians(self) -> NDArray[np.float64]:
        """(starts,) s: median step time of each."""
        return np.array([np.median(s) for s in self.steps])

    @property
    def typical(self) -> Seconds:
        """Geometric mean of the medians, s."""
        return float(np.exp(np.log(self.medians).mean()))

    def turns(self, steps: int) -> StepTimes:
        """Mean step times of whole turns, where steps alternate: a median would be one mode's.

        >>> StepTimes((np.array([35.0, 69.0, 36.0, 70.0, 35.0]),)).turns(2).steps[0].tolist()
        [52.0, 53.0]
        """
        whole = (s[: len(s) // steps * steps].reshape(-1, steps).mean(1) for s in self.steps)
        return StepTimes(tuple(whole))

    def without(self, *left_out: int) -> StepTimes:
        """Step times without those of some starts, given by position."""
        return StepTimes(tuple(s for k, s in enumerate(self.steps) if k not in left_out))


def read(folders: Iterable[Path]) -> StepTimes:
    """Read the step times of folders that ``trace capture`` wrote, or of a table of several starts.

    Raises
    ------
    TraceError
        No table of step times, one that lacks columns, or no untraced step in it.
    """
    times: dict[str, dict[int, list[float]]] = {}
    for folder in folders:
        for start, rank, phase, seconds in _recorded_steps(folder):
            if phase == UNTRACED:
                times.setdefault(start, {}).setdefault(rank, []).append(seconds)
        if not times:
            raise TraceError(f"{folder}: has no untraced steps; capture some (--untraced 10)")
    return StepTimes(tuple(_mean_over_ranks(ranks) for ranks in times.values()))


def _recorded_steps(folder: Path) -> Iterator[tuple[str, int, str, Seconds]]:
    """(start, rank, phase, duration) of every step in a folder."""
    table = folder / TABLE
    files = [table] if table.is_file() else sorted(folder.glob(TABLES))
    if not files:
        raise TraceError(
            f"{folder}: has no {TABLE} or {TABLES}; name folders that 'trace capture' wrote"
        )
    for file in files:
        rank = file.name.removeprefix("rank").split(".")[0]
        try:
            for row in csv.DictReader(file.read_text(encoding="ascii").splitlines()):
                seconds = int(row["duration_ns"]) * 1e-9
                if seconds <= 0:
                    raise ValueError(f"a step of {seconds:g} s")
                number = int(row["rank"] if file == table else rank)
                yield row.get("start", str(folder)), number, row["phase"], seconds
        except (OSError, KeyError, ValueError, TypeError, OverflowError, csv.Error) as error:
            raise TraceError(
                f"{file}: is no table of steps ({error!r}); name folders that 'trace capture' wrote"
            ) from error


def _mean_over_ranks(ranks: dict[int, list[float]]) -> NDArray[np.float64]:
    """(n,) s: each step, the mean of those ranks that have it."""
    n = min(map(len, ranks.values()))
    return np.asarray(np.mean([times[:n] for times in ranks.values()], axis=0))


def stretch_factor(graph: Graph, starts: StepTimes) -> float:
    """Factor that makes the median recorded step as long as a typical untraced one.

    Raises
    ------
    TraceError
        The steps of the trace are not marked.
    """
    if graph.facts.get("steps", (0,)) == (0,):
        raise TraceError(f"{graph.name}: its steps are not marked; their times compare with none")
    times: Any = graph.facts["step_times"]
    turn: Any = graph.facts.get("steps_per_iteration", 1)
    (traced,) = StepTimes((np.mean(times, axis=0),)).turns(turn).medians
    return starts.turns(turn).typical / float(traced)


def with_untraced_times(graph: Graph, starts: StepTimes) -> Graph:
    """A trace's graph with all times multiplied by `stretch_factor`, as in an untraced step.

    Raises
    ------
    TraceError
        The steps of the trace are not marked.
    """
    by = stretch_factor(graph, starts)
    block = graph.explicit
    stretched = replace(
        block,
        ops=block.ops.replace(duration=block.ops.duration * by),
        release=block.release * by,
    )
    facts = {
        **graph.facts,
        "times_multiplied_by": round(by, 4),
        "process_starts": len(starts.steps),
    }
    return replace(graph, blocks=(stretched,), facts=facts)
