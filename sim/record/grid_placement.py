"""Where to ask: numbers of each axis of a grid, close together where times bend or jump.

Each axis is looked at along a few lines through the grid. An interval is bisected while the time in
its middle differs from the interpolated one. Then as many numbers are kept as the grid may have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Axis = NDArray[np.int64]
FIRST = 33  # numbers per axis before the first bisection
MOST_LINES = 8
FINEST = 1e-3  # relative error below which an interval is not bisected
STEPS = 24  # of the search for the error of all axes


class LineTimes(NamedTuple):
    """Times along the lines of an axis.

    Parameters
    ----------
    seconds : (numbers, lines, ops) times of the ops
    structure : (numbers, lines) number of the timing structure of the graph
    """

    seconds: Floats
    structure: NDArray[np.int64]


Asked = Callable[[Sequence[tuple[int, ...]]], tuple[Floats, NDArray[np.int64]]]
"""Function from points to the (points, ops) times and (points,) timing structures there."""


def placed_axes(axes: Sequence[Axis], points: int, asked: Asked) -> list[Axis]:
    """Numbers of each axis, with the given ones, that give at most some points.

    Parameters
    ----------
    axes : numbers that are part of the result
    points : largest number of points of the grid
    asked : function that requests times from the backends
    """
    lines = [_Line(axes, k, asked) for k in range(len(axes))]
    for line in lines:
        line.bisect(2 * points // (len(lines) * line.count))
    low, high = 0.0, 1.0  # errors on a scale from FINEST to one
    found = [line.fewest(1.0) for line in lines]
    for _ in range(STEPS):
        middle = (low + high) / 2
        tried = [line.fewest(FINEST ** (1 - middle)) for line in lines]
        if _size(tried) <= points:
            high, found = middle, tried
        else:
            low = middle
    return found if _size(found) <= points else list(axes)


def _size(axes: Sequence[Axis]) -> int:
    size = 1
    for axis in axes:
        size *= len(axis)
    return size


class _Line:
    """One axis, looked at along lines.

    Parameters
    ----------
    axes : given numbers of all axes
    k : number of the axis
    asked : function that requests times from the backends
    """

    def __init__(self, axes: Sequence[Axis], k: int, asked: Asked):
        self._k, self._asked, self._given = k, asked, axes[k]
        self._others = _across(axes, k)
        self._at = spread(int(axes[k][0]), int(axes[k][-1]), axes[k])
        self._times = self._ask(self._at)

    @property
    def count(self) -> int:
        """Number of lines."""
        return len(self._others)

    def _ask(self, numbers: Axis) -> LineTimes:
        points = [
            (*other[: self._k], x, *other[self._k :])
            for x in numbers.tolist()
            for other in self._others
        ]
        seconds, structure = self._asked(points)
        shape = len(numbers), len(self._others)
        return LineTimes(seconds.reshape(*shape, -1), structure.reshape(shape))

    def bisect(self, most: int) -> None:
        """Bisect intervals until the interpolation is right, or too many points were requested.

        Parameters
        ----------
        most : largest count of numbers
        """
        error = np.full(len(self._at) - 1, np.inf)  # of each interval, as far as it is known
        while len(self._at) < most:
            wide = np.flatnonzero((error > FINEST) & (np.diff(self._at) > 1))
            worst = np.argsort(-error[wide], kind="stable")[: most - len(self._at)]
            wide = np.sort(wide[worst])
            if not len(wide):
                return
            middle = middles(self._at[wide], self._at[wide + 1])
            times = self._ask(middle)
            found = _largest_errors(self._at, self._times, wide, wide + 1, middle, times)
            error[wide] = found
            error = np.insert(error, wide + 1, found)
            self._insert(wide + 1, middle, times)

    def _insert(self, where: NDArray[np.int64], numbers: Axis, times: LineTimes) -> None:
        self._at = np.insert(self._at, where, numbers)
        old = self._times
        self._times = LineTimes(
            np.insert(old.seconds, where, times.seconds, axis=0),
            np.insert(old.structure, where, times.structure, axis=0),
        )

    def fewest(self, error: float) -> Axis:
        """Fewest numbers with the given ones, between which errors are at most ``error``."""
        kept, last = [0], len(self._at) - 1
        given = np.flatnonzero(np.isin(self._at, self._given))
        while kept[-1] < last:
            first = kept[-1]
            bound = int(given[np.searchsorted(given, first, side="right")])
            kept.append(self._farthest(first, bound, error))
        return self._at[kept]

    def _farthest(self, first: int, bound: int, error: float) -> int:
        """Last row up to which one interval from ``first`` is within the error."""
        good, step = first + 1, 1
        while good < bound:  # gallop, then halve
            tried = min(good + step, bound)
            if not self._within(first, tried, error):
                break
            good, step = tried, 2 * step
        else:
            return good
        while step > 1:
            step //= 2
            if good + step <= bound and self._within(first, good + step, error):
                good += step
        return good

    def _within(self, first: int, last: int, error: float) -> bool:
        inside = np.arange(first + 1, last)
        low, high = np.full(len(inside), first), np.full(len(inside), last)
        times = LineTimes(self._times.seconds[inside], self._times.structure[inside])
        found = _largest_errors(self._at, self._times, low, high, self._at[inside], times)
        return bool(np.all(found <= error))


def _largest_errors(
    at: Axis,
    known: LineTimes,
    low: NDArray[np.int64],
    high: NDArray[np.int64],
    numbers: Axis,
    times: LineTimes,
) -> Floats:
    """Largest relative error over lines and ops; infinite where structures differ."""
    share = ((numbers - at[low]) / (at[high] - at[low]))[:, None, None]
    guessed = known.seconds[low] * (1 - share) + known.seconds[high] * share
    off = np.abs(guessed - times.seconds) / np.maximum(times.seconds, 1e-15)
    same = (known.structure[low] == times.structure) & (known.structure[high] == times.structure)
    off = np.where(same[:, :, None], off, np.inf)
    return np.asarray(off.max(axis=(1, 2), initial=0.0))


def middles(low: Axis, high: Axis) -> Axis:
    """Integers between two others that differ by 2 or more, at their geometric mean.

    >>> middles(np.array([0, 1, 100]), np.array([8, 100, 102])).tolist()
    [2, 10, 101]
    """
    found = np.sqrt(np.maximum(low, 1.0)) * np.sqrt(high.astype(np.float64))
    return np.clip(found.astype(np.int64), low + 1, high - 1)


def spread(first: int, last: int, more: Axis) -> Axis:
    """Integers from ``first`` to ``last`` at equal ratios, and more of them.

    >>> spread(0, 4, np.array([0, 4])).tolist()
    [0, 1, 2, 3, 4]
    """
    ratios = np.geomspace(max(first, 1), max(last, 1), FIRST)
    return np.unique(np.concatenate([np.clip(np.rint(ratios).astype(np.int64), first, last), more]))


def _across(axes: Sequence[Axis], k: int) -> list[tuple[int, ...]]:
    """Points of the other axes at which an axis is looked at, from the lowest to the highest."""
    others = [axis for j, axis in enumerate(axes) if j != k]
    if not others:
        return [()]
    lines = MOST_LINES if len(others) == 1 else 2 * MOST_LINES
    columns = []
    for j, axis in enumerate(others):
        low, high = max(int(axis[0]), 1), max(int(axis[-1]), 1)
        share = (np.arange(lines) * (1 if not j else 5 + 2 * j) % lines) / (lines - 1)
        columns.append(np.rint(low * (high / low) ** share).astype(np.int64).tolist())
    return list(dict.fromkeys(zip(*columns, strict=True)))
