"""Folder of a sweep: manifest, resolved scenario, summary, table of all points, report."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ...config.scenario import Scenario
from ..folders.output_folder import (
    KEY,
    manifest_facts,
    replaced_folder,
    write_json,
    write_scenario,
)
from ..summaries.attempts import faults_of_page
from .outcomes import OutcomeStore
from .sweep_summary import Swept, sweep_summary
from .task import digest_of, shared_task_part

SCHEMA = 1


def outcome_store(out: Path, scenario: Scenario) -> OutcomeStore:
    """Store for the outcomes of a scenario's points, shared by all its sweeps."""
    return OutcomeStore(
        out / scenario.name / ".points" / digest_of(shared_task_part(scenario))[:KEY]
    )


def sweep_name(scenario: Scenario) -> str:
    """Name of a sweep: hash of everything that can change its summary."""
    kept = {k: v for k, v in scenario.resolved().items() if k not in ("question", "report")}
    kept["run"] = {"seed": scenario.run.seed, "replicas": scenario.run.replicas}
    return f"sweep-{digest_of({**shared_task_part(scenario), 'whole': kept})[:KEY]}"


def save_sweep(
    swept: Swept, store: OutcomeStore, out: Path, facts: Mapping[str, Any], started: float
) -> Path:
    """Write the folder of a finished sweep; returns it.

    Parameters
    ----------
    swept : Swept
    store : store with the outcomes of its points
    out : folder of all runs
    facts : further entries of the manifest: command, workers
    started : start time by the monotonic clock, in s

    Raises
    ------
    ScenarioError
        The folder cannot be written.
    """
    target = out / swept.scenario.name / sweep_name(swept.scenario)
    with replaced_folder(target) as whole:
        _fill_folder(whole, swept, store, {**facts, "wall_seconds": time.monotonic() - started})
    return target


def _fill_folder(folder: Path, swept: Swept, store: OutcomeStore, facts: Mapping[str, Any]) -> None:
    from ....reports.section import FailedSection
    from ....reports.sweep.sweep_page import sweep_page

    scenario = swept.scenario
    summary = sweep_summary(swept)
    resolved = write_scenario(folder, scenario)
    write_table(folder / "points.parquet", swept, store)
    run = {
        "resolved": resolved,
        "command": facts.get("command", ""),
        "run": sweep_name(scenario),
        "title": scenario.report.title,
        "file": scenario.file,
    }
    failed = list[FailedSection]()
    page = sweep_page(summary, run, scenario.report.sections, failed)
    (folder / "report.html").write_text(page, encoding="utf-8")
    if faults := faults_of_page(failed):
        summary["unexplained"] = [*summary.get("unexplained", ()), *faults]
    write_json(folder / "summary.json", summary)
    write_json(folder / "manifest.json", _manifest_of_sweep(swept, facts))


def _manifest_of_sweep(swept: Swept, facts: Mapping[str, Any]) -> dict[str, Any]:
    scenario = swept.scenario
    return {
        "schema": SCHEMA,
        "kind": "sweep",
        "run": sweep_name(scenario),
        "sampler": swept.sampler,
        "seed": scenario.run.seed,
        "points": len(swept.trials),
        "from_cache": sum(t.cached for t in swept.trials),
        "failed": len(swept.failed),
        "host": platform.platform(),
        **manifest_facts(scenario),
        **{k: round(v, 3) if isinstance(v, float) else v for k, v in facts.items()},
    }


def write_table(path: Path, swept: Swept, store: OutcomeStore) -> None:
    """Write a parquet table with one row per point: settings as text, every metric in SI.

    Points that failed have no metrics, but an ``error``.
    """
    import duckdb
    import numpy as np

    row = {t.key: i for i, t in enumerate(swept.trials)}
    columns: dict[str, Any] = {"point": np.arange(len(row))}
    for setting in dict.fromkeys(s for t in swept.trials for s in t.settings):
        columns[setting] = _object_array(_shown_text(t.settings.get(setting)) for t in swept.trials)
    columns |= _metric_columns(row, store)
    columns["error"] = _object_array(t.error["message"] if t.error else None for t in swept.trials)
    quoted = str(path).replace("'", "''")
    with duckdb.connect() as db:
        # objects are text, also a long column without one, of which DuckDB 1.4 cannot tell
        db.execute("SET GLOBAL pandas_analyze_sample = 0")
        db.register("points", columns)
        db.execute(
            f"COPY (SELECT * FROM points ORDER BY point) TO '{quoted}' "
            "(FORMAT parquet, COMPRESSION zstd)"
        )


def _metric_columns(row: Mapping[str, int], store: OutcomeStore) -> dict[str, Any]:
    """Column of each metric, by name."""
    import numpy as np

    found: dict[str, Any] = {}
    for outcome in store.outcomes():
        at = row.get(outcome["key"])
        for metric, value in outcome.get("values", {}).items() if at is not None else ():
            found.setdefault(metric, np.full(len(row), np.nan))[at] = value
    return dict(sorted(found.items()))


def _object_array(values: Iterable[str | None]) -> Any:
    import numpy as np

    return np.array(list(values), object)


def _shown_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
