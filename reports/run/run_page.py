"""The page of a run: one self-contained HTML file whose first screen answers the question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...sim.run.result import Result
from ..html import page_html as html
from ..numbers import is_overall
from ..section import shown_sections
from ..texts.study import StudyShown


def run_page(
    summary: Mapping[str, Any],
    results: Mapping[str, Result],
    run: Mapping[str, str],
    sections: Sequence[str] = (),
) -> str:
    """HTML of a run's page; its data is the summary without metrics of single components."""
    return html(
        shown_sections("run", StudyShown(summary, results, run), sections),
        _without_single_parts(summary),
        title=run.get("title") or summary["name"],
        question=summary["question"],
    )


def _without_single_parts(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Summary reduced to metrics of the whole run and of kinds of components.

    Metrics of single components grow with the machine and would make the page too large.
    """
    points = {
        name: point | {"metrics": {m: v for m, v in point["metrics"].items() if is_overall(m)}}
        for name, point in summary["points"].items()
    }
    return {**summary, "points": points}
