"""The page of a run: one self-contained HTML file whose first screen answers the question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from types import MappingProxyType
from typing import Any

from ...sim.run.result import Result
from ..html import page_html as html
from ..numbers import is_overall
from ..section import Failed, shown_sections
from ..texts.answer import answer_sentences
from ..texts.study import StudyShown


def run_page(
    summary: Mapping[str, Any],
    results: Mapping[str, Result],
    run: Mapping[str, str],
    sections: Sequence[str] = (),
    failed: Failed | None = None,
    rows: Mapping[str, Result] = MappingProxyType({}),
) -> str:
    """HTML of a run's page; its data is the summary without metrics of single components.

    Parameters
    ----------
    failed : list to which sections that cannot be made are added; None to raise their error
    rows : result of each variant of which only a window has one row per op
    """
    return html(
        shown_sections("run", StudyShown(summary, results, run, rows), sections, failed),
        _without_single_parts(summary),
        title=run.get("title") or summary["name"],
        question=summary["question"],
        failed=failed,
    )


def plain_page(summary: Mapping[str, Any]) -> str:
    """HTML page with the answer's sentences only, for a run whose page cannot be made."""
    name, texts = escape(str(summary["name"])), map(escape, answer_sentences(summary))
    paragraphs = "\n".join(f"<p>{text}</p>" for text in texts)
    head = f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>{name}</title>'
    return f"{head}\n<h1>{name}</h1>\n{paragraphs}\n</html>\n"


def _without_single_parts(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Summary reduced to metrics of the whole run and of kinds of components.

    Metrics of single components grow with the machine and would make the page too large.
    """
    points = {
        name: point | {"metrics": {m: v for m, v in point["metrics"].items() if is_overall(m)}}
        for name, point in summary["points"].items()
    }
    return {**summary, "points": points}
