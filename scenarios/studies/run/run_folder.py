"""Run folder: all files of a run, written and loaded.

Wall time, host and date are only in ``manifest.json``; all other files have the same bytes for the
same seed and inputs.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....reports.export.perfetto import write_perfetto_timeline
from ....reports.export.tables import write_ops, write_places, write_series
from ....reports.run.run_page import plain_page, run_page
from ....reports.section import FailedSection
from ....sim.engine_api.lowering import scale_exponents_by_unit
from ....sim.errors import ScenarioError
from ...config.hil_settings import journal_file_name
from ...config.scenario import Scenario
from ..confidence.uncertainty import op_interval_factors
from ..folders.digests import code_digest, trace_digest
from ..folders.output_folder import (
    ACCURACY,
    KEY,
    manifest_facts,
    replaced_folder,
    write_json,
    write_scenario,
)
from ..summaries.attempts import CANNOT, STOPPED, Attempts
from ..variants.answers import usual_trace_answer

if TYPE_CHECKING:
    from .run import Study

SCHEMA = 1
ANSWERING = ("answer", "compare", "metrics", "assumptions", "reproduce")
"""Sections of the page of a run that is not explained yet."""
PROVENANCE: tuple[str, ...] = ("inputs", "values", "calibration", "jitter")
POINT: tuple[str, ...] = (
    "metrics",
    "expect",
    "blame",
    "activity",
    "faster",
    "facts",
    "settings",
    "change",
)


def run_key(scenario: Scenario) -> str:
    """Key of a run: hash of all that can change its answer (scenario, trace, version, code)."""
    told = {
        "scenario": scenario.digest(),
        "trace": trace_digest(scenario),
        "version": version("foretrace"),
        "code": code_digest(),
    }
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:KEY]


def existing_run(out: Path, scenario: Scenario) -> Path | None:
    """Folder of a finished run with the same key; None if there is none."""
    folder = out / scenario.name / run_key(scenario)
    if not (folder / "manifest.json").is_file():
        return None
    summary = load_summary(folder)
    stopped = any(one["kind"] == STOPPED for one in summary.get("unexplained", ()))
    return None if stopped or "unfinished" in summary else folder


def save_run(
    study: Study, out: Path, started: float, command: str, answered: Path | None = None
) -> Path:
    """Write all files of a run; returns its folder.

    Parameters
    ----------
    answered : folder of this run with its answer only, whose tables are taken over; None for none

    Raises
    ------
    ScenarioError
        The folder cannot be written.
    """
    return _save(study, out, lambda folder, name: _fill_folder(
        folder, study, name, started, command, answered
    ))  # fmt: skip


def save_answer(study: Study, out: Path, started: float, command: str) -> Path:
    """Write the answer of a run that is not explained yet; returns its folder.

    It has every file of a run but the timeline, and a short page. So the answer remains if the
    command ends before it has explained the run.

    Raises
    ------
    ScenarioError
        The folder cannot be written.
    """
    return _save(study, out, lambda folder, name: _fill_answer(
        folder, study, name, started, command
    ))  # fmt: skip


def _save(study: Study, out: Path, fill: Callable[[Path, str], None]) -> Path:
    name = run_key(study.scenario)
    target = out / study.scenario.name / name
    with replaced_folder(target) as whole:
        fill(whole, name)
    return target


def _fill_answer(folder: Path, study: Study, name: str, started: float, command: str) -> None:
    files = _page_texts(study, write_scenario(folder, study.scenario), command, name)
    wanted = [s for s in study.scenario.report.sections or ANSWERING if s in ANSWERING]
    _write_page(folder, study, files, wanted or ANSWERING[:1], Attempts())
    write_json(folder / "summary.json", study.summary.to_dict())
    _write_journals(folder, study)
    _write_prints(folder, study)
    left_out = _write_tables(folder, study, None)
    write_json(folder / "manifest.json", run_manifest(study, name, started, command, left_out))


def _fill_folder(
    folder: Path, study: Study, name: str, started: float, command: str, answered: Path | None
) -> None:
    resolved, failed = write_scenario(folder, study.scenario), Attempts()
    with ThreadPoolExecutor(1) as beside:  # DuckDB works while Python does
        tables = beside.submit(_write_tables, folder, study, answered)
        timeline = folder / "timeline.pftrace"
        cut = failed.make(
            "", "the timeline file", lambda: write_perfetto_timeline(timeline, study.drawn), 0
        )
        if failed.missing:
            timeline.unlink(missing_ok=True)
        files = _page_texts(study, resolved, command, name)
        files |= {"timeline_cut": f"{cut:,}" if cut else ""}
        _write_page(folder, study, files, study.scenario.report.sections, failed)
    write_json(folder / "summary.json", _summary_with(study, failed))
    _write_journals(folder, study)
    _write_prints(folder, study)
    left_out = tables.result() + ([f"timeline: the last {cut} slices"] if cut else [])
    left_out += [f"{one.what}: {one.why}" for one in failed.missing if one.kind == CANNOT]
    write_json(folder / "manifest.json", run_manifest(study, name, started, command, left_out))


def _page_texts(study: Study, resolved: str, command: str, name: str) -> dict[str, str]:
    title = study.scenario.report.title
    return {
        "resolved": resolved, "command": command, "run": name, "title": title, "timeline_cut": ""
    }  # fmt: skip


def _write_page(
    folder: Path,
    study: Study,
    files: Mapping[str, str],
    wanted: Sequence[str],
    failed: Attempts,
) -> None:
    """Write the page; sections that cannot be made are noted, and a failed page is a short one."""
    summary, sections = study.summary.to_dict(), list[FailedSection]()
    try:
        page = run_page(summary, study.results, files, wanted, sections, study.rows)
    except OSError:
        raise
    except Exception as error:
        failed.note_error("", "the page", error)
        page = plain_page(summary)
    failed.note_sections(sections)
    (folder / "report.html").write_text(page, encoding="utf-8")


def _summary_with(study: Study, failed: Attempts) -> dict[str, Any]:
    """Summary, with those parts of the page and the timeline that failed by a bug."""
    summary, own = study.summary.to_dict(), study.summary.unexplained
    faults = failed.faults()
    return {**summary, **({"unexplained": [*own, *faults]} if faults else {})}


def _write_prints(folder: Path, study: Study) -> None:
    for variant, text in study.prints.items():
        (folder / f"prints.{variant}.txt").write_text(text, encoding="utf-8")


def _write_journals(folder: Path, study: Study) -> None:
    """Write the measurements of real devices that drove the run."""
    for variant, entries in study.journals.items():
        from ....hil.coupling.journal import write_journal

        write_journal(folder / journal_file_name(variant), entries)


def _write_tables(folder: Path, study: Study, answered: Path | None) -> list[str]:
    """Write the tables of every variant; returns notes about those that were left out.

    Parameters
    ----------
    answered : folder that has these tables; None for none
    """
    left_out = []
    for measured in study.measured:
        variant, result = measured.name, measured.result
        if result.recorded:
            write_series(folder / f"series.{variant}.parquet", result)
        if result.keep != "ops":
            left_out.append(f"ops of {variant}: {result.count} rows; --keep ops writes them")
            continue
        if not result.count:
            left_out.append(f"ops of {variant}: the run has none")
            continue
        if answered is not None:
            for table in ("ops", "places"):
                _take_over(answered / f"{table}.{variant}.parquet", folder)
            continue
        factors = op_interval_factors(measured.point, result)
        write_ops(folder / f"ops.{variant}.parquet", result, factors)
        write_places(folder / f"places.{variant}.parquet", result)
    return left_out


def _take_over(file: Path, folder: Path) -> None:
    """Put a file of another folder into this one, without a copy if the file system can."""
    try:
        os.link(file, folder / file.name)
    except OSError:
        shutil.copyfile(file, folder / file.name)


def run_manifest(
    study: Study, name: str, started: float, command: str, left_out: list[str]
) -> dict[str, Any]:
    """Manifest: command, versions, host, date and wall time of a run."""
    scenario = study.scenario
    return {
        "schema": SCHEMA,
        "run": name,
        "trace": trace_digest(scenario),
        "command": command,
        "seed": scenario.run.seed,
        "engine": scenario.run.engine,
        "rate_scale": {v: scale_exponents_by_unit(r.system) for v, r in study.results.items()},
        "left_out": left_out,
        "host": platform.platform(),
        **manifest_facts(scenario),
        "wall_seconds": round(time.monotonic() - started, 3),
    }


def summary_with_answer(summary: dict[str, Any]) -> dict[str, Any]:
    """Summary with its answer; for an old summary, the answer of a trace."""
    return {"answer": usual_trace_answer().to_dict(), **summary}


def load_summary(run: Path) -> dict[str, Any]:
    """Load the summary of a saved run, from its folder or its ``summary.json``.

    Raises
    ------
    ScenarioError
        It is not a finished run.
    """
    file = run / "summary.json" if run.is_dir() else run
    if inside := [str(f.parent) for f in sorted(run.glob("*/summary.json"))[:4]]:
        raise ScenarioError(f"{run}: contains several runs; name one: {', '.join(inside)}")
    if (run / ACCURACY).is_file():
        raise ScenarioError(
            f"{run}: is a hardware check, not a run; use foretrace show or report for it"
        )
    try:
        told: dict[str, Any] = json.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise ScenarioError(f"{run}: is not a saved run ({error}); give a run folder") from error
    if told.get("schema") != SCHEMA:
        raise ScenarioError(
            f"{file}: has schema {told.get('schema')}, but this version reads schema {SCHEMA}; run "
            "it again"
        )
    return summary_with_answer(told)


def require_present_keys(summary: Mapping[str, Any], folder: Path) -> None:
    """Raise an error for a summary of an older version that lacks required keys.

    Raises
    ------
    ScenarioError
        The message lists the missing keys.
    """
    parts = {"provenance": (summary["provenance"], PROVENANCE)}
    parts |= {f"points.{name}": (point, POINT) for name, point in summary["points"].items()}
    lacking = [f"{where}.{k}" for where, (had, keys) in parts.items() for k in keys if k not in had]
    if lacking:
        raise ScenarioError(
            f"{folder}: was written by an older version and lacks {', '.join(lacking)}; "
            "read its report.html, or run it again"
        )
