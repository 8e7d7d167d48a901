"""Folder of a hardware check: page, numbers, recordings and manifest."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from ....hil.recording import SUFFIX
from ....reports.accuracy.accuracy_page import accuracy_page
from ....reports.section import FailedSection
from ...config.scenario import Scenario
from ..folders.output_folder import (
    ACCURACY,
    KEY,
    manifest_facts,
    replaced_folder,
    with_null_for_nonfinite,
    write_json,
    write_scenario,
)
from ..summaries.attempts import faults_of_page
from .device_check import DeviceCheck


def save_check(scenario: Scenario, check: DeviceCheck, out: Path, command: str) -> Path:
    """Write a hardware check to ``OUT/NAME/check-KEY``; returns its folder.

    Sections of its page that fail are noted in its results, as ``unexplained``.

    Raises
    ------
    ScenarioError
        The folder cannot be written.
    """
    told: dict[str, Any] = with_null_for_nonfinite(check.results)
    text = json.dumps({"scenario": scenario.digest(), "told": told}, sort_keys=True)
    key = hashlib.sha256(text.encode()).hexdigest()[:KEY]
    folder, failed = out / scenario.name / f"check-{key}", list[FailedSection]()
    with replaced_folder(folder) as whole:
        page = accuracy_page(told, command, scenario.report.sections, failed)
        (whole / "accuracy.html").write_text(page, encoding="utf-8")
        if faults := faults_of_page(failed):
            check.results["unexplained"] = told["unexplained"] = faults
        write_json(whole / ACCURACY, told)
        write_scenario(whole, scenario)
        for name, recording in check.recordings.items():
            recording.write(whole / f"{name}{SUFFIX}")
        write_json(whole / "manifest.json", {"command": command, **manifest_facts(scenario)})
    return folder
