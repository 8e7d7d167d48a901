"""``workload: {trace: FILE}``: replay of a recorded training step, resized on request."""

from __future__ import annotations

from collections.abc import Mapping
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from ...sim.errors import ScenarioError
from ...sim.facts.graph import Graph
from ...sim.facts.metric import Metric
from ...sim.record.distribution import sample_array
from ...sim.run.periodic import Periodic
from ...sim.run.workload import Needs, Samples, Size, workload
from ...sim.units import Ratio
from ..config.run_arguments import UsesHardware
from ..config.schema import FileName
from .iterations import ALL, Iterations, Positive
from .parallel import RecordedOn, ScaledParallelism
from .reading import PLAIN, Reading
from .resizing import Resizing
from .trace_files import (
    bundled_trace_folder,
    files_read,
    open_process_starts,
    open_trace,
    trace_format_of,
)

if TYPE_CHECKING:
    from ...sim.run.job import Job
    from ...sim.run.result import Result
    from ...traces.trace import Trace

TOKENS_PER_SECOND = Metric(
    "tokens_per_second",
    "token/s",
    "Tokens of one iteration over iteration_time, whole job.",
    better="higher",
)


@workload("trace")
class TraceWorkload(UsesHardware, Periodic):
    """Replay of a recorded trace.

    Parameters
    ----------
    trace : str
        File, glob with one file per rank, or ``foretrace:NAME`` for a bundled one.
    format : str or None
        Format of the files; recognized by default.
    recorded_on : Recorded or None
        Machine and parallelism of the recording.
    starts : str or None
        Recordings of several process starts of the same job: a glob of folders, or
        ``foretrace:NAME``. By default the step times next to the trace, if any (``steps.csv``, or
        ``rank0.steps.csv`` of ``rank0.json.gz``). Times become those of a typical untraced step,
        and replicas vary as the starts do.
    scale_to : ScaledParallelism or None
        Parallelism to resize the step to; by default as recorded.
    iterations : Iterations
        Numbers of warm-up and of counted iterations.
    missing_ranks : str
        How ranks that were not recorded are handled.
    communication : tuple of str
        Names of kernels (``my_kernel*``) that exchange data with other GPUs, in addition to those
        of the known libraries.
    reading : Reading
        How the events of the files are read: the kinds of unknown categories, and whether lost GPU
        work is accepted.
    serialise : bool
        True to accept ranks without dependencies, by running their ops in sequence, and streams
        with overlapping ops, by starting each op at the end of the one before it.
    overhead : Ratio or None
        Relative time that the profiler added to all ops (``3 %``; 0 for none), if no untraced steps
        were measured.
    tokens_per_iteration : int or None
        Tokens of the complete job as recorded; scaled with the data-parallel ranks.
    """

    metrics: tuple[Metric, ...] = (*Periodic.metrics, TOKENS_PER_SECOND)

    def __init__(
        self,
        *,
        trace: FileName,
        format: Literal["native", "kineto", "chakra"] | None = None,
        recorded_on: RecordedOn | None = None,
        starts: FileName | None = None,
        scale_to: ScaledParallelism | None = None,
        iterations: Iterations = ALL,
        missing_ranks: Literal["refuse", "like_recorded", "recorded_waits"] = "refuse",
        communication: tuple[str, ...] = (),
        serialise: bool = False,
        reading: Reading = PLAIN,
        overhead: Annotated[Ratio, Field(ge=0)] | None = None,
        tokens_per_iteration: Positive | None = None,
    ):
        self.trace, self.format, self.starts = trace, format, starts
        self.recorded_on, self.scale_to = recorded_on, scale_to
        self.missing_ranks, self.serialise, self.reading = missing_ranks, serialise, reading
        self.communication, self.overhead = tuple(communication), overhead
        self.warm_up, self.counted = iterations.warm_up, iterations.measure
        self.tokens = tokens_per_iteration

    @property
    def needs(self) -> Needs:
        """Resources that the workload needs: GPUs, and the recorded files that it reads."""
        return Needs(files=files_read(self.trace, self.starts))

    def size(self) -> Size:
        """Number of ranks, ops and periods, after scaling to the number of ranks."""
        was = _recorded_size(self)
        wanted = self.scale_to.parallel.ranks if self.scale_to else was.ranks
        return Size(wanted, round(was.ops * wanted / max(was.ranks, 1)), was.periods)

    def start(self, job: Job) -> Graph:
        """Graph of the trace, resized on request.

        Raises
        ------
        ScenarioError
            There is no such file.
        TraceError
            The trace cannot be used as requested.
        """
        key = _graph_cache_key(self)
        trace, graph = _ahead.pop(key) if key in _ahead else _open_trace(self)
        starts, by = open_process_starts(self.starts, self.trace), 1.0
        if starts is not None:
            from ...traces.step_times import (
                require_same_recording,
                stretch_factor,
                with_untraced_times,
            )

            if self.starts is None:
                require_same_recording(graph, starts)
            if self.overhead is not None:
                raise ScenarioError(
                    "workload.overhead: is also given by untraced steps "
                    f"({', '.join(starts.files)}); remove it"
                )
            by, graph = stretch_factor(graph, starts), with_untraced_times(graph, starts)
        elif self.overhead is not None:
            from ...traces.step_times import without_overhead

            by, graph = 1 / (1 + self.overhead), without_overhead(graph, self.overhead)
        if self.scale_to is None:
            return graph
        recorded = self.recorded_on.parallel if self.recorded_on else None
        settings = {
            "missing_ranks": self.missing_ranks,
            "communication": self.communication,
            "serialise": self.serialise,
            "allow_lost": self.reading.allow_lost,
        }
        return Resizing(trace, self.scale_to, recorded, self.gpu, by, settings).apply(graph)

    def measure(self, result: Result) -> Mapping[str, Samples]:
        """Time of each counted iteration, and its tokens per second if known."""
        samples = dict(super().measure(result))
        if self.tokens is not None:
            samples["tokens_per_second"] = (
                self.tokens * self._replica_growth / sample_array(samples["iteration_time"])
            )
        return samples

    @property
    def _replica_growth(self) -> float:
        """Ratio of data-parallel replicas to recorded ones."""
        if self.scale_to is None:
            return 1.0
        recorded = self.recorded_on.parallel if self.recorded_on else None
        return float(self.scale_to.parallel.data) / (recorded.data if recorded else 1)


Key = tuple[Any, ...]
Opened = tuple["Trace | None", Graph]
_ahead: dict[Key, Opened] = {}
_sizes: dict[Key, Size] = {}


def _recorded_size(workload: TraceWorkload) -> Size:
    """Size of the graph before resizing; the graph is cached for the next start."""
    key = _graph_cache_key(workload)
    if key not in _sizes:
        _ahead.clear()
        _, graph = _ahead[key] = _open_trace(workload)
        last = int(graph.ops.period.max(initial=0)) + 1
        _sizes[key] = Size(graph.ranks, len(graph), last)
    return _sizes[key]


def _graph_cache_key(workload: TraceWorkload) -> Key:
    """Cache key of a graph: its settings, and the modification times of its files."""
    name = workload.trace
    files = (
        [bundled_trace_folder(name)]
        if name.startswith("foretrace:")
        else sorted(map(Path, glob(name)))
    )
    written = tuple((str(f), f.stat().st_mtime_ns) for f in files)
    settings = (
        workload.missing_ranks,
        workload.communication,
        workload.serialise,
        workload.reading.allow_lost,
        *sorted(workload.reading.categories.items()),
    )
    return (name, workload.format, *settings, written)


def _open_trace(workload: TraceWorkload) -> Opened:
    if trace_format_of(workload.trace, workload.format) == "chakra":
        return None, _chakra_graph(workload)
    trace = workload.reading.apply(open_trace(workload.trace, workload.format))
    return trace, trace.graph(
        missing_ranks=workload.missing_ranks,
        communication=workload.communication,
        serialise=workload.serialise,
        allow_lost=workload.reading.allow_lost,
    )


def _chakra_graph(workload: TraceWorkload) -> Graph:
    """Graph of Chakra files, which have every rank and its dependencies."""
    from ...traces.formats import chakra

    for setting, value in (
        ("missing_ranks", "refuse"),
        ("communication", ()),
        ("serialise", False),
        ("reading", PLAIN),
    ):
        if getattr(workload, setting) != value:
            raise ScenarioError(
                f"workload.{setting}: does not apply to a Chakra trace, which has all ranks and "
                "dependencies; remove it"
            )
    return chakra.read(workload.trace)
