"""Checks of a trace read from a file: every number must refer to something that exists."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..sim.errors import TraceError
from .event_columns import TABLES, TEXTS, Event
from .recorded_events import RecordedEvents

LONGEST = 2**62  # ticks: sums of two times stay within 64 bits
MOST_RANKS = 2**20  # of one job; a larger number is damage


def refuse_damaged(trace: RecordedEvents, place: str) -> None:
    """Refuse a trace that contains a number out of range.

    Parameters
    ----------
    place : prefix of the error message that names the trace

    Raises
    ------
    TraceError
        A text, track, rank or event does not exist, or a time is impossible.

    Examples
    --------
    >>> refuse_damaged(RecordedEvents.of(strings=("aten::mm",), name=[0, 7]), "t")
    Traceback (most recent call last):
    foretrace.sim.errors.TraceError: t: events: row 1: name is 7, not within -1 to 0; the trace ...
    """
    for table, column, low, high in _column_bounds(trace):
        values = getattr(trace, table)[column]
        wrong = np.flatnonzero((values < low) | (values > high))
        if len(wrong):
            raise TraceError(
                f"{place}: {table}: row {wrong[0]}: {column} is {values[wrong[0]]}, not within "
                f"{low} to {high}; the trace is damaged, import it again"
            )
    _refuse_ranks(trace, place)


def _column_bounds(trace: RecordedEvents) -> Iterator[tuple[str, str, int, int]]:
    """Yield (table, column, minimum, maximum) for every column of bounded numbers."""
    yield "events", "track", 0, len(trace.tracks) - 1
    yield "events", "kind", 0, max(Event)
    yield "events", "ts", -LONGEST, LONGEST
    yield "events", "dur", 0, LONGEST
    for table in TABLES:
        if table != "events":
            yield table, "event", 0, len(trace.events) - 1
    for table, column in TEXTS:
        yield table, column, -1, len(trace.strings) - 1


def _refuse_ranks(trace: RecordedEvents, place: str) -> None:
    ranks = trace.ranks
    for p in trace.processes:
        if not 0 <= p.rank < (p.world or MOST_RANKS) <= MOST_RANKS:
            raise TraceError(
                f"{place}: {p.file or 'a process'} has rank {p.rank} of {p.world or 'unknown'}; "
                f"a job has ranks from 0, and at most {MOST_RANKS}: record it again"
            )
    if list(ranks) != sorted(set(ranks)) or not np.isin(trace.events["rank"], ranks).all():
        raise TraceError(
            f"{place}: events and files are of different ranks; the trace is damaged, import it "
            "again"
        )
