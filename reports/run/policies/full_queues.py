"""Section on bounded queues: how many ops found each full, and what became of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...blocks import Block, Column, Heading, Line, Paragraph, Table
from ...section import section
from ...texts.study import StudyShown

MOST_ROWS = 24
Row = Mapping[str, Any]


@section("queues", title="Full queues", order=44)
def full_queues(study: StudyShown) -> Iterable[Block]:
    """Section on the ops that bounded queues turned away, in every variant."""
    found = {n: p["queues"] for n, p in study.summary["points"].items() if p.get("queues")}
    if not found:
        return
    yield Paragraph(
        "Ops that found the queue of their component full, and what became of them. An op counts "
        "at the component to which it was sent first. Ops that depend on a dropped op are "
        "cancelled; they are not counted here."
    )
    for name, queues in found.items():
        if len(study.summary["points"]) > 1:
            yield Heading(name)
        yield _table(queues["components"])
        if queues.get("by_job"):
            told = ", ".join(f"{job} {count:,}" for job, count in queues["by_job"].items())
            yield Paragraph(f"Dropped ops by job: {told}.")


def _table(components: Sequence[Row]) -> Table:
    """Table of the components whose queues were found full most often."""
    rows: list[list[Line]] = [
        [
            row["component"], f"{row['length']:,}", row["rule"], f"{row['full']:,}",
            f"{row['dropped']:,}", _others(row, "elsewhere"), _others(row, "wait"),
        ]
        for row in components[:MOST_ROWS]
    ]  # fmt: skip
    if len(components) > MOST_ROWS:
        rest = components[MOST_ROWS:]
        full, dropped = (sum(row[key] for row in rest) for key in ("full", "dropped"))
        rows.append([f"{len(rest):,} more", "", "", f"{full:,}", f"{dropped:,}", "", ""])
    columns = [
        Column("component", header=True), Column("may wait", number=True), Column("when full"),
        Column("found it full", number=True), Column("dropped", number=True),
        Column("went elsewhere", number=True), Column("waited outside", number=True),
    ]  # fmt: skip
    return Table(columns, rows, stacked=True)


def _others(row: Row, rule: str) -> str:
    """Number of ops that were not dropped, if the queue has this rule."""
    return f"{row['full'] - row['dropped']:,}" if row["rule"] == rule else ""
