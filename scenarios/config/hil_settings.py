"""Settings of real devices in a scenario and on the command line; opens no device."""

from __future__ import annotations

from collections.abc import Iterator

from ...sim.errors import ScenarioError
from .problems import FilePosition, Problem
from .scenario import Scenario
from .sections.hil import HilSection


def hil_section(scenario: Scenario) -> HilSection | None:
    """Section ``hil`` of a scenario; None if no component is swapped."""
    said: HilSection | None = scenario.section("hil")
    return said if said is not None and said.swap else None


def devices_drive_run(scenario: Scenario) -> bool:
    """True if measured times of devices, or a journal of them, drive the simulation."""
    hil = hil_section(scenario)
    return hil is not None and hil.mode == "coupled"


def live_devices_drive_run(scenario: Scenario) -> bool:
    """True if live devices drive the simulation, so that its result is not reproducible."""
    hil = hil_section(scenario)
    return devices_drive_run(scenario) and hil is not None and hil.journal is None


def undeclared_driver_warnings(scenario: Scenario) -> Iterator[Problem]:
    """Warnings about drivers that are unknown here but may exist on a remote agent."""
    from ...hil.agent.declared_drivers import agent_has_driver, unknown_driver_cure

    hil = hil_section(scenario)
    for i, swap in enumerate(hil.swap if hil else ()):
        if agent_has_driver(swap.driver, swap.agent) is None:
            message = (
                f"hil.swap {swap.component}: not checked whether agent '{swap.agent}' has a driver "
                f"'{swap.driver}'; ask the agent: foretrace drivers {swap.driver} "
                f"--agent {swap.agent}, or, to check it here, {unknown_driver_cure(swap.agent)}"
            )
            spot = FilePosition(scenario.file, path=f"hil.swap.{i}.driver")
            yield Problem("driver", message, spot, "warning")


def journal_file_name(variant: str) -> str:
    """File name of a variant's journal in a run folder.

    >>> journal_file_name("base")
    'journal.base.jsonl'
    """
    return f"journal.{variant}.jsonl"


def parse_swap_options(texts: list[str]) -> list[str]:
    """Settings of ``hil`` for ``--swap`` options such as ``node0.nic0=verbs:mlx5_0``.

    Raises
    ------
    ScenarioError
        An option has another form.

    Examples
    --------
    >>> parse_swap_options(["node0.nic0=verbs:mlx5_0"])
    ['hil.swap=[{component: "node0.nic0", driver: verbs, device: "mlx5_0"}]']
    """
    entries = []
    for text in texts:
        component, equals, driver = text.partition("=")
        name, _, device = driver.partition(":")
        if not equals or not component or not name:
            raise ScenarioError(
                f"--swap '{text}': has no driver; write it like node0.nic0=verbs:mlx5_0"
            )
        at = ""
        if device:
            key = "recording" if name == "recorded" else "device"
            at = f', {key}: "{device}"'
        entries.append(f'{{component: "{component}", driver: {name}{at}}}')
    return [f"hil.swap=[{', '.join(entries)}]"] if entries else []
