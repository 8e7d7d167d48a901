"""Samples of all metrics of one run, and the declaration of each metric."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from ....sim.analysis.metrics import built_in_samples
from ....sim.errors import ScenarioError
from ....sim.facts.metric import Metric
from ....sim.facts.sampling import MAIN
from ....sim.record.distribution import sample_array
from ....sim.run.periodic import Periodic
from ....sim.run.result import Result
from ....sim.run.workload import Samples, Workload
from ....sim.units import MoneyRate, Watts
from ...config.metrics import METRICS
from ...config.scenario import Scenario
from ..building.jobs import pools_of
from ..building.price import cost_per_million_tokens

if TYPE_CHECKING:
    from .variant import Variant

HOUR = 3600.0  # s
WHOLE = ("makespan", "utilization", "occupancy")  # metrics also of all jobs together, by last word


def headline_value(point: Variant, result: Result) -> float:
    """Value of the deciding metric in one run."""
    return point.answer.of(deciding_samples(point, result))


def answer_of_run(point: Variant) -> float:
    """Run a variant once more and return the value of the deciding metric."""
    return headline_value(point, point.run_for_answer())


def deciding_samples(point: Variant, result: Result) -> Mapping[str, Samples]:
    """Samples of the deciding metric, and of metrics computed with it; for replicas."""
    answer, several = point.answer, len(point.workloads) > 1
    workload = point.workloads.get(answer.job)
    if workload is not None and not answer.sample.endswith("makespan"):
        own = _with_job_name(
            _workload_samples(workload, _result_of_job(result, answer.job)),
            answer.job if several else "",
        )
        if answer.sample in own:
            return own
    return samples_of(point, result)


def samples_of(point: Variant, result: Result) -> dict[str, Samples]:
    """Samples of every metric by name; with several jobs, names begin with the job.

    Raises
    ------
    ScenarioError
        No period is left after the warm-up.
    """
    samples: dict[str, Samples] = {}
    several = len(point.workloads) > 1
    for name, workload in point.workloads.items():
        if several:
            mine = _result_of_job(result, name)
            own = _common_samples(workload, mine) | _workload_samples(workload, mine)
            own = {m: s for m, s in own.items() if m.rpartition(".")[2] not in WHOLE[1:]}
            own["completion_time"] = _completion_samples(point, name, mine)
            samples |= _with_job_name(own | _job_costs(point, name, own), name)
        else:
            samples |= _common_samples(workload, result) | _workload_samples(
                workload, _result_of_job(result, name)
            )
    if several:
        samples |= {
            m: s for m, s in built_in_samples(result).items() if m.rpartition(".")[2] in WHOLE
        }
    for name in result.jobs:
        if name not in (*point.workloads, MAIN):  # jobs that a process launched
            samples |= _with_job_name(_launched_samples(result.of(name)), name)
    return samples | _machine_samples(point, samples)


PLAIN = "1"  # unit of a metric that was emitted without a unit: a number, not a ratio


def metric_declarations(
    point: Variant, result: Result, samples: Mapping[str, Samples]
) -> dict[str, Metric]:
    """Declaration of each metric; an undeclared one has the unit with which it was emitted."""
    metrics = {}
    for name in samples:
        job, _, own = name.partition(".")
        job, own = (job, own) if job in result.jobs else (next(iter(point.workloads)), name)
        workload = point.workloads.get(job)
        declared = (*(workload.metrics if workload else ()), *METRICS.values())
        known = (m for m in declared if m.fits(own) or m.fits(own.rpartition(".")[0]))
        unit = _result_of_job(result, job).emitted.units.get((0, own), PLAIN)
        metrics[name] = next(known, Metric(own, unit, "Emitted by a process."))
    return metrics


def _result_of_job(result: Result, job: str) -> Result:
    """Result of a job; the complete result if it was the only job."""
    return result.of(job) if job in result.jobs else result


def _with_job_name(samples: Mapping[str, Samples], job: str) -> dict[str, Samples]:
    return {f"{job}.{m}" if job else m: s for m, s in samples.items()}


def _common_samples(workload: Workload, result: Result) -> dict[str, Samples]:
    """Samples of the built-in metrics, over the counted periods if there are any."""
    if not isinstance(workload, Periodic):
        return {**built_in_samples(result)}
    try:
        return {**built_in_samples(result, workload.warm_up, workload.counted)}
    except ValueError as error:
        raise ScenarioError(f"workload.iterations: {error}; use fewer") from error


def _workload_samples(workload: Workload, result: Result) -> dict[str, Samples]:
    """Samples of the metrics that the workload itself declares."""
    try:
        return dict(workload.measure(result))
    except ValueError as error:
        if not isinstance(workload, Periodic):
            raise
        raise ScenarioError(f"workload.iterations: {error}; use fewer") from error


def _launched_samples(result: Result) -> dict[str, Samples]:
    """Samples of the metrics of a job that a process started during the run."""
    return {"makespan": np.array([result.makespan]), **result.emitted.samples}


def _completion_samples(point: Variant, job: str, result: Result) -> Samples:
    end = result.first_release * result.tick + result.makespan
    return np.array([end - point.scenario.jobs[job].arrives])


def _gpu_share(point: Variant, job: str) -> float:
    """Fraction of the cluster's GPUs that a job has."""
    system = point.simulation.system
    needs, pools = point.workloads[job].needs.pools, pools_of(point.scenario, system)[job]
    every = len(system.gpus)
    own = [
        every if pool not in pools else value if isinstance(value, int) else len(value)
        for pool, need in needs.items()
        if need.kind == "gpu"
        for value in [pools.get(pool, 0)]
    ]
    return min(sum(own), every) / every if every else 0.0


def _job_costs(point: Variant, job: str, own: Mapping[str, Samples]) -> dict[str, Samples]:
    """Cost of one of several jobs: its share of the machines for its makespan."""
    if point.price is None:
        return {}
    rate = point.price * _gpu_share(point, job)
    return {
        "cost": sample_array(own["makespan"]) * rate,
        **dict(_token_costs(own, len(point.simulation.system.gpus) * _gpu_share(point, job), rate)),
    }


def _token_costs(
    own: Mapping[str, Samples], gpus: float, rate: MoneyRate | None
) -> Iterator[tuple[str, Samples]]:
    """GPU time and cost of a million tokens, if tokens are counted."""
    if "tokens_per_second" in own:
        each = float((1 / sample_array(own["tokens_per_second"])).mean())
        yield "gpu_time_per_million_tokens", np.array([gpus * each * 1e6])
        if rate is not None:
            yield "cost_per_million_tokens", np.array([cost_per_million_tokens(rate, each)])


def _machine_samples(point: Variant, samples: Mapping[str, Samples]) -> dict[str, Samples]:
    """Samples of the machine metrics: price, power and energy."""
    gpus, rate = len(point.simulation.system.gpus), point.price
    more: dict[str, Samples] = {}
    if rate is not None:
        more["cost_per_hour"] = np.array([rate * HOUR])
    more |= _token_costs(samples, gpus, rate)
    if (watts := _full_load_watts(point.scenario)) is not None:
        more["gpu.power.bound"] = np.array([watts])
        if "tokens_per_second" in samples:
            each = float((1 / sample_array(samples["tokens_per_second"])).mean())
            more["gpu.energy_per_million_tokens.bound"] = np.array([watts * each * 1e6])
    return more


def _full_load_watts(scenario: Scenario) -> Watts | None:
    """Power of all GPUs at full load in W; None if it is unknown for one of them."""
    cards = [(m.count, p) for m in scenario.cluster.machines() if (p := m.node.part("gpu"))]
    watts = [p.settings["power"] * (n * p.count) for n, p in cards if "power" in p.settings]
    return sum(watts) if watts and len(watts) == len(cards) else None
