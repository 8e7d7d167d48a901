"""Metrics that conditions may use: name, unit, definition and statistics of each.

Every run has those of :data:`~foretrace.sim.facts.metric.COMMON`, scenarios add those below,
and each workload declares its own.
"""

from __future__ import annotations

from ...sim.facts.metric import COMMON, LAST, PERCENTILE, SPREAD, Metric
from ...sim.facts.metric import find_metric as named_of
from .planned_releases import planned_release
from .settings import known_workloads

__all__ = [
    "LAST",
    "METRICS",
    "PERCENTILE",
    "SPREAD",
    "Metric",
    "known_metrics",
    "parse_metric",
    "register_metric",
]

METRICS: dict[str, Metric] = {}


def register_metric(
    name: str,
    unit: str,
    definition: str,
    statistics: tuple[str, ...] = SPREAD,
    better: str = "",
) -> Metric:
    """Register a metric for ``expect``, ``explain`` and reports.

    Raises
    ------
    ValueError
        The name has another definition already.
    """
    new = Metric(name, unit, definition, statistics, better)
    if METRICS.setdefault(name, new) != new:
        raise ValueError(f"two metrics are named {name!r}; choose another name")
    return new


def known_metrics() -> dict[str, Metric]:
    """All metrics by name: those of every scenario, and those declared by the known workloads.

    >>> known_metrics()["iteration_time"].unit
    's'
    """
    declared = (m for cls in known_workloads().values() for m in cls.metrics)
    return {m.name: m for m in declared} | METRICS


def parse_metric(text: str) -> tuple[Metric, str, str]:
    """Parse a metric name: the metric, the name as written without statistic, and the statistic.

    A metric of one of several jobs has the job's name in front: ``a.iteration_time.p50``.

    Raises
    ------
    ValueError
        The metric is unknown, not yet supported, or lacks this statistic.

    Examples
    --------
    >>> parse_metric("nic.utilization.p95")[1:]
    ('nic.utilization', 'p95')
    >>> parse_metric("a.iteration_time.p95")[1:]
    ('a.iteration_time', 'p95')
    >>> parse_metric("iteraton_time.p95")
    Traceback (most recent call last):
    ValueError: no metric named 'iteraton_time.p95'; did you mean 'iteration_time.p95'?; see: ...
    """
    known = known_metrics().values()
    try:
        return named_of(text, known)
    except ValueError as error:
        if not str(error).startswith("no metric"):
            raise
        first = error
    job, _, own = text.partition(".")
    try:
        found, name, statistic = named_of(own, known)
    except ValueError:
        release = planned_release("metric", text) or planned_release(
            "metric", text.rpartition(".")[0]
        )
        told = f"'{text}' is planned for release {release}" if release else str(first)
        raise ValueError(f"{told}; see: foretrace explain metrics") from None
    return found, f"{job}.{name}", statistic


METRICS |= {m.name: m for m in COMMON}
register_metric(
    "completion_time",
    "s",
    "Time from the arrival of a job to the end of its last op, waiting for components included.",
    (),
    "lower",
)
register_metric(
    "cost_per_million_tokens",
    "USD",
    "Cost of a million tokens: prices of cost.items times the mean time per token "
    "(1 / tokens_per_second) times a million.",
    (),
    "lower",
)
register_metric(
    "cost_per_hour",
    "USD",
    "Price of all machines per hour, by cost.items; without idle time.",
    (),
    "lower",
)
register_metric(
    "cost",
    "USD",
    "Cost of one job of several: its share of all GPUs times their prices times its makespan.",
    (),
    "lower",
)
register_metric(
    "gpu_time_per_million_tokens",
    "s",
    "Number of GPUs times the mean time per token (1 / tokens_per_second) times a million.",
    (),
    "lower",
)
register_metric(
    "gpu.power",
    "W",
    "Board power of all GPUs at full load, from their catalog entry: an upper bound, not measured.",
    ("bound",),
    "lower",
)
register_metric(
    "gpu.energy_per_million_tokens",
    "J",
    "gpu.power.bound times the mean time per token times a million: all GPUs at full load, without "
    "hosts and network; a bound, not measured.",
    ("bound",),
    "lower",
)
register_metric(
    "hil.*.error",
    "",
    "Absolute value of (predicted - measured) / measured, of ops of a component or an iteration.",
    (*SPREAD, "bias"),
    "lower",
)
