"""A run folder: everything a run leaves, written beside its place and renamed when it is whole.

Only ``manifest.json`` knows wall time, host and date; all else is the same bytes for the same
seed and inputs.
"""

from __future__ import annotations

import hashlib
import json
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ...reports.export.perfetto import write_timeline
from ...reports.export.tables import write_ops
from ...reports.run.run_page import write_report
from ...sim.atomic_folder import staged
from ...sim.errors import ScenarioError
from ...sim.lowering import scales
from ..config.hil_settings import journal_name
from ..config.reading.files import content
from ..config.reading.resolution import resolved_yaml
from ..config.scenario import Scenario
from .run import Study

SCHEMA = 1
ACCURACY = "accuracy.json"  # what a check of hardware leaves in the place of a summary
KEY = 12  # hexadecimal digits of the name of a run


def key(scenario: Scenario) -> str:
    """Names a run by all that can change its answer: scenario, catalog, trace, version, seed."""
    told = {
        "scenario": scenario.digest(),
        "trace": trace_digest(scenario),
        "version": version("foretrace"),
        "code": code_digest(),
    }
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:KEY]


def trace_digest(scenario: Scenario) -> str:
    """SHA-256 of the files that the workload reads; "" where there are none."""
    from ..workloads.trace_files import paths
    from .building.jobs import workloads_of

    names = [f for work in workloads_of(scenario).values() for f in work.needs.files]
    found = [content(str(path)) for name in names for path in paths(name)]
    return hashlib.sha256("".join(found).encode()).hexdigest() if names else ""


def code_digest() -> str:
    """SHA-256 of our own sources: another version of the models is another answer."""
    root = Path(__file__).parents[2]
    digest = hashlib.sha256()
    for folder in ("sim", "models", "traces", "scenarios", "reports", "hil"):
        for file in sorted((root / folder).rglob("*.py")):
            digest.update(file.relative_to(root).as_posix().encode() + file.read_bytes())
    return digest.hexdigest()


def existing(out: Path, scenario: Scenario) -> Path | None:
    """A run of the same key that was finished, if there is one."""
    folder = out / scenario.name / key(scenario)
    if not (folder / "manifest.json").is_file():
        return None
    return None if "unfinished" in load_summary(folder) else folder


def save(study: Study, out: Path, started: float, command: str) -> Path:
    """Write everything a run leaves; returns its folder.

    Raises
    ------
    ScenarioError
        The folder cannot be written.
    """
    name = key(study.scenario)
    target = out / study.scenario.name / name
    with written(target) as whole:
        _fill(whole, study, name, started, command)
    return target


def require_writable(out: Path, scenario: Scenario) -> None:
    """Refuse a folder in which nothing can be kept, before hours of work are lost by it.

    Raises
    ------
    ScenarioError
        It cannot be made, or not be written.
    """
    folder = out / scenario.name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise ScenarioError(
            f"{folder}: cannot be written ({error.strerror}); choose another --out"
        ) from error


@contextmanager
def written(target: Path) -> Iterator[Path]:
    """A new folder to fill, which takes the place of ``target`` once it is whole.

    Raises
    ------
    ScenarioError
        It cannot be written.
    """
    try:
        with staged(target) as whole:
            yield whole
    except OSError as error:
        raise ScenarioError(
            f"{target.parent}: cannot be written ({error}); choose another --out"
        ) from error


def described(folder: Path, scenario: Scenario) -> str:
    """Keep a scenario as given and as resolved; returns the latter's text."""
    resolved = resolved_yaml(scenario.resolved(), scenario.origins)
    source = Path(scenario.file)
    if source.is_file():
        shutil.copyfile(source, folder / "scenario.yaml")
    (folder / "resolved.yaml").write_text(resolved)
    return resolved


def _fill(folder: Path, study: Study, name: str, started: float, command: str) -> None:
    scenario = study.scenario
    summary = study.summary.to_dict()
    resolved = described(folder, scenario)
    write_json(folder / "summary.json", summary)
    with ThreadPoolExecutor(1) as beside:  # DuckDB works while Python does
        tables = beside.submit(_tables, folder, study)
        cut = write_timeline(folder / "timeline.pftrace", study.results)
        title = scenario.report.title
        files = {"resolved": resolved, "command": command, "run": name, "title": title,
                 "timeline_cut": f"{cut:,}" if cut else ""}  # fmt: skip
        write_report(
            folder / "report.html", summary, study.results, files, scenario.report.sections
        )
    _journals(folder, study)
    left_out = tables.result() + ([f"timeline: the last {cut} slices"] if cut else [])
    write_json(folder / "manifest.json", manifest(study, name, started, command, left_out))


def _journals(folder: Path, study: Study) -> None:
    """What devices answered, where they drove the run."""
    for variant, entries in study.journals.items():
        from ...hil.coupling.journal import write

        write(folder / journal_name(variant), entries)


def _tables(folder: Path, study: Study) -> list[str]:
    """``ops.parquet`` of every variant; returns which were too large."""
    left_out = []
    for variant, result in study.results.items():
        if result.keep != "ops":
            left_out.append(f"ops of {variant}: {result.count} rows; --keep ops writes them")
            continue
        write_ops(folder / f"ops.{variant}.parquet", result)
    return left_out


def manifest(
    study: Study, name: str, started: float, command: str, left_out: list[str]
) -> dict[str, Any]:
    """What the bytes of the rest must not depend on, and what made them."""
    scenario = study.scenario
    return {
        "schema": SCHEMA,
        "run": name,
        "scenario": {"name": scenario.name, "file": scenario.file, "digest": scenario.digest()},
        "trace": trace_digest(scenario),
        "command": command,
        "seed": scenario.run.seed,
        "engine": scenario.run.engine,
        "rate_scale": {v: scales(r.system) for v, r in study.results.items()},
        "left_out": left_out,
        "versions": versions(),
        "host": platform.platform(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "wall_seconds": round(time.monotonic() - started, 3),
    }


def versions() -> dict[str, str]:
    """Of ourselves, Python, and the packages whose version can change a number."""
    names = ("foretrace", "numpy", "scipy", "numba", "simpy", "pandas", "duckdb")
    return {"python": sys.version.split()[0], **{n: version(n) for n in names}}


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Keys in a fixed order, floats as their shortest text; not a number becomes null."""
    path.write_text(json.dumps(finite(value), indent=1, sort_keys=False) + "\n")


def finite(value: Any) -> Any:
    """The same with null for what is not a finite number."""
    if isinstance(value, Mapping):
        return {str(k): finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [finite(v) for v in value]
    if isinstance(value, float) and not abs(value) < float("inf"):
        return None
    return value


def with_answer(told: dict[str, Any]) -> dict[str, Any]:
    """A summary with what decides; where it does not say it, there was one kind of workload."""
    from .answers import usual

    return {"answer": usual().to_dict(), **told}


def load_summary(run: Path) -> dict[str, Any]:
    """The summary of a saved run, by its folder or its ``summary.json``.

    Raises
    ------
    ScenarioError
        Not a finished run.
    """
    file = run / "summary.json" if run.is_dir() else run
    if inside := [str(f.parent) for f in sorted(run.glob("*/summary.json"))[:4]]:
        raise ScenarioError(f"{run}: holds runs and is none; give one of {', '.join(inside)}")
    if (run / ACCURACY).is_file():
        raise ScenarioError(
            f"{run}: is a check of hardware, which foretrace show and report tell; give runs"
        )
    try:
        told: dict[str, Any] = json.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise ScenarioError(f"{run}: is no saved run ({error}); give a run folder") from error
    if told.get("schema") != SCHEMA:
        raise ScenarioError(
            f"{file}: has schema {told.get('schema')}, this version reads {SCHEMA}; run it again"
        )
    return with_answer(told)
