"""Interpolation between measured points, linear in the logarithms of sizes and time.

It is multilinear inside a box whose corners were all measured (exact for a power law), and
otherwise linear in a simplex of the Delaunay triangulation.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
Pair = tuple[float, float]
SLACK = 1e-9  # tolerance in logarithms for points on the border of the hull
NEAR = 2  # candidate bounds of a box on either side of a size


def log_sizes(sizes: list[list[int]]) -> Matrix:
    """Natural logarithms of sizes, shape (n, sizes); a size of 0 counts as 0.5.

    >>> log_sizes([[1, 0]]).round(3).tolist()
    [[0.0, -0.693]]
    """
    raw = np.array(sizes, float).reshape(len(sizes), -1)
    return np.asarray(np.log(np.maximum(raw, 0.5)))


class MeasuredPoints:
    """Measured times of ops that differ only in sizes.

    Examples
    --------
    >>> points = MeasuredPoints([([8, 8], 1e-6), ([32, 32], 4e-6)])
    >>> points.interpolate_inside(log_sizes([[16, 16], [16, 8]])).round(9).tolist()
    [2e-06, nan]
    """

    def __init__(self, rows: list[tuple[list[int], float]]):
        self._raw = np.array([sizes for sizes, _ in rows], float).reshape(len(rows), -1)
        points = log_sizes([sizes for sizes, _ in rows])
        self._points, self._seconds = points, np.log([s for _, s in rows])
        self._centre = points.mean(axis=0)
        self._axes = _independent_columns(points - self._centre)
        kept = points[:, self._axes]
        self._dependence = np.linalg.pinv(kept - self._centre[self._axes]) @ (points - self._centre)
        self._seconds_at = dict(zip(map(tuple, kept.tolist()), self._seconds.tolist(), strict=True))
        self._values = [np.unique(column) for column in kept.T]
        self._simplices: object = None

    @property
    def range(self) -> str:
        """Smallest and largest measured sizes, as text for messages."""
        low, high = self._raw.min(axis=0), self._raw.max(axis=0)
        return f"{low.astype(int).tolist()} to {high.astype(int).tolist()}"

    def interpolate_inside(self, sizes: Matrix, triangulate: bool = True) -> NDArray[np.float64]:
        """Interpolated time in s, shape (n,); NaN outside the convex hull of the measured points.

        Parameters
        ----------
        sizes : (n, sizes) logarithms of the sizes
        triangulate : True to use a simplex if no box of measured points exists; this takes minutes
            with more than three axes
        """
        x = sizes[:, self._axes]
        tied = self._centre + (x - self._centre[self._axes]) @ self._dependence
        off = np.abs(tied - sizes).max(axis=1, initial=0.0)
        logs_of_seconds = np.array([self._interpolate_in_box(row) for row in x.tolist()])
        low, high = (np.array([v[i] for v in self._values]) for i in (0, -1))
        within = ((x >= low - SLACK) & (x <= high + SLACK)).all(axis=1)
        rest = np.flatnonzero(np.isnan(logs_of_seconds) & (off <= SLACK) & within)
        several = triangulate and len(self._axes) > 1
        if several and len(rest) and len(self._seconds) > len(self._axes):
            logs_of_seconds[rest] = self._interpolate_in_simplex(x[rest])
        # a size that was constant, or dependent on others, in all measurements must be so here
        return np.where(off <= SLACK, np.exp(logs_of_seconds), np.nan)

    def extrapolate_nearest(self, sizes: Matrix) -> tuple[float, float]:
        """Time in s extrapolated from the nearest point, and the largest size ratio to it.

        The time grows with the product of the sizes that are larger; smaller sizes do not reduce
        it.

        Parameters
        ----------
        sizes : logarithms of the sizes of one op
        """
        k = int(np.argmin(np.abs(self._points - sizes).sum(axis=1)))
        grown = float(np.max(np.abs(sizes - self._points[k]), initial=0.0))
        larger = float(np.maximum((sizes - self._points[k])[self._axes], 0).sum())
        return float(np.exp(self._seconds[k] + larger)), float(np.exp(grown))

    def _interpolate_in_box(self, x: list[float]) -> float:
        """Logarithm of the time from the smallest measured box around a point, or NaN."""
        sides = [list(_bounds_around(v, values)) for v, values in zip(x, self._values, strict=True)]
        for box in sorted(product(*sides), key=lambda b: sum(high - low for low, high in b)):
            corners = [self._seconds_at.get(corner) for corner in product(*map(_ends_of_side, box))]
            if None not in corners:
                return _blend_corners(x, box, [c for c in corners if c is not None])
        return float("nan")

    def _interpolate_in_simplex(self, x: Matrix) -> Matrix:
        from scipy.interpolate import LinearNDInterpolator

        if self._simplices is None:
            self._simplices = LinearNDInterpolator(self._points[:, self._axes], self._seconds)
        return np.asarray(self._simplices(x))  # type: ignore[operator]


def _bounds_around(x: float, values: Matrix) -> Iterator[Pair]:
    """Candidate (low, high) bounds of a box along one axis, tightest first."""
    first, last = np.searchsorted(values, [x - SLACK, x + SLACK])
    for v in values[first:last].tolist():
        yield v, v
    below, above = values[:first][-NEAR:].tolist(), values[last:][:NEAR].tolist()
    yield from product(below, above)


def _ends_of_side(side: Pair) -> tuple[float, ...]:
    return side if side[0] < side[1] else side[:1]


def _blend_corners(x: list[float], box: tuple[Pair, ...], corners: list[float]) -> float:
    """Multilinear interpolation between the corners of a box."""
    for v, (low, high) in reversed(list(zip(x, box, strict=True))):
        if low < high:
            part = (v - low) / (high - low)
            corners = [a + part * (b - a) for a, b in zip(corners[::2], corners[1::2], strict=True)]
    return corners[0]


def _independent_columns(centred: Matrix) -> list[int]:
    """Indices of the first linearly independent columns."""
    kept: list[int] = []
    for c in range(centred.shape[1]):
        if np.linalg.matrix_rank(centred[:, [*kept, c]], tol=1e-9) > len(kept):
            kept.append(c)
    return kept
