"""Calibration on your own measured step: one factor on the times of all ops on GPUs.

The factor is chosen so that a run with the settings of the measurement takes the measured time.
Effects of the network and of the parallel plan are predicted as before.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from ....sim.errors import ForetraceError, ScenarioError
from ...config.hil_settings import hil_section
from ...config.loader import with_overrides
from ...config.scenario import Scenario
from ...workloads.measured_step import MeasuredStep
from ...workloads.training import TrainingWorkload
from ..building.jobs import workloads_of
from .blind_variant import build_blind_variant
from .calibrated_step import StepCalibration, with_scaled_gpu_times
from .samples import samples_of
from .statistics import statistic_of
from .variant import Variant

CLOSE = 1e-4  # relative difference from the measured time at which the search ends
TRIES = 12  # most steps of the search
FREE = 1e-6  # factor with which ops on GPUs take practically no time
PLACE = "workload.measured"


def measured_step(scenario: Scenario) -> MeasuredStep | None:
    """Measured step of a scenario; None for none.

    Raises
    ------
    ScenarioError
        There are several jobs, or devices drive the run.
    """
    works = workloads_of(scenario).values()
    found = [w.measured for w in works if isinstance(w, TrainingWorkload) and w.measured]
    if not found:
        return None
    if len(works) > 1:
        raise ScenarioError(
            f"{PLACE}: needs a single job, and there are {len(works)}; calibrate each job in its "
            "own scenario, and write its factor as cluster.override: {slowdown: …}"
        )
    if hil_section(scenario) is not None:
        raise ScenarioError(
            f"{PLACE}: cannot scale the times of real devices; remove 'hil' or 'measured'"
        )
    return found[0]


def calibration_of(scenario: Scenario, base: Scenario | None = None) -> StepCalibration | None:
    """Calibration of a scenario; None if no step was measured.

    Parameters
    ----------
    base : scenario to which the settings of the measurement are applied; by default the scenario
        itself without the settings of a sweep

    Raises
    ------
    ScenarioError
        The measurement is of other GPUs, or no factor reproduces the measured time.
    """
    step = measured_step(scenario)
    if step is None:
        return None
    plain = (base or scenario).resolved()
    plain.pop("set", None)
    settings = {**dict(step.settings()), PLACE: None}
    found = _calibration_of_texts(json.dumps(plain), json.dumps(settings), step.seconds, step.where)
    _require_same_gpus(scenario, found.reference.scenario)
    return found


def _require_same_gpus(scenario: Scenario, reference: Scenario) -> None:
    """Raise an error if the factor was found on other GPUs or with other backends."""
    gpu, measured = scenario.cluster.gpu(), reference.cluster.gpu()
    for what, same in (
        (
            "GPUs",
            gpu and measured and (gpu.model, gpu.settings) == (measured.model, measured.settings),
        ),
        ("backends", dict(scenario.backends) == dict(reference.backends)),
    ):
        if not same:
            raise ScenarioError(
                f"{PLACE}: {scenario.variant} has other {what} than the measured step, so its "
                "factor does not apply; set workload.measured: null there, or measure a step on "
                "them"
            )


@lru_cache(maxsize=16)
def _calibration_of_texts(plain: str, settings: str, seconds: float, where: str) -> StepCalibration:
    try:
        reference = build_blind_variant(with_overrides(json.loads(plain), json.loads(settings)))
    except ForetraceError as error:
        raise ScenarioError(f"{PLACE}.on: {error}") from error
    factor, blind = _factor(reference, seconds)
    done = reference.with_simulation(with_scaled_gpu_times(reference.simulation, factor))
    return StepCalibration(seconds, blind, where, factor, done)


def _factor(reference: Variant, measured: float) -> tuple[float, float]:
    """Factor on GPU op times that gives the measured step time, and the step time without it.

    Raises
    ------
    ScenarioError
        The time without GPU ops is too long, or GPU ops matter too little.
    """

    def step_time(factor: float) -> float:
        slower = reference.with_simulation(with_scaled_gpu_times(reference.simulation, factor))
        return _headline(slower)

    alone, blind = step_time(FREE), _headline(reference)
    if measured <= alone or blind <= alone:
        raise ScenarioError(
            f"{PLACE}: no factor on GPU times gives {measured:.4g} s: without them the step takes "
            f"{alone:.4g} s, with them {blind:.4g} s; correct the description of the network or "
            "the plan, or measure where these matter less (on: {nodes: 1})"
        )
    (low, fast), (high, slow) = (FREE, alone), (1.0, blind)
    for _ in range(TRIES):
        if abs(slow / measured - 1) < CLOSE:
            return high, blind
        if slow == fast:
            break
        new = max(high + (measured - slow) * (high - low) / (slow - fast), FREE)
        (low, fast), (high, slow) = (high, slow), (new, step_time(new))
    raise ScenarioError(
        f"{PLACE}: no factor on GPU times gives {measured:.4g} s, the nearest ({high:.4g}) gives "
        f"{slow:.4g} s; measure several steps and write their median"
    )


def _headline(point: Variant) -> float:
    """Headline value of a run's only job, which is the measured quantity."""
    (workload,) = point.workloads.values()
    name, _, statistic = workload.headline.rpartition(".")
    return float(statistic_of(samples_of(point, point.run_for_answer())[name], statistic))


def calibration_facts(point: Variant, blind: float) -> Mapping[str, Any]:
    """Facts about a calibration, and the answer without it, as plain data.

    Parameters
    ----------
    blind : answer without calibration
    """
    found = point.calibration
    if found is None:
        return {}
    return {
        "measured": found.measured, "on": found.where, "factor": found.factor,
        "blind_there": found.blind, "blind": blind,
    }  # fmt: skip
