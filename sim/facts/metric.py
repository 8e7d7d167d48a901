"""Declaration of a metric: unit, statistics, better direction, definition.

A workload declares its metrics before any file is read, so that a scenario can refer to, say,
``ttft.p99`` of a plug-in. :data:`COMMON` lists the metrics that every run has.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

PERCENTILE = re.compile(r"p(\d{1,2}(?:\.\d+)?)")
LAST = re.compile(r"(.+?)\.(p\d{1,2}\.\d+|[^.]+)")  # p99.9 has a dot of its own
SPREAD = ("p50", "p95", "p99", "mean", "min", "max")
BETTER = ("", "lower", "higher")


@dataclass(frozen=True)
class Metric:
    """Declaration of one metric of a run.

    Parameters
    ----------
    name : dotted name; ``*`` stands for a component or a kind of component
    unit : SI unit, as in ``sim.units``
    definition : definition in one sentence
    statistics : names of its statistics; empty for a single number; ``p50`` allows every percentile
    better : ``lower`` or ``higher``; "" if neither is better

    Examples
    --------
    >>> ttft = Metric("ttft", "s", "From arrival to first token.", better="lower")
    >>> ttft.fits("ttft"), ttft.has("p99.9"), ttft.has("peak")
    (True, True, False)
    """

    name: str
    unit: str
    definition: str
    statistics: tuple[str, ...] = SPREAD
    better: str = ""

    def __post_init__(self) -> None:
        if self.better not in BETTER:
            raise ValueError(f"{self.name}: better is {self.better!r}; give one of {BETTER}")

    def fits(self, name: str) -> bool:
        """True if a name, such as ``gpu.utilization``, refers to this metric."""
        pattern = re.escape(self.name).replace(r"\*", r"[A-Za-z][\w*.-]*?")
        return re.fullmatch(pattern, name) is not None

    def has(self, statistic: str) -> bool:
        """True if the metric has this statistic; ``p50`` in its list allows every percentile."""
        return statistic in self.statistics or (
            "p50" in self.statistics and PERCENTILE.fullmatch(statistic) is not None
        )


def find_metric(text: str, metrics: Collection[Metric]) -> tuple[Metric, str, str]:
    """Find a metric by text: the metric, its name as written, and the statistic.

    Raises
    ------
    ValueError
        There is no such metric, or it lacks the statistic; the message names the nearest.

    Examples
    --------
    >>> find_metric("nic.utilization.p95", COMMON)[1:]
    ('nic.utilization', 'p95')
    >>> find_metric("makespn", COMMON)
    Traceback (most recent call last):
    ValueError: no metric named 'makespn'; did you mean 'makespan'?
    """
    found = LAST.fullmatch(text)
    head, statistic = found.groups() if found else ("", text)
    whole = next((m for m in metrics if m.fits(text)), None)
    part = next((m for m in metrics if head and m.fits(head)), None)
    if part and part.has(statistic):
        return part, head, statistic
    if whole and not whole.statistics:
        return whole, text, ""
    if whole:
        raise ValueError(f"'{text}' has many values; add a statistic, such as '{text}.p50'")
    if part:
        known = ", ".join(part.statistics) or "none, since it is a single number"
        raise ValueError(f"'{head}' has no statistic '{statistic}'; it has: {known}")
    near = difflib.get_close_matches(text, list(_example_names(statistic, metrics)), 1)
    hint = f"; did you mean '{near[0]}'?" if near else ""
    raise ValueError(f"no metric named '{text}'{hint}")


def _example_names(statistic: str, metrics: Collection[Metric]) -> Iterator[str]:
    """Full metric names, as candidates for the suggestion after a typing error."""
    for m in metrics:
        kinds = ("gpu", "nic", "link", "switch", "host") if "*" in m.name else ("",)
        for kind in kinds:
            name = m.name.replace("*", kind)
            own = (statistic,) if m.has(statistic) else ()
            for s in own or m.statistics or ("",):
                yield f"{name}.{s}".rstrip(".")


COMMON = (
    Metric("makespan", "s", "Last end minus first release of the whole run.", (), "lower"),
    Metric(
        "exposed_communication",
        "s",
        "Time in which a rank communicates and computes nothing; mean over ranks.",
        better="lower",
    ),
    Metric(
        "overlapped_communication",
        "s",
        "Time in which a rank communicates and computes; mean over ranks.",
    ),
    Metric(
        "waiting",
        "s",
        "Time in which a rank has nothing running or in flight since another is late.",
        better="lower",
    ),
    Metric(
        "*.utilization",
        "",
        "Share of wall time in which it works: a GPU while an op runs on any of its streams, of a "
        "host cores in work over cores, of a rate the mean over the full one, of a capacity the "
        "mean amount held over the whole.",
    ),
    Metric(
        "*.occupancy",
        "",
        "Mean slots taken over all slots: streams, threads, DMA engines.",
        ("mean",),
    ),
    Metric(
        "dropped",
        "1",
        "Ops that found a bounded queue full and were dropped, without the ops that depend on "
        "them; `*.dropped` of one component or of all of its kind.",
        (),
        "lower",
    ),
    Metric("*.dropped", "1", "Dropped ops that were sent to it.", (), "lower"),
)
"""Metrics that every run has; in a job with periods, the times are those of each period."""
