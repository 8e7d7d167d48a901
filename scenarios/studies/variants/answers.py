"""The deciding metric of a study: which one it is, and its value in a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ....sim.errors import ScenarioError
from ....sim.facts.metric import LAST, PERCENTILE, SPREAD
from ....sim.facts.metric import find_metric as named_in
from ....sim.facts.sampling import MAIN
from ....sim.run.workload import Samples, Workload
from ...config.metrics import METRICS
from ..building.jobs import workloads_of
from .statistics import statistic_of

if TYPE_CHECKING:
    from ...config.scenario import Scenario

OF_WINDOWS = ("utilization", "occupancy")  # metrics over time windows, by last word of their name
TOKENS = "tokens_per_second"  # needs the number of tokens of an iteration


@dataclass(frozen=True)
class StudyAnswer:
    """Deciding metric of a study: name, unit, and whether lower is better.

    Parameters
    ----------
    job : job that it belongs to; "" for the complete run
    metric : name with statistic, such as ``iteration_time.p50`` or ``a.ttft.p99``
    unit : SI unit
    better : ``lower`` or ``higher``
    period : name of a repetition of the job, if the metric is the time of one; else ""
    """

    job: str
    metric: str
    unit: str
    better: str
    period: str = ""

    def to_dict(self) -> dict[str, str]:
        """Plain dictionary, as in ``summary.json``."""
        return {k: v for k, v in asdict(self).items() if v or k != "period"}

    @property
    def sign(self) -> int:
        """1 if lower is better, -1 if higher is better."""
        return -1 if self.better == "higher" else 1

    @property
    def sample(self) -> str:
        """Name of the samples from which the metric is computed."""
        return self.metric.removesuffix(f".{self.statistic}")

    @property
    def statistic(self) -> str:
        """Statistic of the metric; "" for a single value."""
        return statistic_of_metric(self.metric)

    @property
    def needs_rows(self) -> bool:
        """True if the metric is computed over time windows, which needs one row per op."""
        return self.sample.rpartition(".")[2] in OF_WINDOWS

    def of(self, samples: Mapping[str, Samples]) -> float:
        """Value of the metric in a run.

        Raises
        ------
        ScenarioError
            The run has no samples of it.
        """
        if self.metric in samples:
            return statistic_of(samples[self.metric], "")
        found = samples.get(self.sample, np.empty(0))
        if not len(found):
            raise ScenarioError(
                f"answer: the run has no value of '{self.sample}', because its job emitted none; "
                "let it run longer, or name another metric"
            )
        return statistic_of(found, self.statistic)


def statistic_of_metric(metric: str) -> str:
    """Statistic at the end of a metric name; "" for none.

    >>> statistic_of_metric("a.ttft.p99.9"), statistic_of_metric("makespan")
    ('p99.9', '')
    """
    found = LAST.fullmatch(metric)
    last = found[2] if found else ""
    return last if last in (*SPREAD, "peak", "bound") or PERCENTILE.fullmatch(last) else ""


def answer_of(scenario: Scenario) -> StudyAnswer:
    """Deciding metric of a scenario: that of ``answer``, else the headline of the first job.

    Raises
    ------
    ScenarioError
        No job has the metric, or its direction is unknown.
    """
    works = workloads_of(scenario)
    said: Any = scenario.section("answer")
    first, workload = next(iter(works.items()))
    prefix = f"{first}." if len(works) > 1 else ""
    if said is None:
        return _study_answer(works, f"{prefix}{workload.headline}", "")
    return _study_answer(works, said.metric, "lower" if said.sign > 0 else "higher")


def usual_trace_answer() -> StudyAnswer:
    """Default deciding metric of a trace.

    >>> usual_trace_answer().metric
    'iteration_time.p50'
    """
    from ...workloads.trace import TraceWorkload

    headline = TraceWorkload.headline
    metric = next(m for m in TraceWorkload.metrics if m.fits(headline.rpartition(".")[0]))
    return StudyAnswer(MAIN, headline, metric.unit, metric.better, TraceWorkload.period)


def _study_answer(works: Mapping[str, Workload], metric: str, better: str) -> StudyAnswer:
    several = len(works) > 1
    head, _, rest = metric.partition(".")
    job = head if several and head in works else "" if several else next(iter(works))
    own = rest if several and job else metric
    workload = works.get(job)
    declared = (*(workload.metrics if workload else ()), *METRICS.values())
    try:
        found, _, _ = named_in(own, declared)
    except ValueError as error:
        raise ScenarioError(
            f"answer: '{metric}': {error}{_jobs_with_metric(works, own)}"
        ) from error
    if found.name == TOKENS and getattr(workload, "tokens", 0) is None:
        raise ScenarioError(
            f"answer: '{metric}' needs the tokens of an iteration; add tokens_per_iteration to the "
            "workload, or name another metric"
        )
    better = better or found.better
    if not better:
        raise ScenarioError(
            f"answer: '{metric}' does not say whether lower or higher is better; write "
            f"{{minimize: {metric}}} or {{maximize: {metric}}}"
        )
    period = workload.period if workload and metric.endswith(workload.headline) else ""
    return StudyAnswer(job, metric, found.unit, better, period)


def _jobs_with_metric(works: Mapping[str, Workload], metric: str) -> str:
    """Hint that names a job with the metric, for a metric without a job; "" for none."""
    names = metric, metric.rpartition(".")[0]
    having = [job for job, w in works.items() if any(m.fits(n) for m in w.metrics for n in names)]
    return f"; name the job: {having[0]}.{metric}" if having and len(works) > 1 else ""
