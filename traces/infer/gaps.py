"""What stands between an op's readiness and its recorded start: delays, gaps, late returns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...sim.ops import Kind
from ..column_table import Integers

NEVER = np.iinfo(np.int64).min


@dataclass(frozen=True)
class RankOps:
    """Ops of one rank and their dependencies.

    Parameters
    ----------
    kind, line, iteration : (n,)
    start, end : (n,) ticks on the rank's own clock; an op lasts from its readiness to ``end``
    owner : (n,) row of the event in the view; -1 for none
    release : (n,) ticks, not before; NEVER where an op waits for others only
    source, target : (e,) dependencies
    """

    kind: NDArray[np.uint8]
    line: Integers
    iteration: Integers
    start: Integers
    end: Integers
    owner: Integers
    release: Integers
    source: Integers
    target: Integers


def add_gaps(t: RankOps, first: int, expected: tuple[Integers, int]) -> RankOps:
    """Put a delay, a gap or both before launched work that began later than it was ready.

    What launching usually takes is a delay; the rest nothing explains, and is a gap.
    """
    ready = t.release.copy()
    np.maximum.at(ready, t.target, t.end[t.source])
    launch, lag = expected
    late = np.maximum(t.start - ready, 0)
    late[:first] = 0
    late[ready == NEVER] = 0
    usual = np.full(len(late), lag)
    usual[first:] = np.maximum(launch, lag)
    delayed = np.minimum(late, usual)
    return _with_bridges(t, ready, delayed, late - delayed)


def _with_bridges(t: RankOps, ready: Integers, delay: Integers, gap: Integers) -> RankOps:
    n = len(t.start)
    delays, gaps = np.flatnonzero(delay), np.flatnonzero(gap)
    delay_op, gap_op = np.full(n, -1), np.full(n, -1)
    delay_op[delays] = n + np.arange(len(delays))
    gap_op[gaps] = n + len(delays) + np.arange(len(gaps))
    head = np.where(gap_op >= 0, gap_op, np.where(delay_op >= 0, delay_op, np.arange(n)))
    both = np.flatnonzero((delay > 0) & (gap > 0))
    late = np.concatenate([delays, gaps])
    release = np.concatenate([t.release, np.full(len(late), NEVER)])
    release[head] = t.release
    release[:n][head != np.arange(n)] = NEVER
    fast = np.setdiff1d(gaps, both)
    kinds = np.repeat([Kind.DELAY, Kind.GAP], [len(delays), len(gaps)]).astype(np.uint8)
    begins = np.concatenate([ready[delays] + gap[delays], ready[gaps]])
    ends = np.concatenate([t.start[delays], ready[gaps] + gap[gaps]])
    return RankOps(
        np.concatenate([t.kind, kinds]),
        np.concatenate([t.line, t.line[late]]),
        np.concatenate([t.iteration, t.iteration[late]]),
        np.concatenate([np.maximum(t.start, ready), begins]),
        np.concatenate([np.maximum(t.end, np.maximum(t.start, ready)), ends]),
        np.concatenate([t.owner, t.owner[late]]),
        release,
        np.concatenate([t.source, delay_op[delays], gap_op[both], gap_op[fast]]),
        np.concatenate([head[t.target], delays, delay_op[both], fast]),
    )


def with_returns(t: RankOps, work: Integers) -> RankOps:
    """Between a collective on a thread of its own and whoever waits for it: its return.

    It takes no time here; once the other members are known it is how much later this rank's
    thread came back than the first.
    """
    n = len(t.start)
    work = np.unique(work[work >= 0])
    back = np.full(n, -1)
    back[work] = n + np.arange(len(work))
    waited = back[t.source] >= 0
    end = t.end[work]
    return RankOps(
        np.concatenate([t.kind, np.full(len(work), Kind.DELAY, np.uint8)]),
        np.concatenate([t.line, t.line[work]]),
        np.concatenate([t.iteration, t.iteration[work]]),
        np.concatenate([t.start, end]),
        np.concatenate([t.end, end]),
        np.concatenate([t.owner, t.owner[work]]),
        np.concatenate([t.release, np.full(len(work), NEVER)]),
        np.concatenate([np.where(waited, back[t.source], t.source), work]),
        np.concatenate([t.target, back[work]]),
    )
