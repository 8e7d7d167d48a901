"""Clock offsets of ranks: 0 unless a collective proves the recorded clocks wrong.

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
from ..column_table import Ints
from .collective_match import MatchedCollective
from .ranks.collective import SYNCHRONISING
from .ranks.rank_graph import RankGraph

SLACK = 1e-3  # s: how far the ends of one collective may lie apart once clocks are aligned


class ClockOffsets(NamedTuple):
    """What is added to the times of each rank.

    Parameters
    ----------
    ticks : (ranks,)
    note : what was done, in words
    proven : whether all members of every collective are in it at one instant; then dependencies
        go forward in time, and cannot form a cycle
    """

    ticks: Ints
    note: str
    proven: bool


def clock_offsets(
    graphs: Sequence[RankGraph], matches: Sequence[MatchedCollective]
) -> ClockOffsets:
    """Find how far each rank's clock must be shifted so that members meet in every collective.

    Raises
    ------
    TraceError
        No shift makes the collectives of two ranks overlap.
    """
    unshifted = np.zeros(len(graphs), np.int64)
    wide = [m for m in matches if len(m.members) > 1 and m.members[0][1].name in SYNCHRONISING]
    proven = all(len(m.members) == 1 or m.members[0][1].name in SYNCHRONISING for m in matches)
    if not wide or _furthest_apart_collective(graphs, wide, unshifted)[0] <= 0:
        return ClockOffsets(unshifted, "as recorded", proven)
    shift = _align_ends(graphs, wide)
    slack = int(SLACK * graphs[0].events.trace.resolution)
    apart, m = _furthest_apart_collective(graphs, wide, shift)
    if apart > slack:
        i, c = m.members[-1]
        seconds = apart / graphs[0].events.trace.resolution
        raise TraceError(
            f"{graphs[i].events.process.file}: {c.signature} of rank {graphs[i].events.rank} is "
            f"{seconds:.3g} s away from the same collective of rank "
            f"{graphs[m.members[0][0]].events.rank}, for any shift of the clocks; the files are "
            "of different runs or of drifting clocks, record them together"
        )
    largest = np.abs(shift).max() / graphs[0].events.trace.resolution
    note = f"shifted by up to {largest:.3g} s so that collectives end together"
    return ClockOffsets(shift, note, proven and apart <= 0)


def _furthest_apart_collective(
    graphs: Sequence[RankGraph], matches: Sequence[MatchedCollective], shift: NDArray[np.int64]
) -> tuple[int, MatchedCollective]:
    """The collective whose members are furthest apart, and by how many ticks."""
    apart = [_ticks_apart(graphs, m, shift) for m in matches]
    at = int(np.argmax(apart))
    return apart[at], matches[at]


def _ticks_apart(
    graphs: Sequence[RankGraph], m: MatchedCollective, shift: NDArray[np.int64]
) -> int:
    """Ticks from the first end to the last start; above 0 the members never met."""
    starts = [int(graphs[i].start[c.work] + shift[i]) for i, c in m.members]
    ends = [int(graphs[i].end[c.work] + shift[i]) for i, c in m.members]
    return max(starts) - min(ends)


def _align_ends(
    graphs: Sequence[RankGraph], matches: Sequence[MatchedCollective]
) -> NDArray[np.int64]:
    """(ranks,) Shifts after which the collectives of two ranks end together, in the median."""
    shift = np.zeros(len(graphs), np.int64)
    known = {0}
    waiting = set(range(1, len(graphs)))
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
        shift[j] = shift[i] + _median_lag(graphs, matches, i, j)
        known.add(j)
        waiting.remove(j)
    return shift


def _median_lag(
    graphs: Sequence[RankGraph], matches: Sequence[MatchedCollective], i: int, j: int
) -> int:
    """Median ticks by which the collectives of graph `j` end before those of graph `i`."""
    lags = []
    for m in matches:
        rows = {k: c.work for k, c in m.members}
        if i in rows and j in rows:
            lags.append(int(graphs[i].end[rows[i]] - graphs[j].end[rows[j]]))
    return int(np.median(lags))
