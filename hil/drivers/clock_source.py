"""Clock of this machine; an emulated machine names it on its kernel command line.

``icount``: a nanosecond is a guest instruction.  ``timetravel``: the processor costs nothing, and
only timers let time pass.  Anywhere else the clock is the wall's.
"""

from __future__ import annotations

from pathlib import Path

from ...sim.errors import DriverFault

ICOUNT, TIMETRAVEL, WALL = "icount", "timetravel", "wall"
KEY = "foretrace.clock="


def here(cmdline: str | None = None) -> str:
    """Name of the clock of this machine: ``wall``, ``icount`` or ``timetravel``.

    Parameters
    ----------
    cmdline : str or None
        Kernel command line; None reads ``/proc/cmdline``.

    Examples
    --------
    >>> here("quiet time-travel=inf-cpu"), here("quiet foretrace.clock=icount"), here("quiet")
    ('timetravel', 'icount', 'wall')
    """
    words = _kernel_options(cmdline)
    if "time-travel=inf-cpu" in words:
        return TIMETRAVEL
    named = [word.removeprefix(KEY) for word in words if word.startswith(KEY)]
    return named[0] if named and named[0] in (ICOUNT, WALL) else WALL


def emulated(cmdline: str | None = None) -> bool:
    """Whether this is a machine of the lab.

    >>> emulated("quiet lab.run=agent"), emulated("quiet")
    (True, False)
    """
    return any(word.startswith("lab.") for word in _kernel_options(cmdline))


def _kernel_options(cmdline: str | None) -> list[str]:
    if cmdline is None:
        file = Path("/proc/cmdline")
        cmdline = file.read_text() if file.exists() else ""
    return cmdline.split()


def needs_time(what: str, clock: str) -> None:
    """Refuse to time pure computing under ``timetravel``, where it takes no time.

    Raises
    ------
    DriverFault
        The clock is ``timetravel``.

    Examples
    --------
    >>> needs_time("creating a queue pair", "timetravel")
    Traceback (most recent call last):
    foretrace.sim.errors.DriverFault: unsupported: creating a queue pair takes no time ...
    """
    if clock == TIMETRAVEL:
        raise DriverFault(
            "unsupported",
            f"{what} takes no time where the processor costs nothing; measure it under icount",
        )
