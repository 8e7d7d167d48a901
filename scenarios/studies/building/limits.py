"""Limits of a run: wall time by a timer, and memory by an estimate before anything is built."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ....sim.errors import ScenarioError, SimulationError
from ....sim.record.aggregates import BYTES_PER_OP_RUN
from ....sim.units import Bytes, Seconds

HEADROOM = 0.9  # of the free memory that a run may plan with
# By benchmarks/network/spmd_network.py: 1,024 ranks of 17,000 jittered ops that share
# rates, 0.23 GiB.
BYTES_PER_TEMPLATE_OP = 15.0
BYTES_PER_PROCESS = 245e6  # with nothing in it


class TimeLimitExceeded(SimulationError):  # noqa: N818  it is no fault
    """Error that the wall time limit of a run was reached."""

    def __init__(self, limit: Seconds, why: str = ""):
        super().__init__(
            "time limit",
            f"the time limit of {limit:g} s was reached{why}; finished parts are kept, raise "
            "run.time_limit or shorten the run",
        )
        self.limit = limit
        self.args = (limit, why)  # SimPy copies an error from its args when it ends a process


@contextmanager
def time_limit(seconds: Seconds | None) -> Iterator[None]:
    """Context manager that raises TimeLimitExceeded after a wall time.

    Parameters
    ----------
    seconds : wall time in s; None for no limit

    Raises
    ------
    TimeLimitExceeded
        The block took longer.
    """
    if seconds is None or threading.current_thread() is not threading.main_thread():
        yield
        return

    def over(*_: object) -> None:
        raise TimeLimitExceeded(seconds)

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def estimated_memory(ops: int, template_ops: int = 0) -> Bytes:
    """Estimated memory in B that one process needs to simulate a number of ops.

    Parameters
    ----------
    ops : number of ops stored individually
    template_ops : number of ops of templates that are not expanded
    """
    return BYTES_PER_PROCESS + BYTES_PER_OP_RUN * ops + BYTES_PER_TEMPLATE_OP * template_ops


def require_memory(
    needed: Bytes,
    processes: int,
    allowed: Bytes | None,
    activity: str,
    setting: str = "memory",
    reducible: str = "ranks or iterations",
) -> None:
    """Raise an error if processes need more memory than is available.

    Parameters
    ----------
    needed : memory per process, in B
    processes : number of concurrent processes
    allowed : limit from the scenario; None for the free memory
    activity : name of the activity that needs the memory, for the message
    setting : responsible setting, for the message
    reducible : quantity that the user can reduce, for the message

    Raises
    ------
    ScenarioError
        It does not fit.

    Examples
    --------
    >>> require_memory(2e9, 4, 10e9, "4 points at once")
    >>> require_memory(2e9, 4, 6e9, "4 points at once")
    Traceback (most recent call last):
    foretrace.sim.errors.ScenarioError: memory: 4 points at once need about 8 GB, and 6 GB ...
    """
    from ....reports.numbers import format_quantity

    there, most = allowed if allowed is not None else free_memory(), usable_memory(allowed)
    if there is None or most is None or needed * processes <= most:
        return
    cure = "use fewer workers, " if processes > 1 else ""
    whose = "are allowed (run.memory)" if allowed is not None else "are free"
    raise ScenarioError(
        f"{setting}: {activity} need about {format_quantity(needed * processes, 'B')}, "
        f"and {format_quantity(there, 'B')} {whose}; {cure}use fewer {reducible}, or raise "
        "run.memory"
    )


def usable_memory(allowed: Bytes | None) -> Bytes | None:
    """Memory in B that a run may plan with: the allowed amount, else 90 % of the free memory."""
    if allowed is not None:
        return allowed
    free = free_memory()
    return None if free is None else HEADROOM * free


def free_memory() -> Bytes | None:
    """Memory in B that is free without swapping and within a container's limit; None if unknown."""
    found = [f for f in (_available_memory(), _container_memory()) if f is not None]
    return min(found, default=None)


def _available_memory() -> float | None:
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            told = dict(line.split(":", 1) for line in lines)
        return float(told["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        names: Any = os.sysconf_names
        if "SC_PHYS_PAGES" not in names:
            return None
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))


def _container_memory() -> float | None:
    """Memory in B that the control group (version 2) leaves free; None if unknown."""
    try:
        with open("/sys/fs/cgroup/memory.max", encoding="ascii") as file:
            most = file.read().strip()
        with open("/sys/fs/cgroup/memory.current", encoding="ascii") as file:
            used = float(file.read())
        return None if most == "max" else float(most) - used
    except (OSError, ValueError):
        return None
