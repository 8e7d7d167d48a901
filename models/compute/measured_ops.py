"""Measured times of ops: exact at measured sizes, interpolated between, unknown outside."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...sim.facts.signature import parse_signature
from .interpolation import MeasuredPoints, log_sizes


class GridPoint(NamedTuple):
    """Where an op lies among measured ones: those of one ``key`` differ in ``sizes`` alone."""

    key: Hashable
    sizes: tuple[int, ...]
    triangulate: bool = True


class MeasuredOps:
    """Measured seconds of ops by signature: ops of one name and the same types are of one key."""

    def __init__(self, source: str):
        self.source = source
        self._seconds: dict[Hashable, float] = {}
        self._rows: dict[Hashable, list[tuple[list[int], float]]] = {}
        self._points: dict[Hashable, MeasuredPoints] = {}

    def grid_point(self, text: str) -> GridPoint | None:
        """Where the op of a signature lies; None of an op of no known kind."""
        return signature_grid_point(text)

    def add(self, measured: Iterable[tuple[Hashable, GridPoint, float]]) -> None:
        """Add measured ops by their identity; several times of one count with their median."""
        found: dict[Hashable, tuple[GridPoint, list[float]]] = {}
        for name, grid_point, s in measured:
            found.setdefault(name, (grid_point, []))[1].append(s)
        for name, (grid_point, times) in found.items():
            self._seconds[name] = seconds = float(np.median(times))
            self._rows.setdefault(grid_point.key, []).append(([*grid_point.sizes], seconds))

    def points(self, grid_point: GridPoint | None) -> MeasuredPoints | None:
        """Measured points of the key of a place; None where none was measured."""
        if grid_point and grid_point.key not in self._points and grid_point.key in self._rows:
            self._points[grid_point.key] = MeasuredPoints(self._rows[grid_point.key])
        return self._points.get(grid_point.key) if grid_point else None

    def exact_seconds(self, text: str) -> float:
        """Seconds of an op at a measured size; NaN at another."""
        return self._seconds.get(text, np.nan)

    def seconds(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """(n,) s of ops with these signatures; NaN outside the measured sizes."""
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
    """Place among ops of one name whose operands are of the same types."""
    s = parse_signature(text)
    key = (s.kind, s.name, *((o.dtype, len(o.shape)) for o in s.operands))
    return GridPoint(key, tuple(size for o in s.operands for size in o.shape))
