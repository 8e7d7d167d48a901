"""Processes of arrivals: when the items of a stream arrive.

Gaps are drawn by a counter-based hash and a logarithm of basic operations only, so compiled code
and plain Python draw the same ticks.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...argument import as_column, as_finite, as_float, as_integer, shown
from ...units import Seconds, ticks, ticks_per_second

TABLE, PACED, POISSON, ON_OFF = range(4)
NO_LIMIT = 2**62
MOST_COLUMNS = 4  # integers of an item, A to D

LN2 = 0.6931471805599453
ROOT_HALF = 0.7071067811865476
SERIES = tuple(2.0 / k for k in (15, 13, 11, 9, 7, 5, 3, 1))


class ArrivalTable(NamedTuple):
    """Arrivals in the form that a stream reads, in ticks after its start.

    Parameters
    ----------
    kind : ``TABLE``, ``PACED``, ``POISSON`` or ``ON_OFF``
    gap, on, off : mean gap between arrivals, and mean length of on and off periods, in ticks
    most : number of items, or ``NO_LIMIT``
    last : last tick at which an item may arrive, or ``NO_LIMIT``
    at, columns : ticks of each item, and its integers, of ``TABLE``
    """

    kind: int
    gap: float
    on: float
    off: float
    most: int
    last: int
    at: NDArray[np.int64]
    columns: NDArray[np.int64]

    @property
    def bounded(self) -> bool:
        """True if arrivals end by themselves."""
        return min(self.most, self.last) < NO_LIMIT


class ArrivalProcess:
    """Base class of arrivals that are generated.

    Parameters
    ----------
    gap : Seconds
        Mean time between two items.
    count : int or None
        Number of items; None for no bound.
    duration : Seconds or None
        Time after the start in which items arrive; None for no bound.
    """

    kind = PACED

    def __init__(self, gap: Seconds, count: int | None = None, duration: Seconds | None = None):
        _require_positive(self, "the time between items", gap)
        if count is not None:
            as_integer("count", count, self._refuse, 0)
        if duration is not None:
            as_finite("duration", duration, self._refuse, 0.0, " s")
        self.gap, self.count, self.duration = gap, count, duration
        self.on = self.off = 0.0

    @property
    def _name(self) -> str:
        return type(self).__name__

    def _refuse(self, why: str) -> ValueError:
        return ValueError(f"{self._name}: {why}")

    def table(self, tick: Seconds) -> ArrivalTable:
        """Arrivals in ticks.

        Raises
        ------
        ValueError
            Items are less than a tick apart.
        """
        per_second = ticks_per_second(tick)
        if self.gap * per_second < 1.0:
            raise ValueError(
                f"{self._name}: items are {self.gap:g} s apart, which is less than a tick of "
                f"{tick:g} s; use a finer tick or a lower rate"
            )
        last = NO_LIMIT if self.duration is None else ticks(self.duration, tick)
        count = NO_LIMIT if self.count is None else int(self.count)
        gap, on, off = (mean * per_second for mean in (self.gap, self.on, self.off))
        return ArrivalTable(self.kind, gap, on, off, count, last, *_no_rows())


class Paced(ArrivalProcess):
    """Arrivals at a constant distance, the first at once.

    Examples
    --------
    >>> Paced(1e-6, count=3).table(1e-9).gap
    1000.0
    """


class Poisson(ArrivalProcess):
    """Arrivals of a Poisson process.

    Parameters
    ----------
    rate : items per second
    count, duration : number of items, and time in which they arrive; None for no bound

    Examples
    --------
    >>> round(Poisson(1e6, count=10).table(1e-9).gap)
    1000
    """

    kind = POISSON

    def __init__(self, rate: float, count: int | None = None, duration: Seconds | None = None):
        _require_positive(self, "rate", rate)
        super().__init__(1.0 / rate, count, duration)


class OnOff(Poisson):
    """Arrivals in bursts: a Poisson process that is on and off by turns, and begins on.

    Lengths of on and off periods are exponentially distributed.

    Parameters
    ----------
    rate : items per second, while it is on
    on, off : mean length of the periods, in s
    count, duration : as of :class:`Poisson`

    Examples
    --------
    >>> OnOff(1e6, on=1e-3, off=3e-3, count=10).table(1e-9).off
    3000000.0
    """

    kind = ON_OFF

    def __init__(
        self,
        rate: float,
        on: Seconds,
        off: Seconds,
        count: int | None = None,
        duration: Seconds | None = None,
    ):
        super().__init__(rate, count, duration)
        _require_positive(self, "on", on)
        _require_positive(self, "off", off)
        self.on, self.off = on, off


class GivenArrivals:
    """Arrivals at given times.

    Parameters
    ----------
    at : (n,) s after the start of the stream, ascending
    columns : up to 4 arrays of n integers, which become A to D of each item

    Examples
    --------
    >>> GivenArrivals([0.0, 1e-6], [64, 1500]).table(1e-9).columns[:, 0].tolist()
    [64, 1500]
    """

    def __init__(self, at: ArrayLike, *columns: ArrayLike):
        self.at = as_column("at", at, np.float64, _given_error).reshape(-1)
        if len(columns) > MOST_COLUMNS:
            raise ValueError(
                f"GivenArrivals: has {len(columns)} columns; give at most {MOST_COLUMNS}, and keep "
                "the rest in the state of the policy"
            )
        found = self.at
        if len(found) and not (found[0] >= 0 and np.all(np.diff(found) >= 0)):
            raise ValueError("GivenArrivals: times must be 0 or later, and ascend; sort them")
        self.columns = [self._integers(k, column) for k, column in enumerate(columns)]

    def _integers(self, k: int, column: ArrayLike) -> NDArray[np.int64]:
        values = np.asarray(column)
        if values.shape != self.at.shape or (values.size and values.dtype.kind not in "iu"):
            raise ValueError(
                f"GivenArrivals: column {k + 1} is {values.dtype} of shape {values.shape}; give "
                f"{len(self.at)} integers"
            )
        return values.astype(np.int64)

    def table(self, tick: Seconds) -> ArrivalTable:
        """Arrivals in ticks."""
        at = np.asarray(ticks(self.at, tick), np.int64).reshape(-1)
        rows = np.zeros((len(at), len(self.columns)), np.int64)
        for k, column in enumerate(self.columns):
            rows[:, k] = column
        return ArrivalTable(TABLE, 0.0, 0.0, 0.0, len(at), NO_LIMIT, at, rows)


def unit_exponential(bits: int) -> float:
    """Exponential random number with mean 1, from 64 random bits.

    The logarithm is a series in ``(u - r) / (u + r)``, with ``r`` the root of one half (Abramowitz
    and Stegun 1964, 4.1.27): only operations that every machine rounds alike. Error below 1e-13.

    Examples
    --------
    >>> import math
    >>> bits = 0x9E3779B97F4A7C15
    >>> abs(unit_exponential(bits) + math.log(((bits >> 11) + 0.5) * 2.0**-53)) < 1e-13
    True
    """
    return exponential_of(((bits >> 11) + 0.5) * 2.0**-53)


def exponential_of(u: float) -> float:
    """Exponential random number with mean 1, from a uniform one; kernels compile this function."""
    twos = 0.5 * LN2
    while u < 0.5:
        u *= 2.0
        twos += LN2
    s = (u - ROOT_HALF) / (u + ROOT_HALF)
    square, total = s * s, 0.0
    for factor in SERIES:
        total = total * square + factor
    return max(twos - total * s, 0.0)


def _no_rows() -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    return np.zeros(0, np.int64), np.zeros((0, 0), np.int64)


def _given_error(why: str) -> ValueError:
    return ValueError(f"GivenArrivals: {why}")


def _require_positive(of: object, what: str, value: float) -> None:
    found = as_float(value)
    if found is None or not 0 < found < float("inf"):
        raise ValueError(f"{type(of).__name__}: {what} is {shown(value)}; give more than 0")
