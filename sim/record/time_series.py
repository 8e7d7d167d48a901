"""Time series: a quantity that processes record over time, in a fixed number of points.

Up to :data:`POINTS` values are kept as they are. With more, those of equal spans of time are merged
into one point, which keeps their number, sum, extremes and last value.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .declared_units import DeclaredUnits

POINTS = 1024  # points of a series
Columns = list[NDArray[Any]]  # as the fields of a TimeSeries from ``first`` on
SeriesName = tuple[int, str]  # number of a job, and a series that it records


@dataclass(frozen=True, eq=False, repr=False)
class TimeSeries:
    """A quantity over time, as at most :data:`POINTS` points of one or more values each.

    Parameters
    ----------
    per_second : ticks in a second
    unit : unit of the values; "" if unknown
    first, last : (n,) ticks of the first and last value of each point, ascending
    count : (n,) number of values
    minimum, maximum : (n,) smallest and largest value
    sum : (n,) sum of the values
    final : (n,) last value

    Examples
    --------
    >>> recorder = SeriesRecorder(per_second=10, points=2)
    >>> for tick, value in enumerate([5, 1, 9, 2]):
    ...     recorder.record(0, "queue", tick, value)
    >>> found = recorder.recorded()[0, "queue"]
    >>> found.maximum.tolist(), found.mean.tolist(), found.time.tolist()
    ([5.0, 9.0], [3.0, 5.5], [0.0, 0.2])
    """

    per_second: int
    unit: str
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    count: NDArray[np.int64]
    minimum: NDArray[np.float64]
    maximum: NDArray[np.float64]
    sum: NDArray[np.float64]
    final: NDArray[np.float64]

    def __repr__(self) -> str:
        return f"<TimeSeries of {int(self.count.sum()):,} values in {len(self)} points>"

    def __len__(self) -> int:
        return len(self.first)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TimeSeries) and all(
            np.array_equal(a, b)
            for a, b in zip(vars(self).values(), vars(other).values(), strict=True)
        )

    __hash__ = None  # type: ignore[assignment]

    @property
    def mean(self) -> NDArray[np.float64]:
        """Mean of the values of each point."""
        return np.asarray(self.sum / self.count)

    @property
    def time(self) -> NDArray[np.float64]:
        """Time of the first value of each point, in s."""
        return np.asarray(self.first / self.per_second)

    @property
    def end(self) -> NDArray[np.float64]:
        """Time of the last value of each point, in s."""
        return np.asarray(self.last / self.per_second)

    def in_points(self, points: int) -> TimeSeries:
        """The same series in fewer points, for a drawing."""
        if len(self) <= points:
            return self
        columns = [self.first, self.last, self.count, self.minimum, self.maximum, self.sum]
        rows = _in_equal_spans([*columns, self.final], 0, points)[0]
        first, last, count, low, high, total, final = rows
        return TimeSeries(self.per_second, self.unit, first, last, count, low, high, total, final)

    @property
    def merged(self) -> bool:
        """True if points have more than one value."""
        return bool(np.any(self.count > 1))


class GrowingSeries:
    """Time series during a run.

    Parameters
    ----------
    points : largest number of points
    """

    def __init__(self, points: int = POINTS) -> None:
        self._points = points
        self._tick, self._value = array("q"), array("d")  # values since the last merge
        self._merged = _points_of(np.empty(0, np.int64), np.empty(0))
        self._shift = 0  # a point lasts up to 2 ** shift ticks

    def __len__(self) -> int:
        return len(self._merged[0]) + len(self._tick)

    def record(self, tick: int, value: float) -> None:
        """Append a value; times do not decrease."""
        self._tick.append(tick)
        self._value.append(value)
        if len(self._tick) > self._points:
            self._merge()

    def extend(self, ticks: NDArray[np.int64], values: NDArray[np.float64]) -> None:
        """Append many values; the outcome is that of as many calls of :meth:`record`."""
        for tick, value in zip(ticks.tolist(), values.tolist(), strict=True):
            self.record(tick, value)

    def _merge(self) -> None:
        """Merge points of the same span of time; spans grow until there are few enough."""
        ticks, values = np.array(self._tick, np.int64), np.array(self._value)
        self._tick, self._value = array("q"), array("d")
        new = _points_of(ticks, values)
        rows = [np.concatenate(both) for both in zip(self._merged, new, strict=True)]
        self._merged, self._shift = _in_equal_spans(rows, self._shift, self._points)

    def series(self, per_second: int, unit: str) -> TimeSeries:
        """Series of all values so far."""
        self._merge()
        first, last, count, low, high, total, final = self._merged
        return TimeSeries(per_second, unit, first, last, count, low, high, total, final)


def _points_of(tick: NDArray[np.int64], value: NDArray[np.float64]) -> Columns:
    """Columns of points of one value each."""
    return [tick, tick, np.ones(len(tick), np.int64), value, value, value, value]


def _in_equal_spans(rows: Columns, shift: int, points: int) -> tuple[Columns, int]:
    """Columns of at most some points, each of which lies in one span of ``2 ** shift`` ticks.

    Returns also the shift, which is not below the given one.
    """
    first = rows[0]
    if len(first) <= points:
        return rows, shift
    while len(np.unique(first >> shift)) > points:
        shift += 1
    return _joined_points(rows, np.flatnonzero(np.diff(first >> shift, prepend=-1))), shift


def _joined_points(rows: Columns, starts: NDArray[np.int64]) -> Columns:
    """Columns of points of which groups that begin at some rows are one point each."""
    first, last, count, low, high, total, final = rows
    ends = np.append(starts[1:], len(first)) - 1
    return [
        first[starts], last[ends], np.add.reduceat(count, starts),
        np.minimum.reduceat(low, starts), np.maximum.reduceat(high, starts),
        np.add.reduceat(total, starts), final[ends],
    ]  # fmt: skip


class SeriesRecorder:
    """Recorder of the time series of all jobs of a run.

    Parameters
    ----------
    per_second : ticks in a second
    points : largest number of points of a series
    """

    def __init__(self, per_second: int = 1, points: int = POINTS) -> None:
        self._per_second, self._points = per_second, points
        self._series: dict[SeriesName, GrowingSeries] = {}
        self.units = DeclaredUnits()

    def growing(self, job: int, name: str) -> GrowingSeries:
        """A job's series of a name, which is new at first."""
        found = self._series.get((job, name))
        if found is None:
            found = self._series[job, name] = GrowingSeries(self._points)
        return found

    def record(self, job: int, name: str, tick: int, value: float, unit: str = "") -> None:
        """Append a value to a series."""
        if unit:
            self.units.declare(job, name, unit)
        self.growing(job, name).record(tick, value)

    def recorded(self) -> dict[SeriesName, TimeSeries]:
        """All series that have values so far, by job number and name."""
        return {
            key: one.series(self._per_second, self.units.get(key, ""))
            for key, one in self._series.items()
            if len(one)
        }


def series_of_job(
    recorded: Mapping[SeriesName, TimeSeries], job: int
) -> dict[SeriesName, TimeSeries]:
    """Series of one job, which becomes job 0."""
    return {(0, name): one for (of, name), one in recorded.items() if of == job}
