"""Clock of this machine: wall clock, or a virtual clock in an emulated machine.

An emulated machine names its clock on its kernel command line. ``icount``: one guest instruction
takes one ns. ``timetravel``: computing takes no time, and only timers advance the clock.
"""

from __future__ import annotations

from pathlib import Path

from ....sim.errors import DriverFault

ICOUNT, TIMETRAVEL, WALL = "icount", "timetravel", "wall"
KEY = "foretrace.clock="


def clock_of_this_machine(cmdline: str | None = None) -> str:
    """Name of the clock of this machine: ``wall``, ``icount`` or ``timetravel``.

    Parameters
    ----------
    cmdline : str or None
        Kernel command line; None reads ``/proc/cmdline``.

    Examples
    --------
    >>> clock_of_this_machine("quiet time-travel=inf-cpu"), clock_of_this_machine("quiet")
    ('timetravel', 'wall')
    >>> clock_of_this_machine("quiet foretrace.clock=icount")
    'icount'
    """
    words = _kernel_options(cmdline)
    if "time-travel=inf-cpu" in words:
        return TIMETRAVEL
    named = [word.removeprefix(KEY) for word in words if word.startswith(KEY)]
    return named[0] if named and named[0] in (ICOUNT, WALL) else WALL


def is_lab_machine(cmdline: str | None = None) -> bool:
    """True if this is a virtual machine of the lab.

    >>> is_lab_machine("quiet lab.run=agent"), is_lab_machine("quiet")
    (True, False)
    """
    return any(word.startswith("lab.") for word in _kernel_options(cmdline))


def _kernel_options(cmdline: str | None) -> list[str]:
    if cmdline is None:
        file = Path("/proc/cmdline")
        cmdline = file.read_text() if file.exists() else ""
    return cmdline.split()


def require_same_clock(clock: str, peer: str, peer_clock: str) -> None:
    """Raise an error if a peer's clock is of another kind than this machine's.

    Clocks of different kinds, such as ``wall`` and ``icount``, run at different speeds.

    Raises
    ------
    DriverFault
        ``unsupported``.

    Examples
    --------
    >>> require_same_clock("wall", "guest", "icount")
    Traceback (most recent call last):
    foretrace.sim.errors.DriverFault: unsupported: peer guest has clock icount, this host has ...
    """
    if clock != peer_clock:
        raise DriverFault(
            "unsupported",
            f"peer {peer} has clock {peer_clock}, this host has {clock}, and they run at different "
            "speeds; use two machines with the same clock",
        )


def refuse_under_timetravel(what: str, clock: str) -> None:
    """Refuse to time pure computing under the clock ``timetravel``, where it takes no time.

    Raises
    ------
    DriverFault
        The clock is ``timetravel``.

    Examples
    --------
    >>> refuse_under_timetravel("creating a queue pair", "timetravel")
    Traceback (most recent call last):
    foretrace.sim.errors.DriverFault: unsupported: creating a queue pair takes no time ...
    """
    if clock == TIMETRAVEL:
        raise DriverFault(
            "unsupported",
            f"{what} takes no time under the clock timetravel, which ignores CPU work; measure it "
            "under icount",
        )
