"""What a host thread starts and does not wait for: GPU work, and collectives of gloo's threads."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from ..column_table import Integers
from ..event_columns import Event
from .cpu_segments import Marks
from .rank_trace import RankTrace, rows_of

ISSUE = re.compile(r"c10d::(?!.*wait)")


class Launches(NamedTuple):
    """Work that was launched, by line and start.

    Parameters
    ----------
    row : (n,) row of the event in its view
    line, start, end : (n,)
    call : (n,) row of the call that launched it; -1 where that is not recorded
    point : (n,) ticks; until here the calling thread's time was needed to start it
    latency : ticks from the beginning of a call to the start of its work on an idle stream (median)
    """

    row: Integers
    line: Integers
    start: Integers
    end: Integers
    call: Integers
    point: Integers
    latency: int

    def marks(self, view: RankTrace) -> Marks:
        """Where the calling threads are cut."""
        called = self.call >= 0
        return Marks(view.lines[self.call[called]], self.point[called])

    def previous(self) -> Integers:
        """(n,) The work before each on its line; -1 for the first."""
        at = np.arange(len(self.line))
        same = np.concatenate([[False], self.line[1:] == self.line[:-1]])[: len(at)]
        return np.where(same, at - 1, -1)


def launches_of(view: RankTrace) -> Launches:
    """Join work to the calls that launched it."""
    row = rows_of(view, view.on_gpu | view.network)
    call = np.where(view.on_gpu[row], _by_correlation(view, row), -1)
    gloo = np.flatnonzero(view.network[row])
    call[gloo] = _issues(view, row[gloo])
    line, start, end = view.lines[row], view.start[row], view.end[row]
    latency = _latency(view, line, start, end, call)
    begin = view.start[call]
    point = np.minimum(np.minimum(begin + latency, view.end[call]), start)
    return Launches(row, line, start, end, call, np.where(call >= 0, point, start), latency)


def _by_correlation(view: RankTrace, row: Integers) -> Integers:
    """The outermost runtime call with the same correlation; -1 for none."""
    calls = np.flatnonzero((view.kind == Event.RUNTIME) & (view.correlation > 0))
    if not len(calls):
        return np.full(len(row), -1, np.int64)
    calls = calls[np.lexsort((view.start[calls], view.correlation[calls]))]
    wanted = view.correlation[row]
    at = np.minimum(np.searchsorted(view.correlation[calls], wanted), len(calls) - 1)
    return np.where(view.correlation[calls[at]] == wanted, calls[at], -1)


def _issues(view: RankTrace, row: Integers) -> Integers:
    """The operator that issued each gloo collective: the k-th of one kind and shape is the k-th."""
    issues = np.flatnonzero((view.kind == Event.OP) & view.named(ISSUE))
    waiting: dict[tuple[str, str], list[int]] = {}
    for i in issues[np.argsort(view.start[issues], kind="stable")].tolist():
        waiting.setdefault(_work(view, i), []).append(i)
    found = np.full(len(row), -1, np.int64)
    for k in np.argsort(view.start[row], kind="stable").tolist():
        queue = waiting.get(_work(view, int(row[k])), [])
        if queue and view.start[queue[0]] <= view.start[row[k]]:
            found[k] = queue.pop(0)
    return found


def _work(view: RankTrace, row: int) -> tuple[str, str]:
    """What a collective does: its name and the numbers in its shapes."""
    name = re.sub(r"^(c10d::|gloo:)|_", "", view.text(row)).removesuffix("coalesced")
    shapes = int(view.events["shapes"][row])
    text = view.trace.strings[shapes] if shapes >= 0 else ""
    return name, ",".join(re.findall(r"\d+", text))


def _latency(
    view: RankTrace, line: Integers, start: Integers, end: Integers, call: Integers
) -> int:
    """Median time from call to start where nothing was in the way."""
    if not len(row_idle := _idle(view, line, end, call)):
        return 0
    return max(int(np.median(start[row_idle] - view.start[call[row_idle]])), 0)


def _idle(view: RankTrace, line: Integers, end: Integers, call: Integers) -> Integers:
    before = np.concatenate([[np.iinfo(np.int64).min], end[:-1]])[: len(end)]
    first = np.concatenate([[True], line[1:] != line[:-1]])[: len(line)]
    free = first | (before <= view.start[call])
    return np.flatnonzero((call >= 0) & free)
