"""Summary of a run as plain data, for ``summary.json``, ``--json`` and reports.

Nothing in it depends on clock, host or date: the same seed and inputs give the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from ....sim.record.distribution import Distribution, sample_array
from ....sim.run.workload import Samples
from ...config.condition import Condition
from ...config.metrics import Metric
from ..variants.answers import StudyAnswer
from ..variants.statistics import statistic_along_last_axis, statistic_of
from ..variants.variants import VariantResults

SCHEMA = 1
LEVEL = 0.9  # probability of every interval
FEWEST = 10  # fewest replicas for an interval: the range of fewer holds less than 90 %


@dataclass(frozen=True)
class MetricValue:
    """Value of a metric with its interval.

    Parameters
    ----------
    value : value in SI, in ``unit``
    interval : 90 % interval; None if unknown
    interval_of : sources of error in the interval: ``jitter``, ``model``
    expected, met : the condition on it and whether it holds; None for none
    """

    value: float
    unit: str
    interval: tuple[float, float] | None = None
    interval_of: tuple[str, ...] = ()
    expected: str | None = None
    met: bool | None = None


def metric_values(measured: VariantResults) -> dict[str, MetricValue]:
    """Every statistic of every metric of a variant, by ``metric.statistic``.

    With enough replicas a value is their median, so that it lies inside its interval; otherwise it
    is that of the run with recorded durations.
    """
    by_name: dict[str, MetricValue] = {}
    for name, samples in measured.samples.items():
        metric = measured.metrics[name]
        replicas = [r[name] for r in measured.replicas if name in r]
        for statistic in _statistics_of(metric, name):
            key = f"{name}.{statistic}".rstrip(".")
            drawn = _statistic_of_each(replicas, statistic)
            bounds = replica_interval(drawn)
            by_name[key] = MetricValue(
                float(np.median(drawn))
                if len(drawn) >= FEWEST
                else statistic_of(samples, statistic),
                metric.unit,
                bounds,
                ("jitter",) if bounds else (),
            )
    return by_name


def _statistics_of(metric: Metric, name: str) -> tuple[str, ...]:
    if not metric.statistics or metric.statistics == (name.rpartition(".")[2],):
        return ("",)
    return metric.statistics


def _statistic_of_each(replicas: Sequence[Samples], statistic: str) -> list[float]:
    """Statistic of every replica; computed in one array if all have the same number of samples."""
    arrays = [samples for samples in replicas if not isinstance(samples, Distribution)]
    if len({len(samples) for samples in arrays}) != 1 or len(arrays) < len(replicas):
        return [statistic_of(samples, statistic) for samples in replicas]
    numbers: list[float] = statistic_along_last_axis(np.stack(arrays), statistic).tolist()
    return numbers


def replicas_may_differ(results: Sequence[VariantResults]) -> bool:
    """True if replicas differ, or may differ if too few were drawn to tell."""
    return any(
        one.point.may_vary if len(one.replicas) < FEWEST else _replicas_differ(one.replicas)
        for one in results
    )


def _replicas_differ(replicas: Sequence[Mapping[str, Samples]]) -> bool:
    first = replicas[0]
    return any(not _same_samples(s, r.get(name)) for r in replicas for name, s in first.items())


def _same_samples(one: Samples, other: Samples | None) -> bool:
    if isinstance(one, Distribution):
        return one == other
    return np.array_equal(one, one[:0] if other is None else sample_array(other))


def replica_interval(drawn: Sequence[float]) -> tuple[float, float] | None:
    """90 % interval of replicas; None for too few of them, or if all are equal.

    Equal replicas show that no distribution is known, not that nothing varies. The k-th smallest of
    n replicas is the quantile (k - 1/2) / n (Hazen's rule).

    >>> replica_interval(range(1, 11)), replica_interval(range(1, 10))
    ((1.0, 10.0), None)
    >>> replica_interval([195.0] * 10) is None
    True
    """
    if len(drawn) < FEWEST or min(drawn) == max(drawn):
        return None
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], method="hazen")
    return float(low), float(high)


def values_with_conditions(
    known: Mapping[str, MetricValue], conditions: Sequence[Condition]
) -> dict[str, MetricValue]:
    """Metric values with the conditions on them and their outcome."""
    out = dict(known)
    for condition in conditions:
        value = out.get(condition.name)
        if value is not None:
            limit = f"{condition.op} {condition.text.split(condition.op, 1)[1].strip()}"
            holds = bool(condition.holds(value.value))
            out[condition.name] = replace(
                value,
                expected=limit if value.expected is None else f"{value.expected}; {limit}",
                met=holds and value.met is not False,
            )
    return out


@dataclass(frozen=True)
class Summary:
    """Summary of a run.

    Parameters
    ----------
    name, question : name and question of the scenario
    points : metrics, blame, sources and facts by variant, ``base`` first
    provenance : seed, replicas, catalog values and their sources
    answer : deciding metric
    unfinished : variants that did not finish in time; left out if empty
    ablations : verdicts on the ablations; left out if empty
    unexplained : parts of the explanation that are missing, and why; left out if empty
    """

    name: str
    question: str
    points: dict[str, dict[str, Any]] = field(default_factory=dict)
    provenance: dict[str, Any] = field(default_factory=dict)
    answer: StudyAnswer | None = None
    unfinished: tuple[str, ...] = ()
    ablations: dict[str, Any] = field(default_factory=dict)
    unexplained: list[dict[str, Any]] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Plain dictionary, as in ``summary.json``."""
        plain = {"schema": SCHEMA, **asdict(self)}
        if self.answer is not None:
            plain["answer"] = self.answer.to_dict()
        optional = ("unfinished", "ablations", "unexplained")
        empty = [key for key in optional if not plain[key]]
        return {k: v for k, v in plain.items() if k not in empty}

    def value(self, variant: str, metric: str) -> MetricValue:
        """Value of a metric in a variant.

        Raises
        ------
        KeyError
            The variant or the metric is unknown.
        """
        entry = self.points[variant]["metrics"][metric]
        bounds = entry["interval"]
        return MetricValue(**{**entry, "interval": tuple(bounds) if bounds else None})
