"""Devices as a scenario and a command line name them; none is opened or imported here."""

from __future__ import annotations

from collections.abc import Iterator

from ...sim.errors import ScenarioError
from .problems import FilePosition, Problem
from .scenario import Scenario
from .sections.hil import HilSection


def hil_section(scenario: Scenario) -> HilSection | None:
    """The section ``hil`` of a scenario; None where nothing is swapped."""
    said: HilSection | None = scenario.section("hil")
    return said if said is not None and said.swap else None


def devices_drive_run(scenario: Scenario) -> bool:
    """Whether answers of devices, or a journal of them, drive its runs."""
    hil = hil_section(scenario)
    return hil is not None and hil.mode == "coupled"


def live_devices_drive_run(scenario: Scenario) -> bool:
    """Whether devices drive its runs, so that no two need be alike."""
    hil = hil_section(scenario)
    return devices_drive_run(scenario) and hil is not None and hil.journal is None


def undeclared_driver_warnings(scenario: Scenario) -> Iterator[Problem]:
    """Warnings about drivers that are not known here and may exist on a remote agent only."""
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
    """``node0.nic0=verbs:mlx5_0`` and the like, as settings of ``hil``.

    Raises
    ------
    ScenarioError
        Another form.

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
