"""Report of a replayed recording in a terminal: where its time goes, and which rank is late."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ....reports.recorded.recorded_answer import recorded_sentences
from ....reports.texts.waiting import collective_table, rank_table
from .common import print_sentences, print_table, terminal_table

MOST = 16  # collectives that are listed: those with most waiting
Late = Mapping[str, Any]


def print_recorded(summary: Mapping[str, Any]) -> None:
    """Print the result in sentences, a table row per rank, and the ranks that arrive last."""
    console = print_sentences(recorded_sentences(summary))
    late = summary.get("late")
    if late is None:
        return
    console.print()
    print_table(console, terminal_table(rank_table(late)))
    console.print()
    print_table(console, terminal_table(collective_table(late["met"], MOST)))
