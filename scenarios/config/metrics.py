"""The metrics that ``expect`` may name: what each is, in which unit, with which statistics.

One definition for each number; ``explain METRIC`` prints it and reports show it beside the value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ..later import later
from .problems import nearest

PERCENTILE = re.compile(r"p(\d{1,2}(?:\.\d+)?)")
LAST = re.compile(r"(.+?)\.(p\d{1,2}\.\d+|[^.]+)")  # p99.9 has a dot of its own
SPREAD = ("p50", "p95", "p99", "mean", "min", "max")


@dataclass(frozen=True)
class Metric:
    """One number that a run has.

    Parameters
    ----------
    name : dotted; ``*`` stands for a component or its kind
    unit : SI, as in ``sim.units``
    definition : what it means, in one sentence
    statistics : those it has; empty for a single number, ``p50`` in it for any percentile
    """

    name: str
    unit: str
    definition: str
    statistics: tuple[str, ...] = SPREAD

    def fits(self, name: str) -> bool:
        """Is this the metric meant."""
        pattern = re.escape(self.name).replace(r"\*", r"[A-Za-z][\w*.-]*?")
        return re.fullmatch(pattern, name) is not None

    def has(self, statistic: str) -> bool:
        """Does it have this statistic; percentiles come all or none."""
        return statistic in self.statistics or (
            "p50" in self.statistics and PERCENTILE.fullmatch(statistic) is not None
        )


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
        No such metric, not yet, or not with this statistic; names the nearest.

    Examples
    --------
    >>> named("nic.utilization.p95")[1:]
    ('nic.utilization', 'p95')
    >>> named("iteraton_time.p95")
    Traceback (most recent call last):
    ValueError: no metric named 'iteraton_time.p95'; did you mean 'iteration_time.p95'?; see: ...
    """
    found = LAST.fullmatch(text)
    head, statistic = found.groups() if found else ("", text)
    whole = next((m for m in METRICS.values() if m.fits(text)), None)
    part = next((m for m in METRICS.values() if head and m.fits(head)), None)
    if part and part.has(statistic):
        return part, head, statistic
    if whole and not whole.statistics:
        return whole, text, ""
    if whole:
        raise ValueError(f"'{text}' has many values; say which, such as '{text}.p50'")
    if part:
        known = ", ".join(part.statistics) or "no statistic, it is one number"
        raise ValueError(f"'{head}' has no statistic '{statistic}'; it has: {known}")
    if release := later("metric", text) or later("metric", head):
        raise ValueError(f"'{text}' comes with release {release}; see: foretrace explain metrics")
    hint = nearest(text, _examples(statistic))
    hint = hint if "did you mean" in hint else ""
    raise ValueError(f"no metric named '{text}'{hint}; see: foretrace explain metrics")


def _examples(statistic: str) -> Iterator[str]:
    """Full names to compare a mistyped one with."""
    for m in METRICS.values():
        kinds = ("gpu", "nic", "link", "switch", "host") if "*" in m.name else ("",)
        for kind in kinds:
            name = m.name.replace("*", kind)
            own = (statistic,) if m.has(statistic) else ()
            for s in own or m.statistics or ("",):
                yield f"{name}.{s}".rstrip(".")


metric("iteration_time", "s", "Wall time of one optimizer step; warm-up iterations left out.")
metric("makespan", "s", "Last end minus first release of the whole run.", ())
metric(
    "exposed_communication",
    "s",
    "Time of an iteration in which a rank communicates and computes nothing; mean over ranks.",
)
metric(
    "overlapped_communication",
    "s",
    "Time of an iteration in which a rank communicates and computes; mean over ranks.",
)
metric(
    "waiting",
    "s",
    "Time of an iteration in which a rank has nothing running or in flight since another is late.",
)
metric("tokens_per_second", "token/s", "Tokens of one iteration over iteration_time, whole job.")
metric("*.utilization", "", "Busy time over wall time (slots), mean rate over capacity (rates).")
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
