"""Step times of several process starts, measured without a profiler.

A trace shows one process start, slowed by the profiler.  Starts of the same program on the same
machine differ by more than the steps of one do (where memory lands, who the neighbours are), so
what a step takes, and how much that varies, is read from steps that nobody traced, of several
starts.  `trace capture` leaves their times beside every trace, and there they are looked for.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..sim.errors import TraceError
from ..sim.facts.graph import Graph
from ..sim.units import Seconds

UNTRACED, TRACED = "untraced", "traced"
TABLE, TABLES = "steps.csv", "rank*.steps.csv"
KNOWN_STARTS, OVERHEAD = "process_starts", "profiler_overhead"
"""Facts of a graph whose times are those without a profiler: by measured steps, or as was said."""
ALIKE = 0.1  # by which traced steps may differ from the trace's; bundled ones do by 0.002


@dataclass(frozen=True)
class StepTimes:
    """Step times of several process starts.

    Parameters
    ----------
    steps : for each start, (n,) s of its untraced steps, mean over its ranks
    traced : for each start with any, (n,) s of its traced steps, mean over its ranks
    files : that they were read from, by folder and name

    Examples
    --------
    >>> starts = StepTimes((np.array([0.9, 1.0, 1.2]), np.array([4.0])))
    >>> starts.medians.tolist(), starts.typical
    ([1.0, 4.0], 2.0)
    """

    steps: tuple[NDArray[np.float64], ...]
    traced: tuple[NDArray[np.float64], ...] = ()
    files: tuple[str, ...] = ()

    @property
    def medians(self) -> NDArray[np.float64]:
        """(starts,) s: median step time of each."""
        return np.array([np.median(s) for s in self.steps])

    @property
    def typical(self) -> Seconds:
        """Geometric mean of the medians, s."""
        return float(np.exp(np.log(self.medians).mean()))

    def cycle_means(self, steps: int) -> StepTimes:
        """Mean step times of whole turns, where steps alternate: a median would be one mode's.

        >>> StepTimes((np.array([35.0, 69.0, 36.0, 70.0, 35.0]),)).cycle_means(2).steps[0].tolist()
        [52.0, 53.0]
        """
        whole = (s[: len(s) // steps * steps].reshape(-1, steps).mean(1) for s in self.steps)
        return replace(self, steps=tuple(s for s in whole if len(s)))

    def without_starts(self, *left_out: int) -> StepTimes:
        """Step times without those of some starts, given by position."""
        kept = tuple(s for k, s in enumerate(self.steps) if k not in left_out)
        return replace(self, steps=kept)


def read(folders: Iterable[Path]) -> StepTimes:
    """Read the step times of folders that ``trace capture`` wrote, or of a table of several starts.

    Raises
    ------
    TraceError
        No table of step times, one that lacks columns, or no untraced step in it.
    """
    tables: list[Path] = []
    for folder in folders:
        found = _tables_in(folder)
        if not found:
            raise TraceError(
                f"{folder}: has no {TABLE} or {TABLES}; name folders that 'trace capture' wrote"
            )
        tables += found
    times = _read_tables(tables)
    if not times.steps:
        where = ", ".join(str(folder) for folder in dict.fromkeys(t.parent for t in tables))
        raise TraceError(f"{where}: has no untraced steps; capture some (--untraced 10)")
    return times


def tables_next_to(trace: Sequence[Path]) -> list[Path]:
    """Tables of step times beside a trace: in its folder, or of each of its files; [] for none.

    ``rank0.steps.csv`` is that of ``rank0.json.gz``; ``steps.csv`` that of all files of a folder.
    """
    found: list[Path] = []
    for path in trace:
        stem = path.name.split(".")[0]
        own = [path.with_name(f"{stem}.{TABLE}"), path.with_name(TABLE)]
        found += _tables_in(path) if path.is_dir() else [t for t in own if t.is_file()][:1]
    return list(dict.fromkeys(found))


def read_next_to(trace: Sequence[Path]) -> StepTimes | None:
    """Step times that lie beside a trace; None without a table, or without untraced steps in it.

    Raises
    ------
    TraceError
        A table that cannot be read.
    """
    times = _read_tables(tables_next_to(trace))
    return times if times.steps else None


def _tables_in(folder: Path) -> list[Path]:
    table = folder / TABLE
    return [table] if table.is_file() else sorted(folder.glob(TABLES))


def _read_tables(tables: Sequence[Path]) -> StepTimes:
    """Step times of tables; a start that a table does not name is that of its folder."""
    found: dict[str, dict[str, dict[int, list[float]]]] = {UNTRACED: {}, TRACED: {}}
    for table in tables:
        for start, rank, phase, seconds in _recorded_steps(table):
            if phase in found:
                found[phase].setdefault(start, {}).setdefault(rank, []).append(seconds)
    untraced, traced = (
        tuple(_mean_over_ranks(ranks) for ranks in found[phase].values())
        for phase in (UNTRACED, TRACED)
    )
    return StepTimes(untraced, traced, tuple(f"{t.parent.name}/{t.name}" for t in tables))


def _recorded_steps(file: Path) -> Iterator[tuple[str, int, str, Seconds]]:
    """(start, rank, phase, duration) of every step in a table."""
    rank = file.name.removeprefix("rank").split(".")[0]
    try:
        for row in csv.DictReader(file.read_text(encoding="ascii").splitlines()):
            seconds = int(row["duration_ns"]) * 1e-9
            if seconds <= 0:
                raise ValueError(f"a step of {seconds:g} s")
            number = int(row["rank"] if file.name == TABLE else rank)
            yield row.get("start", str(file.parent)), number, row["phase"], seconds
    except (OSError, KeyError, ValueError, TypeError, OverflowError, csv.Error) as error:
        raise TraceError(
            f"{file}: is not a table of steps ({error!r}); use the one that 'trace capture' wrote, "
            "or move it away"
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
        The steps of the trace are not marked, or too few steps are untraced.
    """
    turn = _steps_of_cycle(graph)
    whole = starts.cycle_means(turn)
    if not whole.steps:
        raise TraceError(
            f"{', '.join(starts.files)}: has too few untraced steps: they alternate in "
            f"cycles of {turn}; capture more (--untraced 10)"
        )
    return whole.typical / _recorded_median(graph)


def require_same_recording(graph: Graph, beside: StepTimes) -> None:
    """Refuse a table beside a trace whose traced steps are, of no start, those of the trace.

    A table without traced steps says nothing of it.

    Raises
    ------
    TraceError
        It is the table of another recording, or the steps of the trace are not marked.
    """
    files = ", ".join(beside.files)
    if not _has_marked_steps(graph):
        raise TraceError(
            f"{files}: is next to {graph.name}, whose steps are not marked, so its times "
            "cannot be compared; move it away"
        )
    traced = replace(beside, steps=beside.traced).cycle_means(_steps_of_cycle(graph)).medians
    recorded = _recorded_median(graph)
    off = np.abs(traced / recorded - 1)
    if len(traced) and off.min() > ALIKE:
        nearest = traced[off.argmin()]
        raise TraceError(
            f"{files}: belongs to another recording than {graph.name}: its traced steps take "
            f"{nearest * 1e3:.4g} ms, those of the trace {recorded * 1e3:.4g} ms; move it away, or "
            "name the right one (workload.starts)"
        )


def untraced_steps_summary(trace: Sequence[Path], graph: Graph | None) -> dict[str, Any]:
    """What is known of untraced steps beside a trace, as plain data; {} without a table.

    ``files``; with untraced steps in them ``process_starts``, ``typical`` (s), and
    ``times_multiplied_by`` in a run; where they cannot be used, ``problem``.
    """
    tables = tables_next_to(trace)
    if not tables:
        return {}
    told: dict[str, Any] = {"files": [f"{t.parent.name}/{t.name}" for t in tables]}
    try:
        times = read_next_to(trace)
        if times is None:
            return told | {"problem": "no step in it is untraced"}
        told |= {"process_starts": len(times.steps), "typical": times.typical}
        if graph is not None:
            require_same_recording(graph, times)
            told["times_multiplied_by"] = round(stretch_factor(graph, times), 4)
    except TraceError as error:
        return told | {"problem": str(error)}
    return told


def _has_marked_steps(graph: Graph) -> bool:
    return graph.facts.get("steps", (0,)) != (0,) and bool(graph.facts.get("step_times"))


def _steps_of_cycle(graph: Graph) -> int:
    turn: Any = graph.facts.get("steps_per_iteration", 1)
    return int(turn)


def _recorded_median(graph: Graph) -> Seconds:
    """Median recorded step of a trace, mean over its ranks; where steps alternate, of a turn."""
    if not _has_marked_steps(graph):
        raise TraceError(
            f"{graph.name}: its steps are not marked, so their times cannot be compared"
        )
    times: Any = graph.facts["step_times"]
    (median,) = StepTimes((np.mean(times, axis=0),)).cycle_means(_steps_of_cycle(graph)).medians
    return float(median)


def with_untraced_times(graph: Graph, starts: StepTimes) -> Graph:
    """A trace's graph with all times multiplied by `stretch_factor`, as in an untraced step.

    Raises
    ------
    TraceError
        The steps of the trace are not marked.
    """
    told: dict[str, object] = {KNOWN_STARTS: len(starts.steps)}
    if starts.files:
        told["untraced_steps"] = ", ".join(starts.files)
    return _with_times(graph, stretch_factor(graph, starts), told)


def without_overhead(graph: Graph, overhead: float) -> Graph:
    """A trace's graph with all times as they were without a profiler that added so much.

    Parameters
    ----------
    overhead : what it added, over times without it

    Examples
    --------
    >>> from ..sim.facts.graph import Builder
    >>> from ..sim.facts.ops import Kind
    >>> build = Builder("profiled")
    >>> _ = build.op(Kind.COMPUTE, duration=1.1)
    >>> without_overhead(build.graph(), 0.1).ops.duration.round(9).tolist()
    [1.0]
    """
    return _with_times(graph, 1 / (1 + overhead), {OVERHEAD: overhead})


def _with_times(graph: Graph, by: float, told: dict[str, object]) -> Graph:
    """Graph with all times multiplied, which its facts say."""
    block = graph.explicit
    stretched = replace(
        block,
        ops=block.ops.replace(duration=block.ops.duration * by),
        release=block.release * by,
    )
    facts = {**graph.facts, "times_multiplied_by": round(by, 4), **told}
    return replace(graph, blocks=(stretched,), facts=facts)
