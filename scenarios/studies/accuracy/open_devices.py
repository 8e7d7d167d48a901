"""Open devices of ``hil.swap`` by component, or recordings in their place."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ....hil.bundled_recordings import recording_path
from ....hil.connection import connect_driver
from ....hil.coupling.live_driver import prefix_faults
from ....hil.driver import Driver
from ....hil.drivers.recording_driver import RecordingDriver
from ....hil.recording import Recording, read
from ....sim.errors import DriverFault, HardwareUnavailable, ScenarioError
from ...config.sections.hil import HilSection, SwapSection
from .stand_in import CLASSES, require_complete_recording, require_stand_in

log = logging.getLogger(__name__)

SUFFIX = ".rec.gz"
RECORDED = "recorded"


@dataclass(frozen=True)
class OpenDevice:
    """A swapped component with its open driver or recording.

    Parameters
    ----------
    swap : entry of the component under ``hil.swap`` in the scenario
    driver : open driver
    facts : device, host, date and versions from the driver's ``describe``
    recording : recording that the driver replays; None for a live device
    """

    swap: SwapSection
    driver: Driver
    facts: dict[str, str]
    recording: Recording | None = None

    @property
    def name(self) -> str:
        """Name of the component."""
        return self.swap.component

    @property
    def place(self) -> str:
        """Prefix of error messages about the device."""
        return f"hil.swap {self.name}: {self.swap.driver}"

    @property
    def replayed_recording(self) -> Recording:
        """Recording that the driver replays."""
        if self.recording is None:
            raise ValueError(
                f"{self.name}: is a live device without a recording; use it only after a replay"
            )
        return self.recording

    @property
    def source(self) -> str:
        """One-line description of the device or recording."""
        if self.recording is not None:
            r = self.recording
            what = f"{r.driver} {r.device} on {r.host}"
            return f"recorded on {r.date[:10]}: {what}, {self.driver.clock} clock"
        where = self.facts.get("host", "here")
        what = self.facts.get("device") or self.swap.device or "its first device"
        return f"driver:{self.swap.driver} {what} on {where}, {self.driver.clock} clock"


def recording_file_of_swap(hil: HilSection, swap: SwapSection) -> Path | None:
    """Recording file of a swap: its own, or the stored one of its component; None for none."""
    if swap.recording is not None:
        return recording_path(swap.recording)
    if hil.keep_recording is not None:
        return Path(hil.keep_recording) / f"{swap.component}{SUFFIX}"
    return None


@contextmanager
def open_devices(hil: HilSection, seed: int = 0) -> Iterator[list[OpenDevice]]:
    """Context manager that opens every device of a scenario and closes it in any case.

    Raises
    ------
    DriverFault
        A device is missing, busy or not permitted, and no recording may replace it.
    RecordingError
        A recording is missing, damaged or of another device.
    """
    with ExitStack() as stack:
        yield [_open_device(hil, swap, seed, stack) for swap in hil.swap]


def _open_device(hil: HilSection, swap: SwapSection, seed: int, stack: ExitStack) -> OpenDevice:
    if swap.driver == RECORDED:
        return recording_as_device(hil, swap, seed)
    try:
        return _open_live_device(swap, stack, hil.time_limit)
    except HardwareUnavailable as error:
        if swap.if_missing == "fail":
            raise _fault_naming_component(swap, error) from error
        found = stand_in_device(hil, swap, seed)
        log.warning("hil.swap %s: %s; %s", swap.component, error, found.source)
        return found


def _fault_naming_component(swap: SwapSection, error: HardwareUnavailable) -> HardwareUnavailable:
    """Fault that also names the component and a cure."""
    kind = error.kind if isinstance(error, DriverFault) else "broken"
    text = error.message if isinstance(error, DriverFault) else str(error)
    return DriverFault(
        kind, f"hil.swap {swap.component}: {swap.driver}: {text}; or set if_missing: recorded"
    )


def _open_live_device(swap: SwapSection, stack: ExitStack, limit: float) -> OpenDevice:
    driver = connect_driver(swap.driver, swap.agent, limit)
    stack.callback(_close_device, swap, driver)
    driver.open(driver_options(swap))
    return OpenDevice(swap, driver, dict(driver.describe()))


def _close_device(swap: SwapSection, driver: Driver) -> None:
    with prefix_faults(f"hil.swap {swap.component}: {swap.driver}"):
        driver.close()


def driver_options(swap: SwapSection) -> dict[str, Any]:
    """Options for opening a driver, including the device and the peer.

    A peer of the same agent is given as a device name. A peer of another agent is given as a
    mapping with agent and device. Several peers are given as a list of such mappings.
    """
    told = dict(swap.options)
    if swap.device:
        told["device"] = swap.device
    if isinstance(swap.peer, tuple):
        told["peer"] = [peer.model_dump() for peer in swap.peer]
    elif swap.peer is not None:
        here = swap.peer.agent in ("", swap.agent)
        told["peer"] = swap.peer.device if here else swap.peer.model_dump()
    return told


def recording_as_device(hil: HilSection, swap: SwapSection, seed: int = 0) -> OpenDevice:
    """Open a recording in place of a device."""
    file = recording_file_of_swap(hil, swap)
    if file is None:
        raise ScenarioError(
            f"hil.swap {swap.component}: has no recording; write recording: FILE there, or "
            "keep_recording: FOLDER under hil"
        )
    kept = read(file)
    require_complete_recording(swap, kept)
    driver = RecordingDriver.of(kept, hil.answer, seed)
    return OpenDevice(swap, driver, dict(driver.describe()), kept)


def stand_in_device(hil: HilSection, swap: SwapSection, seed: int = 0) -> OpenDevice:
    """Open a recording in place of the missing device that it was made on.

    Raises
    ------
    RecordingError
        The recording is of another device.
    """
    found = recording_as_device(hil, swap, seed)
    require_stand_in(swap, driver_options(swap), found.replayed_recording)
    return found


def common_clock_class(devices: Sequence[OpenDevice], hil: HilSection) -> str:
    """Clock class shared by all devices of a coupled run; "" for a demonstration that mixes clocks.

    Raises
    ------
    ScenarioError
        Devices have different clocks, and the scenario is not a demonstration.
    """
    classes = {d.name: CLASSES.get(d.driver.clock, d.driver.clock) for d in devices}
    if len(set(classes.values())) <= 1:
        return next(iter(classes.values()), "")
    told = ", ".join(f"{d.name} uses the clock {d.driver.clock}" for d in devices)
    if hil.mixed_clocks is None:
        raise ScenarioError(
            f"hil.swap: {told}, and these clocks cannot be compared; swap devices with the same "
            "clock, or set mixed_clocks: demonstration, which reports no accuracy"
        )
    log.warning("hil.swap: %s; this is a demonstration, no accuracy is reported", told)
    return ""
