"""Clocks of several ranks: kept as recorded unless a collective proves them wrong.

All members of an all-reduce are in it at one instant: the last begins before the first ends.
Where recorded times contradict that, clocks are shifted so that collectives end together; where
they still contradict it, no shift makes one clock of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...sim.errors import TraceError
from ..column_table import Integers
from .collective import TOGETHER
from .collective_match import Match
from .rank_graph import RankGraph

SLACK = 1e-3  # s: how far the ends of one collective may lie apart once clocks are aligned


class Offsets(NamedTuple):
    """What is added to the times of each part.

    Parameters
    ----------
    ticks : one for each part
    note : what was done, in words
    proven : whether all members of every collective are in it at one instant; then dependencies
        go forward in time, and cannot form a cycle
    """

    ticks: Integers
    note: str
    proven: bool


def offsets(parts: Sequence[RankGraph], matches: Sequence[Match]) -> Offsets:
    """How far each clock must be shifted.

    Raises
    ------
    TraceError
        No shift makes the collectives of two ranks overlap.
    """
    nothing = np.zeros(len(parts), np.int64)
    wide = [m for m in matches if len(m.members) > 1 and m.members[0][1].name in TOGETHER]
    proven = all(len(m.members) == 1 or m.members[0][1].name in TOGETHER for m in matches)
    if not wide or _worst(parts, wide, nothing)[0] <= 0:
        return Offsets(nothing, "as recorded", proven)
    shift = _by_ends(parts, wide)
    slack = int(SLACK * parts[0].view.trace.resolution)
    apart, m = _worst(parts, wide, shift)
    if apart > slack:
        i, c = m.members[-1]
        seconds = apart / parts[0].view.trace.resolution
        raise TraceError(
            f"{parts[i].view.process.file}: {c.signature} of rank {parts[i].view.rank} is "
            f"{seconds:.3g} s away from the same collective of rank "
            f"{parts[m.members[0][0]].view.rank}, however the clocks are shifted; the files are "
            "of different runs or of drifting clocks, record them together"
        )
    largest = np.abs(shift).max() / parts[0].view.trace.resolution
    note = f"shifted by up to {largest:.3g} s so that collectives end together"
    return Offsets(shift, note, proven and apart <= 0)


def _worst(
    parts: Sequence[RankGraph], matches: Sequence[Match], shift: NDArray[np.int64]
) -> tuple[int, Match]:
    """The largest time between the first end and the last start of one collective."""
    apart = [_apart(parts, m, shift) for m in matches]
    at = int(np.argmax(apart))
    return apart[at], matches[at]


def _apart(parts: Sequence[RankGraph], m: Match, shift: NDArray[np.int64]) -> int:
    starts = [int(parts[i].start[c.work] + shift[i]) for i, c in m.members]
    ends = [int(parts[i].end[c.work] + shift[i]) for i, c in m.members]
    return max(starts) - min(ends)


def _by_ends(parts: Sequence[RankGraph], matches: Sequence[Match]) -> NDArray[np.int64]:
    """Shifts after which collectives end together, in the median, rank by rank."""
    shift = np.zeros(len(parts), np.int64)
    known = {0}
    waiting = set(range(1, len(parts)))
    while waiting:
        reach = [
            (i, j, m)
            for m in matches
            for i, _ in m.members
            for j, _ in m.members
            if i in known and j in waiting
        ]
        if not reach:
            break  # shares no collective with those before: its clock cannot be compared
        i, j, _ = reach[0]
        shift[j] = shift[i] + _median_lag(parts, matches, i, j)
        known.add(j)
        waiting.remove(j)
    return shift


def _median_lag(parts: Sequence[RankGraph], matches: Sequence[Match], i: int, j: int) -> int:
    lags = []
    for m in matches:
        rows = {k: c.work for k, c in m.members}
        if i in rows and j in rows:
            lags.append(int(parts[i].end[rows[i]] - parts[j].end[rows[j]]))
    return int(np.median(lags))
