"""The page of a sweep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ..html import page_html as html
from ..section import names_on_page, shown_sections
from .points import MOST_ROWS, SweepShown
from .sweep_results import Summary

ALWAYS = ("points", "failures")  # whatever sections are asked for


def write_sweep_page(
    path: Path, summary: Summary, run: Mapping[str, str], sections: Sequence[str] = ()
) -> None:
    """Write the report of a sweep.

    Parameters
    ----------
    path : the file
    summary, run : as :class:`SweepShown` has them
    sections : what to show, in this order; all there are unless said
    """
    path.write_text(sweep_page(summary, run, sections), encoding="utf-8")


def sweep_page(summary: Summary, run: Mapping[str, str], sections: Sequence[str] = ()) -> str:
    """HTML of the report; the sections of points and of failures are in it, asked for or not."""
    wanted = names_on_page(
        "sweep", [*sections, *(s for s in ALWAYS if sections and s not in sections)]
    )
    return html(
        shown_sections("sweep", SweepShown(summary, run), wanted),
        {**summary, "points": summary["points"][:MOST_ROWS]},
        title=run.get("title") or summary["name"],
        question=summary["question"],
    )
