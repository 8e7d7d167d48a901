"""Uncertainty of medians: confidence intervals, and A/A differences between process starts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from ..sample import Sample

# Student's t, 97.5 %, by degrees of freedom (Abramowitz and Stegun 1964, table 26.10)
STUDENT = (12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
Key = tuple[str, str]


def half_width(values: Sequence[float]) -> float:
    """Half-width of the 95 % confidence interval of the mean, relative to the mean.

    It is infinite for a single value.
    """
    n = len(values)
    if n < 2:
        return float("inf")
    t = STUDENT[n - 2] if n - 2 < len(STUDENT) else 2.0
    return float(t * np.std(values, ddof=1) / np.sqrt(n) / np.mean(values))


def medians_settled(medians: Sequence[float]) -> bool:
    """True if the last three batch medians agree within 2 %.

    >>> medians_settled([140.0, 101.0, 100.0, 100.5]), medians_settled([140.0, 101.0, 100.0])
    (True, False)
    """
    recent = medians[-3:]
    return len(recent) == 3 and max(recent) - min(recent) <= 0.02 * min(recent)


def samples_by_key(samples: Iterable[Sample]) -> dict[Key, list[Sample]]:
    """Samples by key (signature and context)."""
    found: dict[Key, list[Sample]] = {}
    for sample in samples:
        found.setdefault(sample.key, []).append(sample)
    return found


def start_medians(samples: Iterable[Sample]) -> list[float]:
    """Median time of each process start over its batches without flags, in ns."""
    found: dict[int, list[float]] = {}
    for sample in samples:
        if sample.good:
            found.setdefault(sample.start, []).append(sample.median)
    return [float(np.median(medians)) for medians in found.values()]


def difference_between_starts(samples: Iterable[Sample]) -> Mapping[Key, float]:
    """A/A difference: relative difference between the medians of odd and of even starts, by op.

    Errors of a model that are smaller cannot be detected, because the measurements themselves
    differ by that much. NaN if there is only one start.

    Examples
    --------
    >>> ns = np.array
    >>> first = Sample("host:idle", ns([100.0]), "cpu")
    >>> two = [first, Sample("host:idle", ns([104.0]), "cpu", start=1)]
    >>> round(difference_between_starts(two)["host:idle", "warm"], 3)
    0.04
    """
    return {
        key: _difference_of_halves(start_medians(group))
        for key, group in samples_by_key(samples).items()
    }


def _difference_of_halves(medians: Sequence[float]) -> float:
    if len(medians) < 2:
        return float("nan")
    one, other = float(np.median(medians[::2])), float(np.median(medians[1::2]))
    return max(one, other) / min(one, other) - 1
