"""The metrics that ``expect`` may name: what each is, in which unit, with which statistics.

One definition for each number; ``explain METRIC`` prints it and reports show it beside the value.
"""

from __future__ import annotations

from ...sim.metric import COMMON, LAST, PERCENTILE, SPREAD, Metric
from ...sim.metric import named as named_of
from ...sim.periodic import ITERATION_TIME

__all__ = ["LAST", "METRICS", "PERCENTILE", "SPREAD", "Metric", "metric", "named"]

METRICS: dict[str, Metric] = {}


def metric(name: str, unit: str, definition: str, statistics: tuple[str, ...] = SPREAD) -> Metric:
    """Make a metric known to ``expect``, ``explain`` and reports.

    Raises
    ------
    ValueError
        The name is taken by another definition.
    """
    new = Metric(name, unit, definition, statistics)
    if METRICS.setdefault(name, new) != new:
        raise ValueError(f"two metrics are named {name!r}")
    return new


def named(text: str) -> tuple[Metric, str, str]:
    """A metric, the component or metric name as written, and the statistic.

    Raises
    ------
    ValueError
        No such metric, or not with this statistic; names the nearest.

    Examples
    --------
    >>> named("nic.utilization.p95")[1:]
    ('nic.utilization', 'p95')
    >>> named("iteraton_time.p95")
    Traceback (most recent call last):
    ValueError: no metric named 'iteraton_time.p95'; did you mean 'iteration_time.p95'?; see: ...
    """
    try:
        return named_of(text, METRICS.values())
    except ValueError as error:
        more = "; see: foretrace explain metrics" if str(error).startswith("no metric") else ""
        raise ValueError(f"{error}{more}") from None


METRICS |= {m.name: m for m in (ITERATION_TIME, *COMMON)}
metric("tokens_per_second", "token/s", "Tokens of one iteration over iteration_time, whole job.")
metric("mfu", "", "Model flop of an iteration over what the named dense peak could do meanwhile.")
metric("hfu", "", "As mfu, recomputed flop counted.")
metric("gpu.memory", "B", "Allocated bytes of the fullest GPU.", ("peak",))
metric(
    "cost_per_million_tokens",
    "USD",
    "Training: prices of cost.items times the mean iteration_time, per million of its tokens.",
    (),
)
metric("cost_per_hour", "USD", "Prices of cost.items for all machines, an hour; no idle time.", ())
metric(
    "gpu_time_per_million_tokens",
    "s",
    "Training: GPUs times the mean iteration_time, per million of its tokens.",
    (),
)
metric(
    "gpu.power",
    "W",
    "Board power of all GPUs at full load, as their catalog entry says it: a bound, not measured.",
    ("bound",),
)
metric(
    "hil.*.error",
    "",
    "(predicted - measured) / measured, its size; of a component's ops, or of iteration_time.",
    (*SPREAD, "bias"),
)
