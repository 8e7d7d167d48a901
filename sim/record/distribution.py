"""Distribution of many values in flat memory, with a bound on the error of its quantiles.

Values are counted in buckets: a power of two is divided into 1,024 buckets of equal width. A bucket
is read from the bits of a value, so it needs no rounded logarithm.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..units import Seconds

FINEST = 10  # bits of the mantissa that a bucket keeps
MOST_BUCKETS = 1 << 16
MANTISSA = 52  # bits of the mantissa of a float64
MAGNITUDE = np.int64(2**63 - 1)  # bits of a float64 without its sign


@dataclass(frozen=True, eq=False, repr=False)
class Distribution:
    """Number, mean, extremes and quantiles of many values that were not kept one by one.

    Number, minimum, maximum and mean are those of all values. A quantile lies between the
    quantiles of ``1 - error`` and ``1 + error`` times the values.

    Parameters
    ----------
    minimum, maximum : smallest and largest value
    at_minimum, at_maximum : times of their first occurrence, in s
    bits : bits of the mantissa by which values are distinguished
    keys : (k,) bucket numbers, ascending like their values
    counts : (k,) number of values in each bucket
    sums : (k,) sum of the values in each bucket

    Examples
    --------
    >>> growing = DistributionRecorder()
    >>> growing.add(np.arange(1.0, 1001.0), np.arange(1000.0))
    >>> found = growing.distribution()
    >>> found, found.percentile(50), found.error
    (<Distribution of 1,000 values, mean 500.5>, 500.5, 0.0009765625)
    """

    minimum: float
    maximum: float
    at_minimum: Seconds
    at_maximum: Seconds
    bits: int
    keys: NDArray[np.int64]
    counts: NDArray[np.int64]
    sums: NDArray[np.float64]

    def __repr__(self) -> str:
        return f"<Distribution of {len(self):,} values, mean {self.mean:.6g}>"

    def __len__(self) -> int:
        return int(self.counts.sum())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Distribution) and all(
            np.array_equal(mine, others, equal_nan=True)
            for mine, others in zip(vars(self).values(), vars(other).values(), strict=True)
        )

    __hash__ = None  # type: ignore[assignment]

    @property
    def error(self) -> float:
        """Largest relative error of a value next to a quantile."""
        return float(2.0**-self.bits)

    @property
    def mean(self) -> float:
        """Mean of all values."""
        return float(self.sums.sum()) / len(self)

    def percentile(self, percent: float) -> float:
        """Percentile, interpolated between neighbours as ``numpy.percentile`` does."""
        if np.isnan(self.minimum):
            return float("nan")
        place = percent / 100 * (len(self) - 1)
        below = int(place)
        low, high = self._ranked(below), self._ranked(min(below + 1, len(self) - 1))
        return low if low == high else low + (high - low) * (place - below)

    @property
    def values(self) -> NDArray[np.float64]:
        """Every value as the mean of its bucket, ascending; 8 bytes per value."""
        return np.repeat(self.sums / self.counts, self.counts)

    def _ranked(self, rank: int) -> float:
        """Mean of the bucket that holds the value of a rank, counted from 0."""
        if rank == 0 or rank == len(self) - 1:
            return self.minimum if rank == 0 else self.maximum
        bucket = int(np.searchsorted(np.cumsum(self.counts), rank, side="right"))
        mean = float(self.sums[bucket]) / int(self.counts[bucket])
        return min(max(mean, self.minimum), self.maximum)


class DistributionRecorder:
    """Distribution that grows by batches of values.

    Parameters
    ----------
    most : largest number of buckets; with more, pairs of neighbours are merged
    """

    def __init__(self, most: int = MOST_BUCKETS) -> None:
        self._most, self._bits = most, FINEST
        self._keys, self._counts = np.empty(0, np.int64), np.empty(0, np.int64)
        self._sums: NDArray[np.float64] = np.empty(0)
        self._least, self._greatest = (np.inf, 0.0), (-np.inf, 0.0)

    def add(self, values: NDArray[np.float64], times: NDArray[np.float64]) -> None:
        """Add values and their times in s, in order of time."""
        if not len(values):
            return
        values = values + 0.0  # there is only one zero
        low, high = int(values.argmin()), int(values.argmax())
        if not values[low] >= self._least[0]:
            self._least = float(values[low]), float(times[low])
        if not values[high] <= self._greatest[0]:
            self._greatest = float(values[high]), float(times[high])
        keys = bucket_keys(values, self._bits)
        self._merge(keys, np.ones(len(keys), np.int64), values)

    def add_distribution(self, other: Distribution) -> None:
        """Add all values of a distribution."""
        if not other.minimum >= self._least[0]:
            self._least = other.minimum, other.at_minimum
        if not other.maximum <= self._greatest[0]:
            self._greatest = other.maximum, other.at_maximum
        self._coarsen(other.bits)
        self._merge(other.keys >> (other.bits - self._bits), other.counts, other.sums)

    def _merge(
        self, keys: NDArray[np.int64], counts: NDArray[np.int64], sums: NDArray[np.float64]
    ) -> None:
        """Add to buckets; new ones are inserted."""
        own = np.concatenate([self._keys, keys])
        self._keys, place = np.unique(own, return_inverse=True)
        place = place.ravel()
        added = np.zeros(len(self._keys))
        np.add.at(added, place, np.concatenate([self._sums, sums]))
        merged = np.zeros(len(self._keys), np.int64)
        np.add.at(merged, place, np.concatenate([self._counts, counts]))
        self._counts, self._sums = merged, added
        while len(self._keys) > self._most:
            self._coarsen(self._bits - 1)

    def _coarsen(self, bits: int) -> None:
        """Merge buckets until they keep no more than some bits."""
        if bits >= self._bits:
            return
        self._keys, self._bits = self._keys >> (self._bits - bits), bits
        starts = np.flatnonzero(np.diff(self._keys, prepend=self._keys[0] - 1))
        self._keys = self._keys[starts]
        self._counts = np.add.reduceat(self._counts, starts)
        self._sums = np.add.reduceat(self._sums, starts)

    def distribution(self) -> Distribution:
        """Distribution of all values so far."""
        least, greatest = self._least, self._greatest
        return Distribution(
            least[0], greatest[0], least[1], greatest[1], self._bits, self._keys, self._counts,
            self._sums,
        )  # fmt: skip


def bucket_keys(values: NDArray[np.float64], bits: int) -> NDArray[np.int64]:
    """Bucket number of each value, ascending like the values.

    >>> bucket_keys(np.array([-1.0, 1.0, 1.0005, 1.001]), 10).tolist()
    [-1047553, 1047552, 1047552, 1047553]
    """
    read = np.ascontiguousarray(values, np.float64).view(np.int64)
    ordered = read ^ ((read >> 63) & MAGNITUDE)
    return np.asarray(ordered >> (MANTISSA - bits))


def merged_distribution(parts: Iterable[Distribution]) -> Distribution:
    """Distribution of the values of several distributions."""
    growing = DistributionRecorder()
    for one in parts:
        growing.add_distribution(one)
    return growing.distribution()


def sample_array(samples: NDArray[np.float64] | Distribution) -> NDArray[np.float64]:
    """Values of a metric as an array; those of a distribution within its error, ascending.

    >>> sample_array(np.array([2.0, 1.0])).tolist()
    [2.0, 1.0]
    """
    return samples.values if isinstance(samples, Distribution) else samples
