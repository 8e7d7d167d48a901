"""Training steps of a rank: start and end of each.

A step lasts from its mark (``ProfilerStep#k``) to the next mark; the last one to the end of its own
mark. Events before the first and after the last step belong to none. A trace without marks is one
step.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....sim.errors import TraceError
from ...column_table import Ints
from ...event_columns import ON_GPU, Event
from .rank_trace import STEP, RankTrace


class Steps(NamedTuple):
    """Steps of a rank, in ascending order.

    Parameters
    ----------
    number : recorded step numbers; 0 if steps were not marked
    start, end : times in ticks, shape (k,)
    recorded : duration of each step's mark in ticks, shape (k,)
    marked : True if the trace marks where steps begin
    """

    number: tuple[int, ...]
    start: Ints
    end: Ints
    recorded: Ints
    marked: bool = True

    def position_at(self, time: Ints) -> Ints:
        """Index of the step at each time (ticks), shape (n,); -1 outside of all steps."""
        at = np.searchsorted(self.start, time, side="right") - 1
        inside: NDArray[np.bool_] = (at >= 0) & (time < self.end[at])
        return np.where(inside, at, -1)

    def select(self, numbers: Iterable[int] | None, place: str) -> Steps:
        """Steps with the given numbers; all steps if None.

        Raises
        ------
        TraceError
            A step with that number is not recorded.
        """
        if numbers is None:
            return self
        wanted = set(numbers)
        missing = wanted - set(self.number)
        if missing:
            raise TraceError(
                f"{place}: has no step {min(missing)}; it has "
                f"{', '.join(map(str, self.number))}: choose from these"
            )
        k = [i for i, n in enumerate(self.number) if n in wanted]
        number = tuple(self.number[i] for i in k)
        return Steps(number, self.start[k], self.end[k], self.recorded[k], self.marked)


def find_steps(events: RankTrace) -> Steps:
    """Find the steps of one rank."""
    rows = np.flatnonzero(events.is_step_mark)
    if not len(rows):
        work = events.lane_of_event >= 0
        low, high = events.start[work].min(initial=2**62), events.end[work].max(initial=0)
        start, end, lasts = (np.array([v], np.int64) for v in (low, high + 1, high - low))
        return Steps((0,), start, end, lasts, marked=False)
    number, first = _numbered_marks(events, rows)
    start, end = events.start[first], events.end[first]
    return Steps(number, start, np.append(start[1:], end[-1:]), events.dur[first])


def repeated_step_numbers(events: RankTrace) -> tuple[int, ...]:
    """Step numbers that several steps of a rank have, ascending."""
    marks = _successive_marks(events, np.flatnonzero(events.is_step_mark))
    numbers = [number for number, _ in marks]
    return tuple(sorted({n for n in numbers if numbers.count(n) > 1}))


def _numbered_marks(events: RankTrace, rows: Ints) -> tuple[tuple[int, ...], Ints]:
    """Number and row of each step; steps are counted from the first if their numbers repeat."""
    marks = _successive_marks(events, rows)
    numbers = tuple(number for number, _ in marks)
    if len(set(numbers)) < len(numbers):
        numbers = tuple(range(numbers[0], numbers[0] + len(numbers)))
    return numbers, np.array([row for _, row in marks])


def _successive_marks(events: RankTrace, rows: Ints) -> list[tuple[int, int]]:
    """Number and row of each step mark, by start; one of marks of a number that overlap."""
    marks: list[tuple[int, int]] = []
    until: dict[int, int] = {}
    for row in rows[np.argsort(events.start[rows], kind="stable")].tolist():
        mark = STEP.match(events.text(row))
        number = int(mark[1]) if mark else 0
        if int(events.start[row]) >= until.get(number, -(2**62)):
            marks.append((number, row))
        until[number] = max(int(events.end[row]), until.get(number, 0))
    return marks


def alternation_length(events: RankTrace, found: Steps) -> int:
    """Number of steps after which a rank repeats its work: 2 if two optimizers alternate.

    It is inferred from the numbers of operators and of GPU work in each step. It is 1 if all steps
    are alike, if no pattern repeats, or if fewer than two complete cycles were recorded.
    """
    number = len(found.number)
    done = [
        np.bincount(step[step >= 0], minlength=number)
        for kinds in ((Event.OP,), ON_GPU)
        for step in [found.position_at(events.start[np.isin(events.kind, kinds)])]
    ]
    of_step = list(zip(*(counts.tolist() for counts in done), strict=True))
    if len(set(of_step)) == 1:
        return 1
    turns = range(2, number // 2 + 1)
    return next((m for m in turns if of_step[m:] == of_step[:-m]), 1)
