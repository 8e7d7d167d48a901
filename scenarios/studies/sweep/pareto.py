"""Pareto front: points that no other point beats in every objective."""

from __future__ import annotations

from collections.abc import Sequence


def pareto_front(points: Sequence[tuple[float, ...]]) -> list[int]:
    """Indices of the rows that no other row dominates; lower numbers are better.

    A row dominates another if it is at least as good in every number and better in one; equal rows
    are all on the front.

    Examples
    --------
    >>> pareto_front([(1.0, 5.0), (2.0, 2.0), (3.0, 2.0), (5.0, 1.0), (2.0, 2.0)])
    [0, 1, 3, 4]
    >>> pareto_front([(3.0,), (1.0,), (1.0,)])
    [1, 2]
    """
    best: list[tuple[float, ...]] = []
    kept = []
    for row in sorted(range(len(points)), key=lambda i: points[i]):
        if not any(_dominates(b, points[row]) for b in best):
            kept.append(row)
            if points[row] not in best:
                best.append(points[row])
    return sorted(kept)


def _dominates(first: tuple[float, ...], second: tuple[float, ...]) -> bool:
    return first != second and all(a <= b for a, b in zip(first, second, strict=True))
