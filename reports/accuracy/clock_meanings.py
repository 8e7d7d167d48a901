"""What the seconds of each clock mean; an emulator's clock is not a device's clock."""

from __future__ import annotations

from collections.abc import Iterable

SECONDS = {
    "wall": ("wall-clock seconds of this machine, including any other work that it did", ""),
    "cpu": ("seconds that a processor spent on the op", "how long it waited"),
    "device": ("seconds by the device's own timer", ""),
    "icount": (
        "instructions of an emulated processor, a nanosecond each: how long the way through driver "
        "and kernel is, the same again on any host",
        "how long a NIC, a link, a memory or a real processor takes",
    ),
    "timetravel": (
        "virtual time, in which computing is free and only timers pass: wire, queues and protocol "
        "of the real kernel, at the rates that were set",
        "what a processor, a PCIe bus or a real NIC adds",
    ),
}
UNKNOWN = ("seconds of a clock that this version does not know", "")


def clock_meanings(clocks: Iterable[str]) -> list[tuple[str, str]]:
    """Each clock with a text on what its times include and what they do not show.

    >>> for clock, text in clock_meanings(["cpu"]):
    ...     print(clock, text)
    cpu Its times are seconds that a processor spent on the op. They do not tell how long it waited.
    """
    return [(clock, _format_meaning(*SECONDS.get(clock, UNKNOWN))) for clock in sorted(set(clocks))]


def _format_meaning(means: str, lacks: str) -> str:
    return f"Its times are {means}." + (f" They do not tell {lacks}." if lacks else "")
