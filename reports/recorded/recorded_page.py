"""The page of a recording without simulation: one self-contained HTML file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...sim.run.result import Result
from ..blocks import BarChart, Block, Column, FirstScreen, Live, Paragraph, Table
from ..figures import schedule
from ..figures.timeline_source import timeline_data
from ..html import page_html
from ..numbers import format_quantity, format_share
from ..run.timeline import timeline_chart
from ..section import ShownSection
from ..texts.waiting import rank_table, waiting_blocks
from .recorded_answer import (
    certainty_sentence,
    critical_path_rows,
    critical_path_text,
    recorded_sentences,
)

FEW = 16  # ranks drawn on the first screen
ON_FIRST = 8  # table rows of the first screen
Recorded = Mapping[str, Any]


def recorded_page(summary: Recorded, result: Result, command: str) -> str:
    """HTML of the page of a recording."""
    parts = (
        ("answer", "", [_first_screen(summary, command)]),
        ("boxes", "Where the time of each rank goes", list(_boxes(summary))),
        ("stragglers", "Who waits for whom", list(_waiting(summary))),
        ("blame", "Critical path", list(_critical_path(summary))),
        ("timeline", "Timeline", list(_timeline(summary, result))),
    )
    sections = [ShownSection(name, title, blocks) for name, title, blocks in parts if blocks]
    question = "Where does the time go, and which rank is it?"
    return page_html(sections, summary, title=_title(summary["files"]), question=question)


def _title(files: Sequence[str]) -> str:
    """Page title: the first file with its folder, and the number of further files.

    >>> _title(["/data/dlrm/rank*.json.gz"])
    'dlrm/rank*.json.gz'
    """
    first = "/".join(Path(files[0]).parts[-2:])
    return first if len(files) == 1 else f"{first} and {len(files) - 1} more"


def _first_screen(summary: Recorded, command: str) -> FirstScreen:
    lead = recorded_sentences(summary)
    late = summary.get("late")
    facts = summary["facts"]
    return FirstScreen(
        lead=lead[:-2],
        table=rank_table(late, _most_waited_for(late)) if late else _time_table(summary),
        findings=[
            ("critical path", [(f"{critical_path_text(summary)}.", "")]),
            ("again", [("This page is made by", command)]),
        ],
        trust=[
            ("prediction", certainty_sentence(summary)),
            ("clocks", str(facts.get("clock", ""))),
            ("ops", f"{summary['ops']:,}"),
        ],
        figure=_box_bars(summary, FEW),
    )


def _most_waited_for(lateness: Recorded) -> list[Recorded]:
    """Table rows of the first screen: the ranks that others wait for longest, in rank order."""
    most = sorted(lateness["ranks"], key=lambda one: -float(one["late"]))[:ON_FIRST]
    return sorted(most, key=lambda one: int(one["rank"]))


def _time_table(summary: Recorded) -> Table:
    """Table with the seconds of each rank by time category."""
    columns = [Column("rank", header=True)]
    columns += [Column(box.replace("_", " "), number=True) for box in summary["boxes"]]
    rows = [
        [f"{rank}", *(format_quantity(times[rank], "s") for times in summary["boxes"].values())]
        for rank in range(len(summary["ranks"]))
    ]
    return Table(columns, rows)


def _box_bars(summary: Recorded, max_ranks: int) -> BarChart:
    """Stacked bar of the time categories of each rank; of many ranks, evenly spaced ones."""
    count = len(summary["ranks"])
    ranks = range(0, count, -(-count // max_ranks))
    times = {f"rank {r}": {box: t[r] for box, t in summary["boxes"].items()} for r in ranks}
    every = "" if len(ranks) == count else f", every {ranks.step} ranks"
    return schedule.time_breakdown_bars(times, f"time of each rank{every}", thick=20)


def _boxes(summary: Recorded) -> Iterator[Block]:
    yield Paragraph(
        "Every instant of a rank is in exactly one category; a row adds up to the length of the "
        "recording."
    )
    if len(summary["ranks"]) > FEW:
        yield _box_bars(summary, len(summary["ranks"]))
    yield _time_table(summary)


def _waiting(summary: Recorded) -> Iterator[Block]:
    if (late := summary.get("late")) is not None:
        yield from waiting_blocks(late)


def _critical_path(summary: Recorded) -> Iterator[Block]:
    yield Paragraph(
        "Each instant is charged to the part that bounded it and to its rank; the rows add up to "
        "the length of the recording. A late start is the time before a rank's first op, while "
        "other ranks waited for it."
    )
    whole = sum(one["seconds"] for one in summary["path"]) or 1.0
    columns = [Column("charged", header=True), Column("time", number=True), Column("", number=True)]
    rows = [
        [name, format_quantity(t, "s"), format_share(t / whole)]
        for name, t in critical_path_rows(summary)
    ]
    yield Table(columns, rows)


def _timeline(summary: Recorded, result: Result) -> Iterator[Block]:
    chart, text = timeline_chart(result, lateness=summary.get("late"))
    yield Live("timeline", timeline_data({"recording": result.detail}), chart, text)
