"""Clock offsets of ranks: 0 unless a collective proves that recorded clocks disagree.

At some instant all members of an all-reduce are in it: the last member starts before the first one
ends. If recorded times contradict this, clocks are shifted so that collectives end together. If
they still contradict it, no shift of clocks can explain the recording.
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
    """Clock shift to add to the times of each rank.

    Parameters
    ----------
    ticks : shift of each rank in ticks, shape (ranks,)
    note : text that says what was done
    proven : True if, after the shift, all members of every collective overlap at some instant.
        Dependencies then go forward in time and cannot form a cycle
    """

    ticks: Ints
    note: str
    proven: bool


def clock_offsets(
    graphs: Sequence[RankGraph], matches: Sequence[MatchedCollective]
) -> ClockOffsets:
    """Find clock shifts of ranks after which the members of every collective overlap in time.

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
    """Collective whose members are furthest apart in time, and the distance in ticks."""
    apart = [_ticks_apart(graphs, m, shift) for m in matches]
    at = int(np.argmax(apart))
    return apart[at], matches[at]


def _ticks_apart(
    graphs: Sequence[RankGraph], m: MatchedCollective, shift: NDArray[np.int64]
) -> int:
    """Ticks from the first member's end to the last member's start.

    Positive if they never overlap.
    """
    starts = [int(graphs[i].start[c.work] + shift[i]) for i, c in m.members]
    ends = [int(graphs[i].end[c.work] + shift[i]) for i, c in m.members]
    return max(starts) - min(ends)


def _align_ends(
    graphs: Sequence[RankGraph], matches: Sequence[MatchedCollective]
) -> NDArray[np.int64]:
    """Clock shift of each rank, shape (ranks,), that aligns the ends of collectives (median)."""
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
    """Median ticks by which collectives end earlier in graph `j` than in graph `i`."""
    lags = []
    for m in matches:
        rows = {k: c.work for k, c in m.members}
        if i in rows and j in rows:
            lags.append(int(graphs[i].end[rows[i]] - graphs[j].end[rows[j]]))
    return int(np.median(lags))
