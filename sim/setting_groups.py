"""Groups of settings: a constructor argument may be a dataclass of related settings.

A file writes a group as a nested mapping. A program that treats settings one by one, such as a
fit, uses a flat mapping with dotted names instead.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from functools import cache
from typing import Any, TypeVar, get_args, get_type_hints

from .errors import ScenarioError

log = logging.getLogger(__name__)

UNTIL = "0.3"
"""The release that no longer reads old names of settings."""
T = TypeVar("T")


def group_in_annotation(annotation: Any) -> type | None:
    """Dataclass in a type annotation, alone or as a member of a union; None if there is none.

    >>> group_in_annotation(float | None) is None
    True
    """
    if isinstance(annotation, type):
        return annotation if is_dataclass(annotation) else None
    return next((g for a in get_args(annotation) if (g := group_in_annotation(a))), None)


@cache
def groups_by_argument(cls: type) -> Mapping[str, type]:
    """Dataclass of each constructor argument that is a group of settings, by argument name."""
    hints = get_type_hints(getattr(cls, "__init__"), include_extras=True)  # noqa: B009  mypy
    return {name: group for name, hint in hints.items() if (group := group_in_annotation(hint))}


def construct_with_groups(cls: type[T], settings: Mapping[str, Any]) -> T:
    """Construct a class from plain nested settings; nested mappings become their dataclasses.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Cache:
    ...     size: float
    >>> class Processor:
    ...     def __init__(self, *, cache: Cache):
    ...         self.cache = cache
    >>> construct_with_groups(Processor, {"cache": {"size": 2.0}}).cache
    Cache(size=2.0)
    """
    made: Any = cls
    groups = (
        groups_by_argument(made) if any(isinstance(v, Mapping) for v in settings.values()) else {}
    )
    return cls(**{k: _constructed(groups.get(k), v) for k, v in settings.items()})


def _constructed(group: type | None, value: Any) -> Any:
    return construct_with_groups(group, value) if group and isinstance(value, Mapping) else value


def with_current_names(cls: Any, settings: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    """Settings whose old names are replaced by those of today, each with a warning.

    Parameters
    ----------
    cls : class whose ``renamed_settings`` map old names to ``group.name``
    where : prefix of the setting's name in messages

    Raises
    ------
    ScenarioError
        A setting has both its old name and its new one.
    """
    for old, new in cls.renamed_settings.items():
        group, _, key = new.partition(".")
        members = settings.get(group, {})
        if old not in settings or not isinstance(members, Mapping):
            continue
        if key in members:
            raise ScenarioError(
                f"{where}.{old}: is the old name of {new}, which is given too; keep {new}"
            )
        log.warning("%s.%s: is now %s; rename it, release %s drops the old name",
                    where, old, new, UNTIL)  # fmt: skip
        rest = {k: v for k, v in settings.items() if k != old}
        settings = {**rest, group: {**members, key: settings[old]}}
    return settings


def merge_settings(lower: Mapping[str, Any], upper: Mapping[str, Any]) -> dict[str, Any]:
    """Merge nested settings; values of ``upper`` override those of ``lower``.

    >>> merge_settings({"a": {"x": 1, "y": 2}, "b": 3}, {"a": {"x": 4}})
    {'a': {'x': 4, 'y': 2}, 'b': 3}
    """
    both = {k for k in upper.keys() & lower.keys() if _are_mappings(lower[k], upper[k])}
    return {**lower, **upper, **{k: merge_settings(lower[k], upper[k]) for k in lower if k in both}}


def _are_mappings(a: Any, b: Any) -> bool:
    return isinstance(a, Mapping) and isinstance(b, Mapping)


def flatten_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Flatten nested settings to one mapping with dotted names.

    >>> flatten_settings({"ll": {"launch": 1e-6}, "dispatch": 0.0})
    {'ll.launch': 1e-06, 'dispatch': 0.0}
    """
    return dict(_leaves(settings, ""))


def _leaves(settings: Mapping[str, Any], above: str) -> Iterator[tuple[str, Any]]:
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value


def unflatten_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Nest flat settings with dotted names; the inverse of ``flatten_settings``.

    >>> unflatten_settings({"ll.launch": 1e-6, "dispatch": 0.0})
    {'ll': {'launch': 1e-06}, 'dispatch': 0.0}
    """
    found: dict[str, Any] = {}
    for name, value in settings.items():
        *above, last = name.split(".")
        place = found
        for key in above:
            place = place.setdefault(key, {})
        place[last] = value
    return found
