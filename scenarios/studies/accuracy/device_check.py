"""``hil check``: models against devices, per component and for the complete run."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ....hil.coupling.coverage import component_numbers
from ....hil.recording import Recording
from ....sim.errors import ScenarioError
from ....sim.facts.system import System
from ...config.hil_settings import hil_section
from ...config.scenario import Scenario
from ...config.sections.hil import HilSection
from ..confidence.break_even import break_even_errors
from ..folders.partial_answers import PartialAnswers
from ..summaries.provenance import calibration_of_models
from ..variants.variants import build_variants
from .component_errors import component_errors
from .open_devices import common_clock_class
from .replay import (
    FINE,
    ReplayedDevice,
    coupled_system_and_backends,
    measure_or_load_recordings,
    ops_asked_of_devices,
)
from .verdicts import condition_outcomes
from .whole_run import whole_run_answers

log = logging.getLogger(__name__)

SCHEMA = 1
Tell = Callable[[str], None]


@dataclass(frozen=True)
class DeviceCheck:
    """Result of a hardware check.

    Parameters
    ----------
    results : all results as plain data; see ``docs/accuracy-page.md``
    recordings : recording of each component
    """

    results: dict[str, Any]
    recordings: Mapping[str, Recording]

    @property
    def outcome(self) -> str:
        """Worst outcome of the conditions: ``fail``, ``unresolved`` or ``pass`` (also for none)."""
        outcomes = {e["outcome"] for e in self.results["expect"] if e["otherwise"] == "fail"}
        return next((o for o in ("fail", "unresolved") if o in outcomes), "pass")


def check_devices(
    scenario: Scenario,
    tell: Tell = log.info,
    other_scenario: Scenario | None = None,
    partial_answers: PartialAnswers | None = None,
) -> DeviceCheck:
    """Run the ops of a scenario on its devices and compare the times with the models.

    Parameters
    ----------
    other_scenario : the same scenario with another catalog, to report the errors of both; None to
        omit
    partial_answers : stores measurements even if the check fails

    Raises
    ------
    ScenarioError
        No component is swapped, nothing can be measured, or clocks would be mixed.
    HardwareUnavailable
        A device is missing, or fails during the measurement.
    """
    hil = hil_section(scenario)
    if hil is None:
        raise ScenarioError("hil.swap: no component is swapped; write hil.swap, or give --swap")
    every = build_variants(scenario)
    point = every[0]
    asked = ops_asked_of_devices(point, hil)
    bar = _lowest_expected_error_bar(scenario)
    replays = measure_or_load_recordings(hil, asked, bar, tell, partial_answers or PartialAnswers())
    mixed = _use_different_clocks(replays, hil)
    other = (
        None
        if other_scenario is None
        else ops_asked_of_devices(build_variants(other_scenario)[0], hil)
    )
    tell("comparing: the run with and without each device")
    told: dict[str, Any] = {
        "schema": SCHEMA,
        "name": scenario.name,
        "question": scenario.question,
        "title": scenario.report.title,
        "seed": scenario.run.seed,
        "answer": point.answer.to_dict(),
        "mode": hil.mode,
        "calibration": calibration_of_models(scenario),
        "mixed_clocks": mixed,
        "components": {one.name: component_errors(one, other) for one in replays},
        "whole": None if mixed else whole_run_answers(point, replays, hil),
    }
    adapters = coupled_system_and_backends(point, hil).adapters
    inside = {
        p.name: partial(_components_in_sample, sorted(p.swap.covers.devices)) for p in adapters
    }
    told["break_even"] = [] if mixed else break_even_errors(every, inside)
    told["expect"] = condition_outcomes(scenario, point.answer, told)
    return DeviceCheck(told, {one.name: one.recording for one in replays})


def _components_in_sample(devices: Sequence[str], system: System) -> list[int]:
    """Indices of the components whose times the samples of some devices replace together."""
    return [i for d in devices for i in component_numbers(system, d)]


def _lowest_expected_error_bar(scenario: Scenario) -> float:
    """Lowest limit on an error among the conditions of ``expect``; without one, a default."""
    bars = [e.that.limit for e in scenario.expect if e.that.metric.startswith("hil.")]
    return min([b for b in bars if b > 0], default=FINE)


def _use_different_clocks(replays: Sequence[ReplayedDevice], hil: HilSection) -> bool:
    """True if devices use different clocks; an error unless the scenario is a demonstration.

    Raises
    ------
    ScenarioError
        A component has several clocks or metrics, or components have different clocks.
    """
    for one in replays:
        for what in ("clock", "metric"):
            kinds = sorted({getattr(s, what) for s in one.recording.samples})
            if len(kinds) > 1:
                raise ScenarioError(
                    f"hil.swap {one.name}: its recording mixes {what}s ({', '.join(kinds)}); make "
                    f"one recording per {what}"
                )
    return not common_clock_class([one.device for one in replays], hil)
