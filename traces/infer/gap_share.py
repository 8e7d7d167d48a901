"""Fraction of the recorded time that is gaps: time that no dependency explains."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...sim.facts.ops import Kind
from ..column_table import Ints


def gap_share(
    kind: NDArray[np.int64], rank: Ints, start: Ints, end: Ints, source: Ints, target: Ints
) -> float:
    """Fraction of the critical path's time that is gaps, in the recorded schedule; mean over ranks.

    The path of a rank is followed backwards from its last op, always to the dependency that ended
    last.
    """
    before = _last_ended_dependency(end, source, target).tolist()
    durations = (end - start).tolist()
    is_gap = (kind == Kind.GAP).tolist()
    shares = []
    for r in np.unique(rank).tolist():
        rows = np.flatnonzero(rank == r)
        shares.append(
            _gap_share_of_path(int(rows[np.argmax(end[rows])]), before, durations, is_gap)
        )
    return float(np.mean(shares)) if shares else 0.0


def _gap_share_of_path(
    op: int, before: list[int], durations: list[int], is_gap: list[bool]
) -> float:
    """Fraction of time that is gaps, on the critical path that ends with the given op."""
    total = gaps = 0
    while op >= 0:
        total += durations[op]
        gaps += durations[op] * is_gap[op]
        op = before[op]
    return gaps / total if total else 0.0


def _last_ended_dependency(end: Ints, source: Ints, target: Ints) -> Ints:
    """The dependency of each op that ended last, shape (n,); -1 if it has none."""
    last = np.full(len(end), -1, np.int64)
    order = np.argsort(end[source], kind="stable")
    last[target[order]] = source[order]  # the last write wins
    return last
