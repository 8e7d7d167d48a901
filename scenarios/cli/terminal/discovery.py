"""Commands, found as the files of a folder: one is added without an edit of a list."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pkgutil import iter_modules


def import_commands(package: str, first: Sequence[str], skip: str) -> tuple[str, ...]:
    """Import the modules of a package, each of which registers a command; their names.

    Parameters
    ----------
    first : names that help shows first, in that order; ``folder.module`` of a group of commands
    skip : the module of the package that is no command of its own
    """
    path = import_module(package).__path__
    found = [m.name for m in iter_modules(path) if not m.ispkg and m.name != skip]
    names = tuple(dict.fromkeys((*first, *found)))
    for name in names:
        import_module(f".{name}", package)
    return names
