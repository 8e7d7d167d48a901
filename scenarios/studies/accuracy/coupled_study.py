"""Coupled runs: real devices give the times of some components in each variant of a study."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from time import monotonic

from ....hil.coupling.live_driver import prefix_faults
from ....hil.coupling.replay_ops import replay_ops
from ....hil.sample import Request
from ....sim.errors import ScenarioError
from ....sim.facts.place import place
from ....sim.units import Seconds
from ...config.hil_settings import hil_section, journal_file_name
from ...config.scenario import BASE, Scenario
from ..building.jobs import components_of_ranks
from ..variants.variant import Variant
from .coupled_devices import replace_components_by_devices, require_steerable
from .open_devices import OpenDevice, common_clock_class, open_devices

Drive = Callable[[Variant], Variant]


@contextmanager
def devices_driving_points(scenario: Scenario) -> Iterator[Drive]:
    """Context manager that opens the devices and yields a function that puts them into a variant.

    Without coupled devices the function returns the variant unchanged.

    Raises
    ------
    HardwareUnavailable
        A device is missing, and no recording may replace it.
    ScenarioError
        Devices have different clocks, or one cannot be paused.
    """
    hil = hil_section(scenario)
    if hil is None or hil.mode != "coupled":
        yield lambda point: point
        return
    with open_devices(hil, scenario.run.seed) as devices:
        for device in devices:
            require_steerable(device)
        common_clock_class(devices, hil)

        def drive(point: Variant) -> Variant:
            made = point_with_devices(point, devices, _journal_path(hil.journal, point.name))
            if hil.journal is None:
                warm_up_devices(made, devices, hil.warm_up)
            return made

        yield drive


def warm_up_devices(point: Variant, devices: list[OpenDevice], time: Seconds) -> None:
    """Run the ops of a variant on each device for ``time`` seconds; skipped for recordings."""
    if point.coupled is None:
        return
    asked = replay_ops(point.coupled.coupling, point.known_graph, predict=False)
    for device in devices:
        own = dict.fromkeys(
            q.signature for q in asked if q.component == device.name and q.supported
        )
        until = monotonic() + time
        for signature in cycle(own) if device.recording is None else ():
            if monotonic() >= until:
                break
            with prefix_faults(device.place):
                device.driver.timing([Request(signature)])


def point_with_devices(
    point: Variant, devices: list[OpenDevice], journal: Path | None = None, prefetch: bool = False
) -> Variant:
    """Variant whose simulation takes the times of swapped components from devices.

    Parameters
    ----------
    journal : journal used in place of the devices
    prefetch : True to measure ops before the run, if a result does not depend on simulated time
    """
    simulation = point.simulation
    made = replace_components_by_devices(
        simulation.system, simulation.backends, devices, journal, prefetch
    )
    graph = point.known_graph
    if graph.placed:
        ranks = components_of_ranks(point.scenario.placement, made.coupling.system)
        graph = place(graph, made.coupling.system, ranks)
    changed = replace(simulation, system=made.coupling.system, backends=made.coupling.backends)
    return replace(point, graph=graph, simulation=changed, coupled=made)


def _journal_path(run: str | None, variant: str) -> Path | None:
    """Journal file of a variant in a run folder."""
    if run is None:
        return None
    path = Path(run)
    found = path / journal_file_name(variant) if path.is_dir() else path
    if not path.is_dir() and variant != BASE:
        raise ScenarioError(
            f"hil.journal: {run} has no journal of variant '{variant}'; give the run folder"
        )
    return found
