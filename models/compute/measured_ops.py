"""Measured op times: exact at measured sizes, interpolated between them, unknown outside."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...sim.facts.signature import parse_signature
from .interpolation import MeasuredPoints, log_sizes


class GridPoint(NamedTuple):
    """Coordinates of an op among measured ops: ops of one ``key`` differ only in ``sizes``."""

    key: Hashable
    sizes: tuple[int, ...]
    triangulate: bool = True


class MeasuredOps:
    """Measured op times by signature; ops with the same name and types share a key."""

    def __init__(self, source: str):
        self.source = source
        self._seconds: dict[Hashable, float] = {}
        self._rows: dict[Hashable, list[tuple[list[int], float]]] = {}
        self._points: dict[Hashable, MeasuredPoints] = {}

    def grid_point(self, text: str) -> GridPoint | None:
        """Coordinates of an op in the measured grid, from its signature; None if unknown."""
        return signature_grid_point(text)

    def add(self, measured: Iterable[tuple[Hashable, GridPoint, float]]) -> None:
        """Add measured times by op identity; the median is used if an op has several times."""
        found: dict[Hashable, tuple[GridPoint, list[float]]] = {}
        for name, grid_point, s in measured:
            found.setdefault(name, (grid_point, []))[1].append(s)
        for name, (grid_point, times) in found.items():
            self._seconds[name] = seconds = float(np.median(times))
            self._rows.setdefault(grid_point.key, []).append(([*grid_point.sizes], seconds))

    def points(self, grid_point: GridPoint | None) -> MeasuredPoints | None:
        """Measured points with the key of a grid point; None if there are none."""
        if grid_point and grid_point.key not in self._points and grid_point.key in self._rows:
            self._points[grid_point.key] = MeasuredPoints(self._rows[grid_point.key])
        return self._points.get(grid_point.key) if grid_point else None

    def exact_seconds(self, text: str) -> float:
        """Time of an op in s at a measured size; NaN at other sizes."""
        return self._seconds.get(text, np.nan)

    def seconds(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Time in s of ops with these signatures, shape (n,); NaN outside the measured sizes."""
        found = np.array([self.exact_seconds(text) for text in texts])
        missing: dict[Hashable, list[tuple[int, GridPoint]]] = {}
        for i in np.flatnonzero(np.isnan(found)).tolist():
            if grid_point := self.grid_point(texts[i]):
                missing.setdefault(grid_point.key, []).append((i, grid_point))
        for some in missing.values():
            rows, grid_points = zip(*some, strict=True)
            if points := self.points(grid_points[0]):
                sizes = log_sizes([[*p.sizes] for p in grid_points])
                found[[*rows]] = points.interpolate_inside(sizes, grid_points[0].triangulate)
        return found


def signature_grid_point(text: str) -> GridPoint:
    """Grid point of a signature: its key is the op's name and operand types."""
    s = parse_signature(text)
    key = (s.kind, s.name, *((o.dtype, len(o.shape)) for o in s.operands))
    return GridPoint(key, tuple(size for o in s.operands for size in o.shape))
