"""Traces and step times that a scenario names: bundled ones, files and folders."""

from __future__ import annotations

from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING

from ...sim.errors import ScenarioError
from ...traces.formats.native import MANIFEST
from ..config.problems import did_you_mean_text

if TYPE_CHECKING:
    from ...traces.step_times import StepTimes
    from ...traces.trace import Trace
    from ..config.sections.workload import WorkloadSection


def open_trace(name: str, form: str | None = None) -> Trace:
    """Read a trace: bundled (``foretrace:ddp-resnet50``), native, or Kineto files by glob.

    Raises
    ------
    ScenarioError
        No file matches; the message lists the bundled traces.
    """
    from ...traces.formats import kineto, native

    files = paths(name)
    if not files:
        raise ScenarioError(
            f"workload.trace: no file matches '{name}'; correct the path, or use a bundled trace: "
            f"{', '.join(bundled_traces())}"
        )
    recognised = _recognise_format(files[0])
    if recognised == "chakra":
        raise ScenarioError(
            f"'{name}' is a Chakra trace, a graph without recorded events; run it, or use the "
            "Kineto trace that it was made from"
        )
    if form not in (None, recognised):
        raise ScenarioError(
            f"workload.format: '{name}' is {recognised}, not {form}; remove the format"
        )
    return native.read(files[0]) if recognised == "native" else kineto.read(files)


def trace_format_of(name: str, form: str | None = None) -> str:
    """Format of trace files: the given one, or the recognized one.

    >>> chakra = trace_format_of("runs/step.*.et"), trace_format_of("x", "chakra")
    >>> *chakra, trace_format_of("rank*.json.gz")
    ('chakra', 'chakra', 'kineto')
    """
    files = sorted(map(Path, glob(name)))
    return form or _recognise_format(files[0] if files else Path(name))


def _recognise_format(file: Path) -> str:
    if (file / MANIFEST).is_file():
        return "native"
    return "chakra" if ".et" in file.suffixes else "kineto"


def open_process_starts(starts: str | None, trace: str | None = None) -> StepTimes | None:
    """Step times of the named process starts, else those next to the trace; None if there are none.

    Raises
    ------
    ScenarioError
        No folder matches.
    TraceError
        There are no step times, or their table cannot be read.
    """
    from ...traces.step_times import read, read_next_to

    if starts is None:
        return None if trace is None else read_next_to(paths(trace))
    folders = paths(starts)
    if not folders:
        raise ScenarioError(
            f"workload.starts: no folder matches '{starts}'; name the output of 'trace capture' or "
            f"{', '.join(bundled_traces())}"
        )
    return read(folders)


def process_starts_of(section: WorkloadSection) -> StepTimes | None:
    """Step times of a trace workload's process starts; None for other workloads.

    Raises
    ------
    ScenarioError, TraceError
        They cannot be read.
    """
    of_trace = section.type == "trace"
    starts, trace = (getattr(section, key, None) for key in ("starts", "trace"))
    return open_process_starts(starts, trace if of_trace else None)


def files_read(trace: str, starts: str | None) -> tuple[str, ...]:
    """Names of the files that are read: the trace, and its process starts or step times."""
    from ...traces.step_times import tables_next_to

    if starts is not None:
        return trace, starts
    beside = [] if _is_bundled(trace) else tables_next_to(paths(trace))
    return trace, *map(str, beside)


def _is_bundled(name: str) -> bool:
    return name.startswith("foretrace:")


def paths(name: str) -> list[Path]:
    """Paths that a name or glob in a scenario stands for: a bundled trace, or files and folders."""
    return [bundled_trace_folder(name)] if _is_bundled(name) else sorted(map(Path, glob(name)))


DATA = Path(__file__).parents[2] / "traces" / "data"


def bundled_traces() -> tuple[str, ...]:
    """Names of the bundled traces."""
    return tuple(f"foretrace:{p.name}" for p in sorted(DATA.glob("*")) if (p / MANIFEST).is_file())


def bundled_trace_folder(name: str) -> Path:
    """Folder of a bundled trace.

    Raises
    ------
    ScenarioError
        There is no bundled trace with that name.
    """
    if name not in bundled_traces():
        raise ScenarioError(
            f"workload.trace: no bundled trace '{name}'"
            f"{did_you_mean_text(name, list(bundled_traces()))}"
        )
    return DATA / name.removeprefix("foretrace:")
