"""Constructors as schemas: names, units and defaults of settings, read from signatures."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import is_dataclass
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from pydantic import Field, create_model
from pydantic.fields import FieldInfo

from ...sim.engine_api.medium_api import MEDIA, Medium
from ...sim.facts.backend import BACKENDS, Backend
from ...sim.run.process import PROCESSES
from ...sim.run.workload import WORKLOADS, Workload
from ...sim.setting_groups import group_in_annotation
from ...sim.units import Unit
from .installed_plugins import load_installed
from .module_importers import import_own_modules
from .run_arguments import RUN_ARGUMENTS
from .schema import NAMES_FILE, REQUIRED, Section


@cache
def known_backends() -> Mapping[str, type[Backend]]:
    """All registered backends by name; imports the modules that register them.

    >>> "roofline" in known_backends()
    True
    """
    import_own_modules("backends")
    load_installed("foretrace.backends")
    return BACKENDS


def known_processes() -> Mapping[str, type]:
    """All registered processes by name.

    >>> "degrade" in known_processes()
    True
    """
    known_backends()
    return PROCESSES


def known_media() -> Mapping[str, type[Medium]]:
    """All registered media by name; max-min sharing is not one of them."""
    known_backends()
    return MEDIA


@cache
def known_workloads() -> Mapping[str, type[Workload]]:
    """All registered workloads by name; imports the modules that register them.

    >>> sorted(known_workloads())[:2]
    ['trace', 'training']
    """
    import_own_modules("workloads")
    load_installed("foretrace.workloads")
    return WORKLOADS


def workload_file_settings() -> tuple[str, ...]:
    """Names of workload settings that name files.

    >>> workload_file_settings()[:2]
    ('trace', 'starts')
    """
    known: Iterable[type] = known_workloads().values()
    return tuple(dict.fromkeys(name for cls in known for name in _file_settings(cls)))


@cache
def _file_settings(cls: type) -> list[str]:
    hints = get_type_hints(getattr(cls, "__init__"), include_extras=True)  # noqa: B009  mypy
    return [name for name, hint in hints.items() if hint is Path or _is_marked_file(hint)]


def _is_marked_file(hint: Any) -> bool:
    """True if an annotation, or one of its alternatives, is marked as a file name."""
    return NAMES_FILE in getattr(hint, "__metadata__", ()) or any(
        map(_is_marked_file, get_args(hint))
    )


@cache
def backend_settings_model(name: str, *, optional: bool = False) -> type[Section]:
    """Pydantic model of a backend's constructor arguments.

    Parameters
    ----------
    name : str
        Name of the backend.
    optional : bool
        True if every setting may be absent; defaults are then left out.

    Examples
    --------
    >>> backend_settings_model("link").allowed()
    ('bandwidth', 'latency', 'efficiency', 'overhead')
    """
    return constructor_model(known_backends()[name], optional=optional)


def constructor_model(cls: type, *, optional: bool = False) -> type[Section]:
    """Pydantic model of a constructor's arguments; its docstring gives the help texts.

    Parameters
    ----------
    cls : class whose constructor has keyword arguments only
    optional : True if every setting may be absent; defaults are then left out

    Raises
    ------
    TypeError
        An argument has no annotation.
    """
    if (cls, optional) not in _models:
        _models[cls, optional] = _constructor_model(cls, optional)
    return _models[cls, optional]


_models: dict[tuple[type, bool], type[Section]] = {}  # cache: building a model takes 10 ms


class SettingsGroup(Section):
    """Group of settings in a file, which becomes a dataclass that a constructor takes."""


def plain_settings(model: Section, *, only_given: bool = False) -> dict[str, Any]:
    """Settings of a pydantic model as a dictionary; groups become nested dictionaries.

    Parameters
    ----------
    only_given : True to leave out settings that are None
    """
    read = {k: _plain_group(v, only_given) for k, v in model}
    return {k: v for k, v in read.items() if v is not None} if only_given else read


def _plain_group(value: Any, only_given: bool) -> Any:
    return (
        plain_settings(value, only_given=only_given) if isinstance(value, SettingsGroup) else value
    )


def group_model(field: FieldInfo) -> type[SettingsGroup] | None:
    """Pydantic model of a field that is a group of settings; None for any other field."""
    every = (field.annotation, *get_args(field.annotation))
    return next((a for a in every if isinstance(a, type) and issubclass(a, SettingsGroup)), None)


def setting_field(model: type[Section], name: str) -> FieldInfo | None:
    """Field of a dotted setting name; None if it is unknown or a group."""
    head, _, rest = name.partition(".")
    field = model.model_fields.get(head)
    group = group_model(field) if field is not None else None
    if group is None:
        return None if rest else field
    return setting_field(group, rest)


def setting_names(model: type[Section]) -> Iterator[str]:
    """Dotted names of all settings of a pydantic model.

    >>> list(setting_names(backend_settings_model("switch")))[:2]
    ['bandwidth', 'latency']
    """
    for name, field in model.model_fields.items():
        group = group_model(field)
        yield from [name] if group is None else (f"{name}.{s}" for s in setting_names(group))


def missing_keys(model: type[Section], settings: Mapping[str, Any]) -> Iterator[str]:
    """Dotted names of required settings that are absent, including those in given groups.

    >>> list(missing_keys(backend_settings_model("link"), {"latency": 0.0}))
    ['bandwidth']
    """
    for name, field in model.model_fields.items():
        if name not in settings:
            yield from [name] * field.is_required()
        elif (group := group_model(field)) and isinstance(settings[name], Mapping):
            yield from (f"{name}.{below}" for below in missing_keys(group, settings[name]))


def _constructor_model(cls: type, optional: bool) -> type[Section]:
    hints = get_type_hints(getattr(cls, "__init__"), include_extras=True)  # noqa: B009  mypy
    told = parameter_help_texts(cls)
    fields: dict[str, Any] = {}
    for key, parameter in inspect.signature(cls).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if key not in hints:
            raise TypeError(
                f"'{key}' of {cls.__name__}() has no annotation, so its unit is unknown; write "
                f"it like '{key}: ByteRate', with a type of foretrace.sim.units or a plain type"
            )
        if hints[key] in RUN_ARGUMENTS or _takes_backends(hints[key]):
            continue  # supplied by the run, not by a file
        fields[key] = _field(hints[key], parameter.default, told.get(key), optional)
    base = SettingsGroup if is_dataclass(cls) else Section
    return create_model(cls.__name__, __base__=base, __doc__=inspect.getdoc(cls), **fields)


def _field(hint: Any, default: Any, help_text: str | None, optional: bool) -> tuple[Any, Any]:
    """Annotation and pydantic field of a constructor argument; a group gets its own model."""
    group = group_in_annotation(hint)
    model: Any = constructor_model(group, optional=optional) if group else None
    annotation = _readable_annotation(hint) if model is None else model
    if optional:
        return annotation | None, Field(None, description=help_text)
    if default is inspect.Parameter.empty:
        return annotation, Field(REQUIRED, description=help_text)
    if model is not None and default is not None:
        return model, Field(
            default_factory=partial(_as_group, model, default), description=help_text
        )
    return annotation | None if group else annotation, Field(default, description=help_text)


def _as_group(model: type[SettingsGroup], instance: Any) -> SettingsGroup:
    """Convert a dataclass instance to its settings model, with no setting marked as given."""
    values = {k: getattr(instance, k) for k in model.model_fields}
    groups = {k: g for k, f in model.model_fields.items() if (g := group_model(f))}
    inner = {k: _as_group(g, values[k]) for k, g in groups.items() if values[k] is not None}
    return model.model_construct(set(), **values | inner)


def _takes_backends(hint: Any) -> bool:
    """True if an argument is a backend or a sequence of backends."""
    return hint is Backend or Backend in get_args(hint)


def _readable_annotation(annotation: Any) -> Any:
    """Annotation in a form that a file can give: lists for sequences, text for paths."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if annotation is Path:
        return Annotated[Path, Field(strict=False)]
    if origin and getattr(origin, "__name__", "") == "Sequence":
        many: Any = tuple.__class_getitem__((inner[0], ...))
        return Annotated[many, Field(strict=False)]
    if origin in (tuple, list):
        return Annotated[annotation, Field(strict=False)]
    if type(None) in inner:
        rest = [_readable_annotation(a) for a in inner if a is not type(None)]
        return Union[*rest, None]
    return annotation


def annotated_unit(annotation: Any) -> Unit | None:
    """Unit in an annotation; None if it has none.

    >>> from foretrace.sim.units import Seconds
    >>> annotated_unit(Seconds | None).text
    's'
    """
    if isinstance(annotation, Unit):
        return annotation
    return next((u for a in get_args(annotation) if (u := annotated_unit(a))), None)


def default_as_written(field: FieldInfo, value: Any) -> str | int | float | None:
    """Default value in the form of a file; None if a file cannot express it."""
    if not isinstance(value, str | int | float) or value == "":
        return None
    units = (*field.metadata, annotated_unit(field.annotation))
    unit = next((u for u in units if isinstance(u, Unit)), None)
    return f"{value!r} {unit.text}" if unit and unit.text else value


def parameter_help_texts(cls: type) -> dict[str, str]:
    """Help text of each constructor parameter, from the docstrings of a class and its bases.

    >>> list(parameter_help_texts(known_backends()["link"]))[:2]
    ['bandwidth', 'latency']
    """
    found: dict[str, str] = {}
    for one in reversed(cls.__mro__):
        found |= _parameter_texts(inspect.cleandoc(one.__doc__ or ""))
    return found


def _parameter_texts(doc: str) -> dict[str, str]:
    section = re.search(r"^Parameters\n-+\n(.*?)(?=^\S[^\n]*\n-{3,}$|\Z)", doc, re.M | re.S)
    found: dict[str, str] = {}
    names: list[str] = []
    for line in section[1].splitlines() if section else []:
        if line and not line.startswith(" "):
            names = [n.strip() for n in line.partition(" : ")[0].split(",")]
        for name in names if line.startswith(" ") else ():
            found[name] = f"{found.get(name, '')} {line.strip()}".strip()
    return found
