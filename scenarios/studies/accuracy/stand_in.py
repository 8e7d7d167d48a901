"""Check that a recording may replace a missing device."""

from __future__ import annotations

from collections.abc import Iterator

from ....hil import driver_registry
from ....hil.agent.address import listed_agents
from ....hil.agent.declared_drivers import import_agent_driver
from ....hil.driver import Driver
from ....hil.recording import Recording
from ....hil.sample import EMULATED
from ....sim.errors import DriverFault, RecordingError
from ...config.sections.hil import SwapSection

REAL = "a real machine's"
CLASSES = {"wall": REAL, "device": REAL, "cpu": REAL}  # other clocks form their own class
CHOSEN = ("metric", "clock", "device")  # settings compared even if the swap does not set them


def driver_class(name: str, agent: str = "") -> type[Driver]:
    """Class of a driver, without opening its device.

    Parameters
    ----------
    agent : agent that loads the file of a user's own driver
    """
    if agent and name not in driver_registry.known_drivers():
        import_agent_driver(name, agent)
    return type(driver_registry.make_driver(name))


def require_stand_in(swap: SwapSection, options: dict[str, object], recording: Recording) -> None:
    """Raise an error if a recording does not match the missing device.

    Parameters
    ----------
    options : options with which the driver would have been opened

    Raises
    ------
    RecordingError
        The driver, device, a setting, the metric or the kind of clock differs.
    """
    for what, wanted, there in _differences(swap, options, recording):
        raise RecordingError(
            f"hil.swap {swap.component}: its recording has {what} {there!r}, but the missing "
            f"device would have {wanted!r}; give a matching recording, or write driver: recorded"
        )


def _differences(
    swap: SwapSection, options: dict[str, object], recording: Recording
) -> Iterator[tuple[str, object, object]]:
    """Each property that differs, its required value, and its value in the recording."""
    if recording.driver != swap.driver:
        yield "driver", swap.driver, recording.driver
    for key in (*options, *(k for k in CHOSEN if k in recording.spec and k not in options)):
        wanted, there = options.get(key, "its default"), recording.spec.get(key, "its default")
        named = (
            key == "device" and there == "its default" and str(wanted) in recording.device.split()
        )
        if wanted != there and not named:
            yield key, wanted, there
    try:
        own = driver_class(swap.driver, swap.agent)()
    except (DriverFault, RecordingError):
        return  # known only to its agent, which does not answer
    metric = str(options.get("metric", own.metric))
    yield from (("metric", metric, s.metric) for s in recording.samples if s.metric != metric)
    if swap.agent and listed_agents()[swap.agent].lab:
        return  # lab machines are emulated anyway
    wanted_clock = CLASSES.get(own.clock, own.clock)
    for sample in recording.samples:
        clock = CLASSES.get(sample.clock, sample.clock)
        if clock != wanted_clock:
            yield "clock", wanted_clock, sample.clock
        if EMULATED in sample.flags:
            yield "device", "a real one", "an emulated one"


def require_complete_recording(swap: SwapSection, recording: Recording) -> None:
    """Raise an error for a partial recording, unless partial ones are allowed.

    Raises
    ------
    RecordingError
        The recording is partial, and ``partial`` is not set.
    """
    if recording.ended and not swap.partial:
        raise RecordingError(
            f"hil.swap {swap.component}: its recording is partial ({recording.ended}); record the "
            "rest, or set partial: true to use it as it is"
        )
