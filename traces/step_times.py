"""Step times of several process starts, measured without a profiler.

A trace shows one process start, slowed by the profiler. Starts of one program on one machine differ
more than the steps of one start do (memory layout, other load). So the step time and its variation
come from untraced steps of several starts. `trace capture` writes their times next to every trace,
and they are read from there.
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
    steps : for each start, times of its untraced steps in s, shape (n,); mean over its ranks
    traced : for each start that has traced steps, their times in s, shape (n,); mean over its ranks
    files : files that they were read from, by folder and name

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
        """Median step time of each start in s, shape (starts,)."""
        return np.array([np.median(s) for s in self.steps])

    @property
    def typical(self) -> Seconds:
        """Geometric mean over starts of the median step times, in s."""
        return float(np.exp(np.log(self.medians).mean()))

    def cycle_means(self, steps: int) -> StepTimes:
        """Mean step time of each complete cycle of `steps` steps, if steps alternate.

        The median of alternating steps would show only one kind of step.

        >>> StepTimes((np.array([35.0, 69.0, 36.0, 70.0, 35.0]),)).cycle_means(2).steps[0].tolist()
        [52.0, 53.0]
        """
        whole = (s[: len(s) // steps * steps].reshape(-1, steps).mean(1) for s in self.steps)
        return replace(self, steps=tuple(s for s in whole if len(s)))

    def without_starts(self, *left_out: int) -> StepTimes:
        """Copy of the step times without some starts, given by index."""
        kept = tuple(s for k, s in enumerate(self.steps) if k not in left_out)
        return replace(self, steps=kept)


def read(folders: Iterable[Path]) -> StepTimes:
    """Read step times from folders that ``trace capture`` wrote, or from a table of several starts.

    Raises
    ------
    TraceError
        There is no table of step times, it lacks columns, or it has no untraced step.
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
    """Tables of step times that belong to a trace: in its folder, or next to its files; [] if none.

    ``rank0.steps.csv`` belongs to ``rank0.json.gz``, ``steps.csv`` to all files of its folder.
    """
    found: list[Path] = []
    for path in trace:
        stem = path.name.split(".")[0]
        own = [path.with_name(f"{stem}.{TABLE}"), path.with_name(TABLE)]
        found += _tables_in(path) if path.is_dir() else [t for t in own if t.is_file()][:1]
    return list(dict.fromkeys(found))


def read_next_to(trace: Sequence[Path]) -> StepTimes | None:
    """Read the step times next to a trace; None if there is no table or it has no untraced steps.

    Raises
    ------
    TraceError
        A table cannot be read.
    """
    times = _read_tables(tables_next_to(trace))
    return times if times.steps else None


def _tables_in(folder: Path) -> list[Path]:
    table = folder / TABLE
    return [table] if table.is_file() else sorted(folder.glob(TABLES))


def _read_tables(tables: Sequence[Path]) -> StepTimes:
    """Read step times from tables; if a table names no starts, its folder counts as one start."""
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
    """Yield (start, rank, phase, duration in s) of every step in a table."""
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
    """Time of each step in s, mean over ranks, shape (n,), for the steps that all ranks have."""
    n = min(map(len, ranks.values()))
    return np.asarray(np.mean([times[:n] for times in ranks.values()], axis=0))


def stretch_factor(graph: Graph, starts: StepTimes) -> float:
    """Factor by which recorded times are multiplied so that steps take as long as untraced ones.

    It is the typical untraced step time over the median recorded one.

    Raises
    ------
    TraceError
        The steps of the trace are not marked, or there are too few untraced steps.
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
    """Refuse a table of step times whose traced steps differ from those of the trace.

    A table without traced steps cannot be checked and is accepted.

    Raises
    ------
    TraceError
        The table belongs to another recording, or the steps of the trace are not marked.
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
    """Summary of the untraced steps next to a trace, as plain data; {} if there is no table.

    Keys: ``files``; ``process_starts``, ``typical`` (s) and ``times_multiplied_by`` if there are
    untraced steps; ``problem`` if they cannot be used.
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
    """Median recorded step time of a trace in s, as a mean over its ranks.

    If step times alternate in cycles of several steps, it is the median of the mean over each
    cycle.
    """
    if not _has_marked_steps(graph):
        raise TraceError(
            f"{graph.name}: its steps are not marked, so their times are unknown; call "
            "profiler.step() after each step"
        )
    times: Any = graph.facts["step_times"]
    (median,) = StepTimes((np.mean(times, axis=0),)).cycle_means(_steps_of_cycle(graph)).medians
    return float(median)


def with_untraced_times(graph: Graph, starts: StepTimes) -> Graph:
    """Copy of a trace's graph with all times multiplied by `stretch_factor`.

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
    """Copy of a trace's graph with the profiler's overhead removed from all times.

    Parameters
    ----------
    overhead : overhead of the profiler, as a fraction of the times without it

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
    """Copy of a graph with all times multiplied by `by`; the factor is recorded in its facts."""
    block = graph.explicit
    stretched = replace(
        block,
        ops=block.ops.replace(duration=block.ops.duration * by),
        release=block.release * by,
    )
    facts = {**graph.facts, "times_multiplied_by": round(by, 4), **told}
    return replace(graph, blocks=(stretched,), facts=facts)
