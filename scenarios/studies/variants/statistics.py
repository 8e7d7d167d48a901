"""Statistics of samples: percentile, mean, min, max."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ....sim.facts.metric import PERCENTILE
from ....sim.record.distribution import Distribution
from ....sim.run.workload import Samples


def statistic_of(samples: Samples, statistic: str) -> float:
    """Statistic of samples; "" returns the maximum, which is the value itself for a single sample.

    >>> statistic_of(np.array([1.0, 2.0, 9.0]), "p50"), statistic_of(np.array([4.0]), "")
    (2.0, 4.0)
    """
    if isinstance(samples, Distribution):
        return _statistic_of_distribution(samples, statistic)
    return float(statistic_along_last_axis(samples, statistic))


def _statistic_of_distribution(samples: Distribution, statistic: str) -> float:
    percentile = PERCENTILE.fullmatch(statistic)
    if percentile:
        return samples.percentile(float(percentile[1]))
    if statistic in ("", "peak", "max"):
        return samples.maximum
    return samples.mean if statistic == "mean" else samples.minimum


def statistic_along_last_axis(samples: NDArray[np.float64], statistic: str) -> NDArray[np.float64]:
    """Statistic of samples along the last axis of an array."""
    percentile = PERCENTILE.fullmatch(statistic)
    if percentile:
        return np.asarray(np.percentile(samples, float(percentile[1]), axis=-1))
    if statistic in ("", "peak", "max"):
        return np.asarray(samples.max(axis=-1))
    return np.asarray(samples.mean(axis=-1) if statistic == "mean" else samples.min(axis=-1))
