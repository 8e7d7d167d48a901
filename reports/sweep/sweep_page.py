"""The page of a sweep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..html import page_html as html
from ..section import Failed, names_on_page, shown_sections
from .points import MOST_ROWS, SweepShown
from .sweep_results import Summary

ALWAYS = ("points", "failures")  # whatever sections are asked for


def sweep_page(
    summary: Summary,
    run: Mapping[str, str],
    sections: Sequence[str] = (),
    failed: Failed | None = None,
) -> str:
    """HTML of a sweep's page; it always contains the sections on points and failures.

    Parameters
    ----------
    failed : list to which sections that cannot be made are added; None to raise their error
    """
    wanted = names_on_page(
        "sweep", [*sections, *(s for s in ALWAYS if sections and s not in sections)]
    )
    return html(
        shown_sections("sweep", SweepShown(summary, run), wanted, failed),
        {**summary, "points": summary["points"][:MOST_ROWS]},
        title=run.get("title") or summary["name"],
        question=summary["question"],
        failed=failed,
    )
