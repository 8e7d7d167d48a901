"""What a check leaves: a page, the numbers, the recordings, and what made them."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ...hil.recording import SUFFIX
from ...reports.accuracy import write_accuracy
from ...sim.errors import ScenarioError
from ..folder import KEY, finite, versions, write_json
from ..reading.resolve import resolved_yaml
from ..scenario import Scenario
from .check import Checked


def save(scenario: Scenario, found: Checked, out: Path, command: str) -> Path:
    """Write a check under ``OUT/NAME/check-KEY``; returns its folder.

    Raises
    ------
    ScenarioError
        The folder cannot be written.
    """
    told: dict[str, Any] = finite(found.told)
    text = json.dumps({"scenario": scenario.digest(), "told": told}, sort_keys=True)
    key = hashlib.sha256(text.encode()).hexdigest()[:KEY]
    folder = out / scenario.name / f"check-{key}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / "accuracy.json", told)
        write_accuracy(folder / "accuracy.html", told, command)
        (folder / "resolved.yaml").write_text(resolved_yaml(scenario.resolved(), scenario.origins))
        for name, recording in found.recordings.items():
            recording.write(folder / f"{name}{SUFFIX}")
        write_json(folder / "manifest.json", _manifest(scenario, command))
    except OSError as error:
        raise ScenarioError(
            f"{folder}: cannot be written ({error}); choose another --out"
        ) from error
    return folder


def _manifest(scenario: Scenario, command: str) -> dict[str, Any]:
    return {
        "command": command,
        "scenario": {"name": scenario.name, "file": scenario.file, "digest": scenario.digest()},
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": versions(),
    }
