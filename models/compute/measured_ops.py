"""Measured times of ops: exact at measured sizes, interpolated between, unknown outside."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...sim.facts.signature import parse_signature
from .interpolation import MeasuredPoints, log_sizes


class Place(NamedTuple):
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

    def place(self, text: str) -> Place | None:
        """Where the op of a signature lies; None of an op of no known kind."""
        return signature_place(text)

    def add(self, measured: Iterable[tuple[Hashable, Place, float]]) -> None:
        """Add measured ops by their identity; several times of one count with their median."""
        found: dict[Hashable, tuple[Place, list[float]]] = {}
        for name, place, s in measured:
            found.setdefault(name, (place, []))[1].append(s)
        for name, (place, times) in found.items():
            self._seconds[name] = seconds = float(np.median(times))
            self._rows.setdefault(place.key, []).append(([*place.sizes], seconds))

    def points(self, place: Place | None) -> MeasuredPoints | None:
        """Measured points of the key of a place; None where none was measured."""
        if place and place.key not in self._points and place.key in self._rows:
            self._points[place.key] = MeasuredPoints(self._rows[place.key])
        return self._points.get(place.key) if place else None

    def measured(self, text: str) -> float:
        """Seconds of an op at a measured size; NaN at another."""
        return self._seconds.get(text, np.nan)

    def seconds(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """(n,) s of ops with these signatures; NaN outside the measured sizes."""
        found = np.array([self.measured(text) for text in texts])
        missing: dict[Hashable, list[tuple[int, Place]]] = {}
        for i in np.flatnonzero(np.isnan(found)).tolist():
            if place := self.place(texts[i]):
                missing.setdefault(place.key, []).append((i, place))
        for some in missing.values():
            rows, places = zip(*some, strict=True)
            if points := self.points(places[0]):
                sizes = log_sizes([[*p.sizes] for p in places])
                found[[*rows]] = points.interpolate_inside(sizes, places[0].triangulate)
        return found


def signature_place(text: str) -> Place:
    """Place among ops of one name whose operands are of the same types."""
    s = parse_signature(text)
    key = (s.kind, s.name, *((o.dtype, len(o.shape)) for o in s.operands))
    return Place(key, tuple(size for o in s.operands for size in o.shape))
