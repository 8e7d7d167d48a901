"""Ranks: what each does by itself, how long it waits, and how long others wait for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..blocks import Block, Column, Paragraph, Table
from ..numbers import format_quantity
from ..section import section
from .study import StudyShown


@section("stragglers", title="Who waits for whom", order=25)
def stragglers(study: StudyShown) -> Iterable[Block]:
    """Own time, waiting and lateness of each rank of the base scenario."""
    late = study.base.get("late")
    if late is None:
        return
    yield Paragraph(
        f"Over the whole run, of {late['collectives']:,} collectives for which any rank waited. A "
        "rank's own time is all in which it neither waits nor only communicates nor idles; what "
        "others waited is added up over them."
    )
    columns = [Column("rank", header=True)] + [
        Column(name, number=True)
        for name in ("own time", "waiting", "others waited for it", "arrived last")
    ]
    yield Table(columns, [_rank_row(one) for one in late["ranks"]])


def _rank_row(one: Mapping[str, Any]) -> list[str]:
    times = [format_quantity(one[key], "s") for key in ("own", "waiting", "late")]
    return [f"{one['rank']}", *times, f"{one['last']:,}"]
