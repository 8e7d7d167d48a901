"""``workload: {trace: FILE}``: a recorded training step, replayed, resized where it is asked."""

from __future__ import annotations

from collections.abc import Mapping
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from ...sim.errors import ScenarioError
from ...sim.facts.graph import Graph
from ...sim.facts.metric import Metric
from ...sim.run.periodic import Periodic
from ...sim.run.workload import Needs, Samples, Size, workload
from ...sim.units import Ratio
from ..config.run_arguments import GpuSettings
from ..config.schema import FileName
from .iterations import ALL, Iterations, Positive
from .parallel import RecordedOn, ScaledParallelism
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

NO_GPU = GpuSettings()
TOKENS_PER_SECOND = Metric(
    "tokens_per_second",
    "token/s",
    "Tokens of one iteration over iteration_time, whole job.",
    better="higher",
)


@workload("trace")
class TraceWorkload(Periodic):
    """A recorded trace, replayed.

    Parameters
    ----------
    trace : str
        File, glob with one file per rank, or ``foretrace:NAME`` for a bundled one.
    format : str or None
        How the file is written; recognised unless said.
    recorded_on : Recorded or None
        Where it was recorded.
    starts : str or None
        Recordings of several process starts of the same: a glob of folders, or ``foretrace:NAME``;
        unless said, the step times that lie beside the trace, where there are any (``steps.csv``,
        or ``rank0.steps.csv`` of ``rank0.json.gz``).  Times become those of a typical untraced
        step, and replicas differ as the starts do.
    scale_to : ScaledParallelism or None
        What it is resized to; as recorded unless said.
    iterations : Iterations
        Which iterations count.
    missing_ranks : str
        What stands for ranks that were not recorded.
    communication : tuple of str
        Names of kernels (``my_kernel*``) that exchange data with other GPUs, beside those of the
        known libraries.
    serialise : bool
        Accept ranks without dependencies, every op after the one before it, and streams whose ops
        overlap, each op from the end of the one before it.
    overhead : Ratio or None
        What the profiler added to all times, over those without it (``3 %``; 0 for nothing), where
        no untraced steps were measured.
    tokens_per_iteration : int or None
        Of the whole job, as recorded; scales with the data-parallel ranks.
    gpu : GpuSettings
        On which gradients are copied, where a trace of one process is made data-parallel.
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
        overhead: Annotated[Ratio, Field(ge=0)] | None = None,
        tokens_per_iteration: Positive | None = None,
        gpu: GpuSettings = NO_GPU,
    ):
        self.trace, self.format, self.starts = trace, format, starts
        self.recorded_on, self.scale_to = recorded_on, scale_to
        self.missing_ranks, self.serialise = missing_ranks, serialise
        self.communication, self.overhead = tuple(communication), overhead
        self.warm_up, self.counted = iterations.warm_up, iterations.measure
        self.tokens, self.gpu = tokens_per_iteration, gpu.settings

    @property
    def needs(self) -> Needs:
        """GPUs, and the recorded files."""
        return Needs(files=files_read(self.trace, self.starts))

    def size(self) -> Size:
        """As recorded, times how many more ranks there would be."""
        was = _recorded_size(self)
        wanted = self.scale_to.parallel.ranks if self.scale_to else was.ranks
        return Size(wanted, round(was.ops * wanted / max(was.ranks, 1)), was.periods)

    def start(self, job: Job) -> Graph:
        """The graph of the trace, resized where it is asked.

        Raises
        ------
        ScenarioError
            No file of that name.
        TraceError
            The trace cannot be used for what is asked.
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
        }
        return Resizing(trace, self.scale_to, recorded, self.gpu, by, settings).apply(graph)

    def measure(self, result: Result) -> Mapping[str, Samples]:
        """The time of each iteration that counts, and its tokens a second where they are known."""
        samples = dict(super().measure(result))
        if self.tokens is not None:
            samples["tokens_per_second"] = (
                self.tokens * self._replica_growth / samples["iteration_time"]
            )
        return samples

    @property
    def _replica_growth(self) -> float:
        """Factor of data-parallel replicas over those recorded."""
        if self.scale_to is None:
            return 1.0
        recorded = self.recorded_on.parallel if self.recorded_on else None
        return float(self.scale_to.parallel.data) / (recorded.data if recorded else 1)


Key = tuple[Any, ...]
Opened = tuple["Trace | None", Graph]
_ahead: dict[Key, Opened] = {}
_sizes: dict[Key, Size] = {}


def _recorded_size(workload: TraceWorkload) -> Size:
    """Size of the graph before it is resized; the graph is kept for the next start."""
    key = _graph_cache_key(workload)
    if key not in _sizes:
        _ahead.clear()
        _, graph = _ahead[key] = _open_trace(workload)
        last = int(graph.ops.period.max(initial=0)) + 1
        _sizes[key] = Size(graph.ranks, len(graph), last)
    return _sizes[key]


def _graph_cache_key(workload: TraceWorkload) -> Key:
    """Key of a graph: its settings, and when its files were last written."""
    name = workload.trace
    files = (
        [bundled_trace_folder(name)]
        if name.startswith("foretrace:")
        else sorted(map(Path, glob(name)))
    )
    written = tuple((str(f), f.stat().st_mtime_ns) for f in files)
    settings = (workload.missing_ranks, workload.communication, workload.serialise)
    return (name, workload.format, *settings, written)


def _open_trace(workload: TraceWorkload) -> Opened:
    if trace_format_of(workload.trace, workload.format) == "chakra":
        return None, _chakra_graph(workload)
    trace = open_trace(workload.trace, workload.format)
    return trace, trace.graph(
        missing_ranks=workload.missing_ranks,
        communication=workload.communication,
        serialise=workload.serialise,
    )


def _chakra_graph(workload: TraceWorkload) -> Graph:
    """Graph of Chakra files, which hold every rank and its dependencies."""
    from ...traces.formats import chakra

    for setting, value in (
        ("missing_ranks", "refuse"),
        ("communication", ()),
        ("serialise", False),
    ):
        if getattr(workload, setting) != value:
            raise ScenarioError(
                f"workload.{setting}: does not apply to a Chakra trace, which has all ranks and "
                "dependencies; remove it"
            )
    return chakra.read(workload.trace)
