"""Registry of drivers: built-in ones by name, and entry points of installed packages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from importlib.resources import files
from importlib.resources.abc import Traversable

from ..sim.errors import DriverFault
from .driver import DRIVERS, Driver

GROUP = "foretrace.drivers"  # entry points: NAME = package.module of a file that registers NAME


_REGISTERS = re.compile(r'^@driver\("([a-z-]+)"\)', re.MULTILINE)


@cache
def driver_modules() -> dict[str, str]:
    """Module of each built-in driver, by driver name.

    Found by searching the source text for ``@driver``. Nothing is imported, because a driver's
    libraries may be missing here.

    >>> driver_modules()["recorded"]
    'drivers.recording_driver'
    """
    found = {
        name: module
        for module, text in _texts(files(__package__) / "drivers", "drivers")
        for name in _REGISTERS.findall(text)
    }
    return dict(sorted(found.items()))


def _texts(folder: Traversable, package: str) -> Iterator[tuple[str, str]]:
    """Yield the name and source text of each module in a folder and its subfolders.

    The folder may be inside a zip archive.
    """
    for entry in folder.iterdir():
        stem = entry.name.removesuffix(".py")
        if entry.is_dir():
            yield from _texts(entry, f"{package}.{stem}")
        elif stem != entry.name:
            yield f"{package}.{stem}", entry.read_text(encoding="utf-8")


def known_drivers() -> tuple[str, ...]:
    """Names of all drivers, built-in ones first.

    >>> "recorded" in known_drivers()
    True
    """
    theirs = sorted({e.name for e in entry_points(group=GROUP)} | set(DRIVERS))
    return (*driver_modules(), *(name for name in theirs if name not in driver_modules()))


def make_driver(name: str) -> Driver:
    """Create an instance of a driver by name; imports the driver's module.

    Raises
    ------
    DriverFault
        No driver has that name, or its file cannot be loaded.
    """
    if name not in DRIVERS:
        _import_driver(name)
    return DRIVERS[name]()


def _import_driver(name: str) -> None:
    if name in driver_modules():
        import_module(f".{driver_modules()[name]}", __package__)
        return
    for entry in entry_points(group=GROUP, name=name):
        try:
            entry.load()
        except Exception as error:
            raise DriverFault("broken", f"driver {name}: {entry.value}: {error}") from error
    if name not in DRIVERS:
        raise DriverFault("missing", f"no driver {name!r}; there are: {', '.join(known_drivers())}")
