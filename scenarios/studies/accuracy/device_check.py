"""``hil check``: every component against its device, and the whole run with and without them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ....hil.coupling.coverage import component_numbers
from ....hil.recording import Recording
from ....sim.errors import ScenarioError
from ....sim.system import System
from ...config.hil_settings import section
from ...config.scenario import Scenario
from ...config.sections.hil import Hil
from ..provenance import of_models
from ..variants import variants
from .break_even import break_even
from .component_errors import component
from .open_devices import CLASSES
from .replay import FINE, Replayed, asked_of, coupling_of, replayed
from .verdicts import condition_outcomes
from .whole_run import whole

log = logging.getLogger(__name__)

SCHEMA = 1
Tell = Callable[[str], None]


@dataclass(frozen=True)
class DeviceCheck:
    """Result of a check.

    Parameters
    ----------
    told : all of it as plain data; see ``docs/accuracy-page.md``
    recordings : by component
    """

    told: dict[str, Any]
    recordings: Mapping[str, Recording]

    @property
    def outcome(self) -> str:
        """``fail`` before ``unresolved`` before ``pass``; ``pass`` where nothing was expected."""
        outcomes = {e["outcome"] for e in self.told["expect"] if e["otherwise"] == "fail"}
        return next((o for o in ("fail", "unresolved") if o in outcomes), "pass")


def check(scenario: Scenario, tell: Tell = log.info, beside: Scenario | None = None) -> DeviceCheck:
    """Run the ops of a scenario on its devices and compare them with the models.

    Parameters
    ----------
    beside : the same scenario with another catalog, to show both

    Raises
    ------
    ScenarioError
        Nothing is swapped, nothing can be measured, or several clocks would be mixed.
    HardwareUnavailable
        A device is not there.
    """
    hil = section(scenario)
    if hil is None:
        raise ScenarioError("hil.swap: nothing is swapped; write it, or give --swap")
    every = variants(scenario)
    point = every[0]
    asked = asked_of(point, hil)
    replays = replayed(hil, asked, _lowest_bar(scenario), tell)
    mixed = _use_different_clocks(replays, hil)
    other = None if beside is None else asked_of(variants(beside)[0], hil)
    tell("comparing: the run with and without each device")
    told: dict[str, Any] = {
        "schema": SCHEMA,
        "name": scenario.name,
        "question": scenario.question,
        "title": scenario.report.title,
        "seed": scenario.run.seed,
        "answer": point.answer.to_dict(),
        "mode": hil.mode,
        "calibration": of_models(scenario),
        "mixed_clocks": mixed,
        "components": {one.name: component(one, other) for one in replays},
        "whole": None if mixed else whole(point, replays, hil),
    }
    ports = coupling_of(point, hil).ports
    inside = {p.name: partial(_components_in_sample, sorted(p.swap.covers.devices)) for p in ports}
    told["break_even"] = [] if mixed else break_even(every, inside)
    told["expect"] = condition_outcomes(scenario, point.answer, told)
    return DeviceCheck(told, {one.name: one.recording for one in replays})


def _components_in_sample(devices: Sequence[str], system: System) -> list[int]:
    """The components in a sample, all of which would be wrong alike."""
    return [i for d in devices for i in component_numbers(system, d)]


def _lowest_bar(scenario: Scenario) -> float:
    """The lowest bar that is expected of an error."""
    bars = [e.that.limit for e in scenario.expect if e.that.metric.startswith("hil.")]
    return min([b for b in bars if b > 0], default=FINE)


def _use_different_clocks(replays: Sequence[Replayed], hil: Hil) -> bool:
    """Whether devices use different clocks; an error unless the scenario is a demonstration.

    Raises
    ------
    ScenarioError
        One component with several clocks or metrics, or components of different clocks.
    """
    for one in replays:
        for what in ("clock", "metric"):
            kinds = sorted({getattr(s, what) for s in one.recording.samples})
            if len(kinds) > 1:
                raise ScenarioError(
                    f"hil.swap {one.name}: its recording mixes {what}s ({', '.join(kinds)}); one "
                    "accuracy figure has one: record them apart"
                )
    clocks = {one.name: one.device.driver.clock for one in replays}
    if len({CLASSES.get(c, c) for c in clocks.values()}) <= 1:
        return False
    if hil.mixed_clocks is None:
        by = ", ".join(f"{n} counts by {c}" for n, c in clocks.items())
        raise ScenarioError(
            f"hil.swap: {by}; check them apart, or set mixed_clocks: demonstration, which tells "
            "no accuracy of the whole"
        )
    return True
