"""What a check leaves: a page, the numbers, the recordings, and what made them."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ....hil.recording import SUFFIX
from ....reports.accuracy.accuracy_page import write_accuracy
from ...config.scenario import Scenario
from ..run_folder import KEY, described, finite, versions, write_json, written
from .device_check import Checked


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
    with written(folder) as whole:
        write_json(whole / "accuracy.json", told)
        write_accuracy(whole / "accuracy.html", told, command, scenario.report.sections)
        described(whole, scenario)
        for name, recording in found.recordings.items():
            recording.write(whole / f"{name}{SUFFIX}")
        write_json(whole / "manifest.json", _manifest(scenario, command))
    return folder


def _manifest(scenario: Scenario, command: str) -> dict[str, Any]:
    return {
        "command": command,
        "scenario": {"name": scenario.name, "file": scenario.file, "digest": scenario.digest()},
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": versions(),
    }
