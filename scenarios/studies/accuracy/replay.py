"""Replay: the ops of a run measured on devices, and stored as recordings."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ....hil.connection import connect_driver
from ....hil.coupling.coupled import Coupling, unseen_op_error
from ....hil.coupling.live_driver import prefix_faults
from ....hil.coupling.replay_ops import ReplayOp, replay_ops
from ....hil.drivers.recording_driver import RecordingDriver
from ....hil.measuring.measurement import Measurement
from ....hil.measuring.work_list import WorkList
from ....hil.recording import SUFFIX, Recording, read
from ....hil.sample import Request
from ....sim.errors import DriverFault, HardwareUnavailable, RecordingError, ScenarioError
from ...config.sections.hil import HilSection, SwapSection
from ..folders.partial_answers import PartialAnswers
from ..variants.variant import Variant
from .coupled_devices import replace_components_by_devices
from .open_devices import (
    RECORDED,
    OpenDevice,
    driver_options,
    recording_as_device,
    stand_in_device,
)
from .stand_in import driver_class

log = logging.getLogger(__name__)

MOST_STARTS = 3  # most process starts, as a multiple of hil.repeat
BLOCKS = 9
BATCH = 5  # repeats in a batch
FINE = 0.05  # default error limit, for a scenario without conditions
Tell = Callable[[str], None]


@dataclass(frozen=True)
class ReplayedDevice:
    """One component with the recording of its device.

    Parameters
    ----------
    device : device that replays the recording
    ops : every op of the run on this component, in the order of the run
    older : earlier recording of the component, for drift; None for none
    """

    device: OpenDevice
    ops: tuple[ReplayOp, ...]
    older: Recording | None

    @property
    def name(self) -> str:
        """Name of the component."""
        return self.device.name

    @property
    def recording(self) -> Recording:
        """Recording with the measured samples."""
        return self.device.replayed_recording


def coupled_system_and_backends(point: Variant, hil: HilSection) -> Coupling:
    """System and backends of a variant with the devices of ``hil.swap`` in place, none opened."""
    devices = [_unopened_device(hil, swap) for swap in hil.swap]
    return replace_components_by_devices(
        point.simulation.system, point.simulation.backends, devices
    ).coupling


def ops_asked_of_devices(point: Variant, hil: HilSection) -> dict[str, list[ReplayOp]]:
    """Ops of a run on each swapped component, by component."""
    found: dict[str, list[ReplayOp]] = {swap.component: [] for swap in hil.swap}
    for one in replay_ops(coupled_system_and_backends(point, hil), point.known_graph):
        found[one.component].append(one)
    for swap in hil.swap:
        unseen = [q.signature for q in found[swap.component] if not q.supported]
        if unseen and swap.driver == RECORDED and swap.ops.others == "fail":
            raise unseen_op_error(swap.component, unseen[0])
    for name, asked in found.items():
        if not any(q.supported for q in asked):
            why = (
                f"its driver supports none of {_first_few_ops(asked)}"
                if asked
                else "no op of this run uses it"
            )
            raise ScenarioError(
                f"hil.swap {name}: nothing to measure: {why}; swap another component"
            )
        if any(q.predicted != q.predicted for q in asked):
            raise ScenarioError(
                f"hil.swap {name}: has no model to compare with; bind one under backends"
            )
    return found


def _first_few_ops(ops: Sequence[ReplayOp]) -> str:
    common = Counter(q.signature for q in ops).most_common(3)
    return ", ".join(repr(signature) for signature, _ in common)


def _unopened_device(hil: HilSection, swap: SwapSection) -> OpenDevice:
    """Driver that is not opened, to know what it supports and what its samples include."""
    if swap.driver == RECORDED:
        return recording_as_device(hil, swap)
    return OpenDevice(swap, driver_class(swap.driver, swap.agent)(), {})


def measure_or_load_recordings(
    hil: HilSection,
    ops_by_component: Mapping[str, Sequence[ReplayOp]],
    bar: float,
    tell: Tell,
    partial: PartialAnswers,
) -> list[ReplayedDevice]:
    """Measure the ops of each swapped component, or load its recording.

    Parameters
    ----------
    bar : lowest limit among the conditions on errors
    partial : stores measurements even if a device fails

    Raises
    ------
    HardwareUnavailable
        A device is missing and no recording may replace it, or it fails during the measurement.
    """
    return [
        _replay_device(hil, swap, ops_by_component[swap.component], bar, tell, partial)
        for swap in hil.swap
    ]


def _replay_device(
    hil: HilSection,
    swap: SwapSection,
    ops: Sequence[ReplayOp],
    bar: float,
    tell: Tell,
    partial: PartialAnswers,
) -> ReplayedDevice:
    older = _older_recording(hil, swap)
    if swap.driver == RECORDED:
        device = device_answering_from(swap, recording_as_device(hil, swap).replayed_recording)
    else:
        try:
            device = _measure_device(hil, swap, ops, bar, tell, partial)
        except HardwareUnavailable as error:
            if swap.if_missing == "fail" or partial.measured[swap.component]("").samples:
                raise
            device = device_answering_from(swap, stand_in_device(hil, swap).replayed_recording)
            tell(f"{swap.component}: {error}; {device.source}")
    return ReplayedDevice(device, tuple(ops), older)


def _older_recording(hil: HilSection, swap: SwapSection) -> Recording | None:
    if hil.keep_recording is None:
        return None
    path = _recording_path(hil.keep_recording, swap.component)
    return read(path) if path.is_file() and str(path) != (swap.recording or "") else None


def _recording_path(folder: str, component: str) -> Path:
    return Path(folder) / f"{component}{SUFFIX}"


def context_of_swap(swap: SwapSection) -> str:
    """Cache context (``warm`` or ``cold``) in which ops are measured one by one."""
    return "cold" if swap.ops.context == "cold" else "warm"


def work_list_of_swap(
    hil: HilSection, swap: SwapSection, ops: Sequence[ReplayOp], bar: float = FINE
) -> WorkList:
    """Work list of the distinct ops of a run for a device, with the settings of its swap.

    Parameters
    ----------
    bar : relative error that the measurement must resolve
    """
    texts = dict.fromkeys(q.signature for q in ops if q.supported)
    return WorkList(
        swap.driver,
        tuple(Request(text, BATCH, context_of_swap(swap)) for text in texts),
        driver_options(swap),
        starts=hil.repeat,
        most_starts=MOST_STARTS * hil.repeat,
        blocks=BLOCKS,
        bar=bar,
        seconds=hil.time_limit,
        busy=hil.busy,
    )


def _measure_device(
    hil: HilSection,
    swap: SwapSection,
    ops: Sequence[ReplayOp],
    bar: float,
    tell: Tell,
    partial: PartialAnswers,
) -> OpenDevice:
    work = work_list_of_swap(hil, swap, ops, bar)
    tell(f"{swap.component}: {len(work.requests)} different ops on {swap.driver}")
    under_way = Measurement(
        work, lambda: connect_driver(swap.driver, swap.agent, hil.time_limit), tell
    )
    under_way.on_sample = partial.record_measurement(swap.component, under_way.recording)
    with prefix_faults(f"hil.swap {swap.component}: {swap.driver}"):
        recording = under_way.run()
        if recording.fault is not None:
            raise recording.fault
        if not recording.samples:
            raise DriverFault(
                "hung",
                f"{recording.ended} passed before anything was measured; raise hil.time_limit, or "
                "stop other programs on this machine",
            )
    if recording.ended:
        tell(f"{swap.component}: partly measured: {recording.ended}")
    if hil.keep_recording is not None:
        keep_recording(recording, hil.keep_recording, swap.component)
    return device_answering_from(swap, recording)


def keep_recording(recording: Recording, folder: str, component: str) -> Path:
    """Write a recording where later checks find it; an older one is renamed by its date."""
    path = _recording_path(folder, component)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_file():
        date = read(path).date.replace(":", "")
        path.rename(path.with_name(f"{component}.{date}{SUFFIX}"))
    recording.write(path)
    return path


def device_answering_from(swap: SwapSection, recording: Recording) -> OpenDevice:
    """Device that replays a given recording, shared among ops as the real driver is.

    The model times ops that were not measured; the page reports their fraction.
    """
    swap = swap.model_copy(update={"ops": swap.ops.model_copy(update={"others": "model"})})
    driver = RecordingDriver.of(recording)
    try:
        own = driver_class(recording.driver, swap.agent).sharing
    except (HardwareUnavailable, RecordingError):
        own = "solo"
    driver.sharing = "exclusive" if own == "exclusive" else "solo"
    return OpenDevice(swap, driver, dict(driver.describe()), recording)


def with_process_starts(replayed: ReplayedDevice, starts: Sequence[int]) -> ReplayedDevice:
    """Copy of a replay with samples of the given process starts only; a start may be repeated."""
    samples = tuple(s for n in starts for s in replayed.recording.samples if s.start == n)
    recording = replace(replayed.recording, samples=samples)
    return replace(replayed, device=device_answering_from(replayed.device.swap, recording))
