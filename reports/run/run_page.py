"""The report of a run: one self-contained HTML file; its first screen answers the question."""

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
    """HTML of the report; its data are the summary without metrics of single parts.

    Parameters
    ----------
    summary, results, run : as :class:`~.run.study.StudyShown` has them
    sections : what to show, in this order; all there are unless said
    """
    return html(
        shown_sections("run", StudyShown(summary, results, run), sections),
        _without_single_parts(summary),
        title=run.get("title") or summary["name"],
        question=summary["question"],
    )


def _without_single_parts(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Summary whose metrics are of the whole and of kinds of parts: the others grow with a machine.

    Six numbers of each GPU, NIC and link of a few hundred are more than a page may hold.
    """
    points = {
        name: point | {"metrics": {m: v for m, v in point["metrics"].items() if is_overall(m)}}
        for name, point in summary["points"].items()
    }
    return {**summary, "points": points}
