"""How sure a median is: its half-width, and what two measurements of the same thing differ by."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from ..sample import Sample

# Student's t, 97.5 %, by degrees of freedom (Abramowitz and Stegun 1964, table 26.10)
STUDENT = (12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
Key = tuple[str, str]


def half_width(values: Sequence[float]) -> float:
    """Half of the 95 % interval of the mean of values, relative to it; infinite for one value.

    >>> round(half_width([99.0, 101.0, 100.0]), 4)
    0.0248
    """
    n = len(values)
    if n < 2:
        return float("inf")
    t = STUDENT[n - 2] if n - 2 < len(STUDENT) else 2.0
    return float(t * np.std(values, ddof=1) / np.sqrt(n) / np.mean(values))


def settled(medians: Sequence[float]) -> bool:
    """Whether the last three batch medians agree within 2 %.

    >>> settled([140.0, 101.0, 100.0, 100.5]), settled([140.0, 101.0, 100.0])
    (True, False)
    """
    recent = medians[-3:]
    return len(recent) == 3 and max(recent) - min(recent) <= 0.02 * min(recent)


def grouped(samples: Iterable[Sample]) -> dict[Key, list[Sample]]:
    """Samples by the question that they answer."""
    found: dict[Key, list[Sample]] = {}
    for sample in samples:
        found.setdefault(sample.key, []).append(sample)
    return found


def by_start(samples: Iterable[Sample]) -> list[float]:
    """The median of each start of the process, over its batches that may be fitted."""
    found: dict[int, list[float]] = {}
    for sample in samples:
        if sample.good:
            found.setdefault(sample.start, []).append(sample.median)
    return [float(np.median(medians)) for medians in found.values()]


def between_starts(samples: Iterable[Sample]) -> Mapping[Key, float]:
    """A/A: by how much two halves of the starts differ in each op, relative; NaN for one start.

    The floor of any accuracy: no model can be told from the truth more finely than the truth can
    be told from itself.

    Examples
    --------
    >>> ns = np.array
    >>> two = [Sample("host:idle", ns([100.0]), "cpu"), Sample("host:idle", ns([104.0]), "cpu", start=1)]
    >>> round(between_starts(two)["host:idle", "warm"], 3)
    0.04
    """  # noqa: E501
    return {key: _halves(by_start(group)) for key, group in grouped(samples).items()}


def _halves(medians: Sequence[float]) -> float:
    if len(medians) < 2:
        return float("nan")
    one, other = float(np.median(medians[::2])), float(np.median(medians[1::2]))
    return max(one, other) / min(one, other) - 1
