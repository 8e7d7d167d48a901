"""Registry of drivers: built-in ones by name, and entry points of installed packages."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points

from ..sim.errors import DriverFault
from .driver import DRIVERS, Driver

HOMES = {  # driver: the module of this folder that registers it
    "host": "drivers.memory.host",
    "collective": "drivers.network.collective",
    "cxl": "drivers.memory.cxl_memory",
    "memory": "drivers.memory.memory_load",
    "perftest": "drivers.rdma.perftest",
    "recorded": "drivers.recording_driver",
    "torch": "drivers.pytorch.torch_device",
    "switch": "drivers.network.switch",
    "tcp": "drivers.network.tcp",
    "verbs": "drivers.rdma.rdma",
}
GROUP = "foretrace.drivers"  # entry points: NAME = package.module of a file that registers NAME


def known_drivers() -> tuple[str, ...]:
    """Names of all drivers, built-in ones first.

    >>> "recorded" in known_drivers()
    True
    """
    theirs = sorted({e.name for e in entry_points(group=GROUP)} | set(DRIVERS))
    return (*HOMES, *(name for name in theirs if name not in HOMES))


def make_driver(name: str) -> Driver:
    """New instance of the driver of that name; its module is imported now.

    Raises
    ------
    DriverFault
        No driver has that name, or its file cannot be loaded.
    """
    if name not in DRIVERS:
        _import_driver(name)
    return DRIVERS[name]()


def _import_driver(name: str) -> None:
    if name in HOMES:
        import_module(f".{HOMES[name]}", __package__)
        return
    for entry in entry_points(group=GROUP, name=name):
        try:
            entry.load()
        except Exception as error:
            raise DriverFault("broken", f"driver {name}: {entry.value}: {error}") from error
    if name not in DRIVERS:
        raise DriverFault("missing", f"no driver {name!r}; there are: {', '.join(known_drivers())}")
