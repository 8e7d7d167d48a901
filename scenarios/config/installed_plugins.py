"""Plug-ins of installed packages, found by their entry points."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

from .problems import FilePosition, InvalidScenarioError, Problem

GROUPS = tuple(
    f"foretrace.{kind}" for kind in ("backends", "sections", "workloads", "catalogs", "commands")
)
"""Groups of entry points: one of ``foretrace.backends`` registers backends, and so on."""


def load_installed(group: str) -> list[object]:
    """Load the objects that installed packages declare as entry points of a group.

    Raises
    ------
    InvalidScenarioError
        One of them fails to load; the message names its package.
    """
    return [_load_entry_point(point) for point in entry_points(group=group)]


def _load_entry_point(point: EntryPoint) -> object:
    try:
        return point.load()
    except Exception as error:
        package = point.dist.name if point.dist else "an installed package"
        message = (
            f"plug-in '{point.name}' of {package} fails: {type(error).__name__}: {error}; fix it, "
            f"or run: pip uninstall {package}"
        )
        raise InvalidScenarioError(
            [Problem("plug-in", message, FilePosition(point.value))]
        ) from error


def installed_plugin_problems(group: str) -> dict[str, str]:
    """Problem of each plug-in of a group, by plug-in name; "" if it loads."""
    found = {}
    for point in entry_points(group=group):
        try:
            _load_entry_point(point)
        except InvalidScenarioError as error:
            found[point.name] = error.problems[0].message
        else:
            found[point.name] = ""
    return found
