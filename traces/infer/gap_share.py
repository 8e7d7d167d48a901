"""How much of the recorded time only gaps explain."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...sim.ops import Kind
from ..column_table import Integers


def gap_share(
    kind: NDArray[np.int64],
    rank: Integers,
    start: Integers,
    end: Integers,
    source: Integers,
    target: Integers,
) -> float:
    """Share of the critical path of the recorded schedule that is gaps, mean over ranks.

    The path is followed back from each rank's last op, always to the dependency that ended last.
    """
    before = _binding(end, source, target).tolist()
    lasts = (end - start).tolist()
    is_gap = (kind == Kind.GAP).tolist()
    shares = []
    for r in np.unique(rank).tolist():
        rows = np.flatnonzero(rank == r)
        shares.append(_along(int(rows[np.argmax(end[rows])]), before, lasts, is_gap))
    return float(np.mean(shares)) if shares else 0.0


def _along(op: int, before: list[int], lasts: list[int], is_gap: list[bool]) -> float:
    total = gaps = 0
    while op >= 0:
        total += lasts[op]
        gaps += lasts[op] * is_gap[op]
        op = before[op]
    return gaps / total if total else 0.0


def _binding(end: Integers, source: Integers, target: Integers) -> Integers:
    """(n,) The dependency of each op that ended last; -1 for none."""
    found = np.full(len(end), -1, np.int64)
    order = np.argsort(end[source], kind="stable")
    found[target[order]] = source[order]  # the last write wins
    return found
