"""From ``workload`` to what must be done: one builder for each ``type``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from glob import glob
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....models.network.expand import expand
from ....sim.errors import ScenarioError
from ....sim.graph import Graph
from ....sim.units import ByteRate
from ....traces.formats.native import MANIFEST
from ...config.scenario import Scenario

if TYPE_CHECKING:
    from ....traces.step_times import StepTimes
    from ....traces.trace import Trace

Builder = Callable[[Scenario], Graph]
BUILDERS: dict[str, Builder] = {}


def workload(kind: str) -> Callable[[Builder], Builder]:
    """Register who builds the graph of a ``workload.type``.

    Raises
    ------
    TypeError
        It does not take a scenario.
    ValueError
        The type is taken.
    """

    def register(builder: Builder) -> Builder:
        signature(builder).bind("scenario")
        if kind in BUILDERS:
            raise ValueError(f"two builders make workloads of type {kind!r}")
        BUILDERS[kind] = builder
        return builder

    return register


def build(scenario: Scenario) -> Graph:
    """The graph of a scenario's workload, without a machine in it.

    Raises
    ------
    GraphError
        A collective that no algorithm of ``cluster.fabric.expand`` writes out.
    """
    kind: Any = scenario.workload.type  # type: ignore[attr-defined]
    found = BUILDERS[kind](scenario)
    if not isinstance(found, Graph):
        raise ScenarioError(
            f"workload: who builds {kind!r} returned a {type(found).__name__}, not a graph; end it "
            "with 'return build.graph()'"
        )
    written_out = scenario.cluster.fabric.expand
    return found if written_out is None else expand(found, written_out)


@workload("trace")
def from_trace(scenario: Scenario) -> Graph:
    """A recorded trace, resized where the scenario says so.

    Raises
    ------
    ScenarioError
        No file of that name.
    TraceError
        The trace cannot be used for what is asked.
    """
    said: Any = scenario.workload
    key = _key(said)
    trace, graph = _ahead.pop(key) if key in _ahead else _opened(said)
    starts, by = open_starts(scenario), 1.0
    if starts is not None:
        from ....traces.step_times import stretch_factor, with_untraced_times

        by, graph = stretch_factor(graph, starts), with_untraced_times(graph, starts)
    if said.scale_to is None:
        return graph
    return _resized(trace, graph, scenario, by)


Opened = tuple["Trace | None", Graph]
_ahead: dict[tuple[Any, ...], Opened] = {}


def as_recorded(said: Any) -> Graph:
    """The graph of a trace before it is resized; kept for the one who builds it next."""
    key = _key(said)
    if key not in _ahead:
        _ahead.clear()
        _ahead[key] = _opened(said)
    return _ahead[key][1]


def _key(said: Any) -> tuple[Any, ...]:
    """What a graph depends on, and when its files were last written."""
    name = said.trace
    files = [bundled(name)] if name.startswith("foretrace:") else sorted(map(Path, glob(name)))
    written = tuple((str(f), f.stat().st_mtime_ns) for f in files)
    return (name, said.format, said.missing_ranks, said.serialise, written)


def _opened(said: Any) -> Opened:
    if form_of(said.trace, said.format) == "chakra":
        return None, _chakra(said)
    trace = open_trace(said.trace, said.format)
    return trace, trace.graph(missing_ranks=said.missing_ranks, serialise=said.serialise)


def _chakra(said: Any) -> Graph:
    """Chakra files say what waits for what, and have a file of every rank."""
    from ....traces.formats import chakra

    for setting, value in (("missing_ranks", "refuse"), ("serialise", False)):
        if getattr(said, setting) != value:
            raise ScenarioError(
                f"workload.{setting}: a Chakra trace has every rank and its dependencies; leave it "
                "out"
            )
    return chakra.read(said.trace)


def _resized(trace: Trace | None, graph: Graph, scenario: Scenario, stretch: float) -> Graph:
    said: Any = scenario.workload
    from ....traces.transform.scale import Layout, scale

    told = said.recorded_on.parallel if said.recorded_on else None
    wanted = said.scale_to.parallel
    was = Layout(told.tensor, told.data, told.pipeline) if told else Layout(data=graph.ranks)
    if (wanted.tensor, wanted.pipeline) != (was.tensor, was.pipeline):
        raise ScenarioError(
            "workload.scale_to: only data-parallel groups of a trace can be resized; it was "
            f"recorded with tensor {was.tensor} x pipeline {was.pipeline}"
        )
    if was.ranks == 1 and wanted.data > 1:
        if trace is None:
            raise ScenarioError(
                "workload.scale_to: a Chakra trace of one rank does not say which ops make "
                "gradients; bring a Kineto trace, or one of two ranks"
            )
        from ....traces.transform.data_parallel import data_parallel

        gloo = not any(p.device for p in trace.processes)  # two threads; NCCL has one stream
        graph = data_parallel(
            trace,
            graph,
            copy_rate=_copy_rate(scenario),
            in_flight=2 if gloo else 1,
            bucket=said.scale_to.bucket,
            threads=_gpu(scenario).get("core", False),
            stretch=stretch,
        )
        was = Layout(data=1)
    return scale(graph, was, wanted.data)


def _gpu(scenario: Scenario) -> Mapping[str, Any]:
    """What is known of the GPUs that ranks run on."""
    gpu = scenario.cluster.gpu()
    return {} if gpu is None else gpu.settings


def _copy_rate(scenario: Scenario) -> ByteRate:
    """At which a GPU of the cluster copies gradients, each byte read and written.

    Raises
    ------
    ScenarioError
        Nobody says how quick its memory is.
    """
    gpu = _gpu(scenario)
    if "bandwidth" not in gpu:
        raise ScenarioError(
            "cluster.node.gpu.bandwidth: is needed to make a trace of one process data-parallel "
            "(gradients are copied into buckets and back), and nobody says it; write it"
        )
    return float(gpu["bandwidth"]) * float(gpu.get("memory_efficiency", 1.0))


def open_trace(name: str, form: str | None = None) -> Trace:
    """Read a trace: bundled (``foretrace:ddp-resnet50``), native, or Kineto files by glob.

    Raises
    ------
    ScenarioError
        Nothing there; names what is bundled.
    """
    from ....traces.formats import kineto, native

    files = paths(name)
    if not files:
        raise ScenarioError(
            f"workload.trace: no file fits '{name}'; correct the path, or take a bundled trace: "
            f"{', '.join(bundled_traces())}"
        )
    found = _recognised(files[0])
    if found == "chakra":
        raise ScenarioError(
            f"'{name}' is a Chakra trace: a graph, without recorded events; run it, or bring the "
            "Kineto trace that it was made from"
        )
    if form not in (None, found):
        raise ScenarioError(
            f"workload.format: '{name}' is {found}, not {form}; leave the format out"
        )
    return native.read(files[0]) if found == "native" else kineto.read(files)


def form_of(name: str, form: str | None = None) -> str:
    """Which format files have: the one that is said, or what they look like.

    >>> form_of("runs/step.*.et"), form_of("x", "chakra"), form_of("rank*.json.gz")
    ('chakra', 'chakra', 'kineto')
    """
    files = sorted(map(Path, glob(name)))
    return form or _recognised(files[0] if files else Path(name))


def _recognised(file: Path) -> str:
    if (file / MANIFEST).is_file():
        return "native"
    return "chakra" if ".et" in file.suffixes else "kineto"


def open_starts(scenario: Scenario) -> StepTimes | None:
    """Step times of the process starts that the workload names; None where it names none.

    Raises
    ------
    ScenarioError
        Nothing there.
    TraceError
        No step times there.
    """
    name = getattr(scenario.workload, "starts", None)
    if name is None:
        return None
    from ....traces.step_times import read

    folders = paths(name)
    if not folders:
        raise ScenarioError(
            f"workload.starts: no folder fits '{name}'; name what 'trace capture' wrote, or take "
            f"{', '.join(bundled_traces())}"
        )
    return read(folders)


def paths(name: str) -> list[Path]:
    """What a name or glob in a scenario means: a bundled trace, or files and folders."""
    return [bundled(name)] if name.startswith("foretrace:") else sorted(map(Path, glob(name)))


DATA = Path(__file__).parents[3] / "traces" / "data"


def bundled_traces() -> tuple[str, ...]:
    """Names of the traces that come with the package."""
    return tuple(f"foretrace:{p.name}" for p in sorted(DATA.glob("*")) if (p / MANIFEST).is_file())


def bundled(name: str) -> Path:
    """The folder of a bundled trace.

    Raises
    ------
    ScenarioError
        No trace of that name is bundled.
    """
    from ...config.problems import nearest

    if name not in bundled_traces():
        raise ScenarioError(
            f"workload.trace: no bundled trace '{name}'{nearest(name, list(bundled_traces()))}"
        )
    return DATA / name.removeprefix("foretrace:")
