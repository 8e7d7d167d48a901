"""Discovery of commands as the files of a folder, so that no list must be edited."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pkgutil import iter_modules


def import_commands(package: str, first: Sequence[str], skip: str) -> tuple[str, ...]:
    """Import the modules of a package, which register commands; returns their names.

    Parameters
    ----------
    first : names in the order of ``--help``; ``folder.module`` for a group of commands
    skip : module of the package that is not a command
    """
    path = import_module(package).__path__
    found = [m.name for m in iter_modules(path) if not m.ispkg and m.name != skip]
    names = tuple(dict.fromkeys((*first, *found)))
    for name in names:
        import_module(f".{name}", package)
    return names
