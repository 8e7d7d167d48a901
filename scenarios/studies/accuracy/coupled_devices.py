"""Real devices in place of components, for ``mode: coupled``."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

from ....hil.coupling.coupled import couple
from ....hil.coupling.coverage import SampleCoverage, Subtraction, sample_coverage
from ....hil.coupling.device_adapter import MOST, Swap
from ....hil.coupling.journal import JournalReader, JournalWriter, OpTimer, read_journal
from ....hil.coupling.live_driver import LiveDriver
from ....hil.driver_registry import known_drivers
from ....sim.errors import ScenarioError
from ....sim.facts.backend import Backend
from ....sim.facts.system import System
from ...config.sections.hil import SwapSection
from ..building.coupled_machine import CoupledDevices
from .open_devices import OpenDevice, driver_options
from .stand_in import driver_class

log = logging.getLogger(__name__)


def components_in_sample(
    swap: SwapSection, system: System, more: Sequence[str] = ()
) -> SampleCoverage:
    """Components that one measured sample of a swapped component includes, and times to subtract.

    Parameters
    ----------
    more : further components in the sample, as the driver declares them
    """
    off = {c: Subtraction(o.time, o.error) for c, o in swap.subtract.items()}
    return sample_coverage(system, swap.component, (*swap.covers, *more), off)


def replace_components_by_devices(
    system: System,
    backends: Mapping[str, Backend],
    devices: Sequence[OpenDevice],
    journal: Path | None = None,
    prefetch: bool = False,
) -> CoupledDevices:
    """System and backends in which open devices, or their journal, replace components.

    Parameters
    ----------
    prefetch : True to measure ops before the run, if a result does not depend on simulated time
    """
    kept = None if journal is None else read_journal(journal)
    writers, swaps = {}, []
    for device in devices:
        timer: OpTimer = LiveDriver(device.driver, device.source, device.place)
        if kept is not None:
            timer = JournalReader(device.name, kept, f"journal of {device.source}")
        writers[device.name] = JournalWriter(device.name, timer)
        swaps.append(_device_swap(device, writers[device.name], system))
    return CoupledDevices(couple(system, backends, swaps, prefetch), writers)


def require_steerable(device: OpenDevice) -> None:
    """Raise an error for a device that cannot be paused, and so cannot drive simulated time.

    Raises
    ------
    ScenarioError
        Its own timers keep running.
    """
    if device.driver.realtime and device.driver.clock != "timetravel":
        raise ScenarioError(
            f"hil.swap {device.name}: timers of {device.swap.driver} keep running while the "
            "simulation waits; write mode: replay, or use a machine with a time-travel clock"
        )


def _device_swap(device: OpenDevice, timer: OpTimer, system: System) -> Swap:
    swap = device.swap
    return Swap(
        swap.component,
        timer,
        device.driver.sharing,
        components_in_sample(swap, system, _further_components(device, system)),
        max_in_flight=swap.ops.max_in_flight or MOST,
        context=swap.ops.context,
        preceding=swap.ops.preceding,
        answers=device.driver.answers,
        others=swap.ops.others,
        recorded=device.recording is not None,
    )


def _further_components(device: OpenDevice, system: System) -> Sequence[str]:
    """Further components in a sample, as the driver declares them."""
    kept = device.recording
    if kept is None:
        name, options = device.swap.driver, driver_options(device.swap)
    else:
        name, options = kept.driver, dict(kept.spec)
    if kept is not None and name not in known_drivers():
        if not device.swap.covers:
            log.warning(
                "%s: driver '%s' is unknown here, so the components in its samples are too; list "
                "them under 'covers'",
                device.name,
                name,
            )
        return ()
    return driver_class(name, device.swap.agent).covers(
        {**options, "component": device.name}, system
    )
