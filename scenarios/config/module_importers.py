"""Who imports the modules that register what scenarios name: told by the package above.

This folder reads names of backends and workloads, and knows none of the modules that have them.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pkgutil import walk_packages
from types import ModuleType

Importer = Callable[[], None]
_importers: dict[str, Importer] = {}


def set_module_importers(**importers: Importer) -> None:
    """Set the functions that import all modules of ours which register, by what they register."""
    _importers.update(importers)


def import_own_modules(registered: str) -> None:
    """Import our modules that register ``backends`` (with processes and media) or ``workloads``."""
    _importers[registered]()


def import_modules(package: ModuleType) -> None:
    """Import every module in a package, and in those below it."""
    for module in walk_packages(package.__path__, f"{package.__name__}."):
        import_module(module.name)
