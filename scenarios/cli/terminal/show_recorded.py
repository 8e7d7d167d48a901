"""A recording as it is, in a terminal: where its time goes, and which rank it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ....reports.blocks import Table, plain_text
from ....reports.recorded.recorded_answer import recorded_sentences
from ....reports.texts.waiting import collective_table, rank_table
from .common import print_sentences, print_table

MOST = 16  # collectives that are listed: those with most waiting
Late = Mapping[str, Any]


def print_recorded(summary: Mapping[str, Any]) -> None:
    """Print the answer in sentences, a row for each rank, and the last arrivers."""
    console = print_sentences(recorded_sentences(summary))
    late = summary.get("late")
    if late is None:
        return
    console.print()
    print_table(console, _table(rank_table(late)))
    console.print()
    print_table(console, _table(collective_table(late["met"], MOST)))


def _table(table: Table) -> Any:
    """A table of blocks for the terminal."""
    from rich.table import Table as Printed

    printed = Printed(box=None, pad_edge=False)
    for column in table.columns:
        name = plain_text(column.name)
        printed.add_column(name, justify="right" if column.number else "left", no_wrap=True)
    for row in table.rows:
        printed.add_row(*(plain_text(cell) for cell in row))  # type: ignore[arg-type]
    return printed
