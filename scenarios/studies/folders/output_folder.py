"""Output folders: what those of runs, sweeps and checks share.

A folder is written beside its place and renamed when it is whole.
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
    """Refuse a folder in which nothing can be kept, before hours of work are lost by it.

    It leaves no folder behind: a scenario may still be refused.

    Raises
    ------
    ScenarioError
        It cannot be made, or not be written.
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
    """New folder to fill, which takes the place of ``target`` once it is whole.

    Raises
    ------
    ScenarioError
        It cannot be written.
    """
    with writing(target.parent), replace_folder_on_success(target) as whole:
        yield whole


def write_scenario(folder: Path, scenario: Scenario) -> str:
    """Write a scenario as given and as resolved; returns the latter's text."""
    resolved = resolved_yaml(scenario.resolved(), scenario.origins)
    source = Path(scenario.file)
    if source.is_file():
        shutil.copyfile(source, folder / "scenario.yaml")
    (folder / "resolved.yaml").write_text(resolved)
    return resolved


def made_from(scenario: Scenario) -> dict[str, Any]:
    """What a manifest says of every folder: the scenario, the versions of packages, and now."""
    return {
        "scenario": {"name": scenario.name, "file": scenario.file, "digest": scenario.digest()},
        "versions": package_versions(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def package_versions() -> dict[str, str]:
    """Versions of ourselves, Python, and the packages whose version can change a number."""
    names = ("foretrace", "numpy", "scipy", "numba", "simpy", "pandas", "duckdb")
    return {"python": sys.version.split()[0], **{n: version(n) for n in names}}


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write JSON: keys in a fixed order, floats as their shortest text, null for not a number."""
    path.write_text(json.dumps(with_null_for_nonfinite(value), indent=1, sort_keys=False) + "\n")


def with_null_for_nonfinite(value: Any) -> Any:
    """The same value with null for what is not a finite number.

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
