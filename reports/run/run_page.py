"""The report of a run: one self-contained HTML file; its first screen answers the question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...sim.result import Result
from ..html import page_html as html
from ..section import shown_sections
from .study import StudyShown


def write_report(
    path: Path,
    summary: Mapping[str, Any],
    results: Mapping[str, Result],
    run: Mapping[str, str],
    sections: Sequence[str] = (),
) -> None:
    """Write the report of a study.

    Parameters
    ----------
    summary, results, run : as :class:`~.run.study.StudyShown` has them
    sections : what to show, in this order; all there are unless said
    """
    path.write_text(run_page(summary, results, run, sections), encoding="utf-8")


def run_page(
    summary: Mapping[str, Any],
    results: Mapping[str, Result],
    run: Mapping[str, str],
    sections: Sequence[str] = (),
) -> str:
    """HTML of the report."""
    return html(
        shown_sections("run", StudyShown(summary, results, run), sections),
        summary,
        title=run.get("title") or summary["name"],
        question=summary["question"],
    )
