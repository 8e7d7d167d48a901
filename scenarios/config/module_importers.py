"""Functions that import the modules which register backends and workloads.

This folder uses registered names only and does not know the modules.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pkgutil import walk_packages
from types import ModuleType

Importer = Callable[[], None]
_importers: dict[str, Importer] = {}


def set_module_importers(**importers: Importer) -> None:
    """Set the import functions by what their modules register: ``backends`` or ``workloads``."""
    _importers.update(importers)


def import_own_modules(registered: str) -> None:
    """Import the built-in modules that register ``backends`` (with media …) or ``workloads``."""
    _importers[registered]()


def import_modules(package: ModuleType) -> None:
    """Import every module of a package, recursively."""
    for module in walk_packages(package.__path__, f"{package.__name__}."):
        import_module(module.name)
