"""Output folders: functions shared by runs, sweeps and checks.

A folder is written under a temporary name and renamed when it is complete.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ....sim.atomic_folder import replace_folder_on_success
from ...config.reading.resolution import resolved_yaml
from ...config.scenario import Scenario
from .writing import writing

KEY = 12  # hexadecimal digits of a run's name
ACCURACY = "accuracy.json"  # the summary of a hardware check


def require_writable(out: Path, scenario: Scenario) -> None:
    """Raise an error if the output folder cannot be written, before a long run.

    Leaves no folder behind, since the scenario may still have errors.

    Raises
    ------
    ScenarioError
        The folder cannot be created or written.
    """
    folder = out / scenario.name
    absent = [path for path in (folder, *folder.parents) if not path.exists()]
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
        for path in absent:
            path.rmdir()


@contextmanager
def replaced_folder(target: Path) -> Iterator[Path]:
    """Context manager of a new folder that replaces ``target`` once it is complete.

    Raises
    ------
    ScenarioError
        The folder cannot be written.
    """
    with writing(target.parent), replace_folder_on_success(target) as whole:
        yield whole


def write_scenario(folder: Path, scenario: Scenario) -> str:
    """Write a scenario as given and as resolved; returns the resolved text."""
    resolved = resolved_yaml(scenario.resolved(), scenario.origins)
    source = Path(scenario.file)
    if source.is_file():
        shutil.copyfile(source, folder / "scenario.yaml")
    (folder / "resolved.yaml").write_text(resolved)
    return resolved


def manifest_facts(scenario: Scenario) -> dict[str, Any]:
    """Entries of every manifest: scenario, package versions, and the current date."""
    return {
        "scenario": {"name": scenario.name, "file": scenario.file, "digest": scenario.digest()},
        "versions": package_versions(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def package_versions() -> dict[str, str]:
    """Versions of foretrace, Python, and the packages that can change a result."""
    names = ("foretrace", "numpy", "scipy", "numba", "simpy", "pandas", "duckdb")
    return {"python": sys.version.split()[0], **{n: version(n) for n in names}}


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write JSON with keys in their order, shortest floats, and null for non-finite numbers."""
    path.write_text(json.dumps(with_null_for_nonfinite(value), indent=1, sort_keys=False) + "\n")


def with_null_for_nonfinite(value: Any) -> Any:
    """Copy of nested data with None in place of numbers that are not finite.

    >>> with_null_for_nonfinite({"a": (1.5, float("inf"))})
    {'a': [1.5, None]}
    """
    if isinstance(value, Mapping):
        return {str(k): with_null_for_nonfinite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [with_null_for_nonfinite(v) for v in value]
    if isinstance(value, float) and not abs(value) < float("inf"):
        return None
    return value
