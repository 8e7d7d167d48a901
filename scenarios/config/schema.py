"""Sections of a scenario: each is a model registered under its key.

A key without a registered section is an unknown key. New sections need no change of the loader:
a module in ``sections/``, or an entry point ``foretrace.sections`` of an installed package.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import textwrap
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    create_model,
    model_validator,
)
from pydantic_core import PydanticCustomError

from .installed_plugins import load_installed

if TYPE_CHECKING:
    from .problems import Problem
    from .reading.tree import TreeNode

T = TypeVar("T")
REQUIRED: Any = ...
ORDER = (  # of a file, of lists in messages; other keys follow
    *("foretrace", "name", "question", "extends", "plugins", "workload", "jobs", "answer"),
    *("cluster", "backends", "media", "processes", "ops"),
    *(
        "placement",
        "cost",
        "what_if",
        "ablations",
        "control",
        "sweep",
        "expect",
        "run",
        "report",
        "catalog",
    ),
)
Many = Annotated[tuple[T, ...], Field(strict=False)]
"""A list in the file, a tuple in Python."""
NAMES_FILE = "names a file"
FileName = Annotated[str, NAMES_FILE]
"""A file or a glob, relative to the folder of the scenario file that names it."""


def _describe_properties(schema: dict[str, Any], model: type[BaseModel]) -> None:
    """Add the docstrings below a model's fields to its JSON schema.

    This is done only when a schema is requested, since reading the sources is slow.
    """
    told = _field_texts(model)
    for name, field in model.model_fields.items():
        below = schema.get("properties", {}).get(field.alias or name)
        if below is not None and name in told:
            below.setdefault("description", told[name])


def _field_texts(model: type[BaseModel]) -> dict[str, str]:
    """Docstring below each field of a class and of its base classes, by field name."""
    found: dict[str, str] = {}
    for cls in reversed(model.__mro__):
        if not issubclass(cls, Section) or cls.__module__ == __name__:
            continue
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
        except OSError:  # made from a signature: each field has its own description
            continue
        for a, b in pairwise(tree.body[0].body):  # type: ignore[attr-defined]
            if isinstance(a, ast.AnnAssign) and isinstance(b, ast.Expr):
                found[ast.unparse(a.target)] = inspect.cleandoc(ast.literal_eval(b.value))
    return found


class Section(BaseModel):
    """A mapping in a scenario: unknown keys are errors, and no type is converted silently.

    The docstring below each field is shown by ``explain`` and by editors.
    """

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, json_schema_extra=_describe_properties
    )

    @model_validator(mode="before")
    @classmethod
    def _note_keys(cls, data: Any, info: ValidationInfo) -> Any:
        """Record the known keys of this mapping for error messages."""
        if info.context is not None and isinstance(data, dict):
            info.context[id(data)] = cls.allowed()
        return data

    @classmethod
    def allowed(cls) -> tuple[str, ...]:
        """Names of the keys of the section."""
        return tuple(f.alias or name for name, f in cls.model_fields.items())

    @classmethod
    def field_definitions(cls) -> dict[str, Any]:
        """Fields of the section by name, in the form that pydantic's ``create_model`` takes."""
        return {name: (f.annotation, f) for name, f in cls.model_fields.items()}


def validation_error(kind: str, message: str, key: str = "", value: Any = None) -> ValidationError:
    """Validation error about one key of the value being validated.

    Parameters
    ----------
    kind : kind of problem
    message : complete message
    key : key below the value; "" for the value itself
    value : the wrong value
    """
    error = PydanticCustomError(kind, "{message}", {"message": message})
    details: Any = {"type": error, "loc": (key,) if key else (), "input": value}
    return ValidationError.from_exception_data("scenario", [details])


Attempt = Callable[["TreeNode"], list["Problem"]]
Broken = Callable[["TreeNode", Attempt], Iterable["Problem"]]
Files = Callable[[], tuple[str, ...]]


def _no_problems(tree: TreeNode, check_tree: Attempt) -> Iterable[Problem]:
    return ()


@dataclass(frozen=True)
class RegisteredSection:
    """A registered top-level key of a scenario.

    Parameters
    ----------
    annotation : type of the section's value, or a function that builds the type once all sections
        are known
    default : value if the key is absent; ``REQUIRED`` for none
    help : one-sentence description, shown by ``explain``
    inherited : True if ``extends`` inherits it
    files : function that returns which keys below it name files
    broken : function that checks references: takes the complete tree and a function that checks a
        changed tree, and yields problems
    """

    annotation: Any
    default: Any
    help: str
    inherited: bool
    files: Files
    broken: Broken


SECTIONS: dict[str, RegisteredSection] = {}


def register(
    key: str,
    annotation: Any,
    default: Any = None,
    *,
    help: str = "",
    inherited: bool = True,
    files: Files | tuple[str, ...] = (),
    broken: Broken = _no_problems,
) -> None:
    """Register a top-level key of scenarios.

    Parameters
    ----------
    key : key in the file
    annotation : a Section, a type that pydantic checks, or a function that builds the type once all
        sections are known
    default : value if the key is absent; ``REQUIRED`` for none
    help : one sentence; by default the first line of the section's docstring
    inherited : True if ``extends`` inherits it
    files : keys below it that name files, relative to the scenario file, or a function for them
    broken : function that checks references: takes the complete tree and a function that checks a
        changed tree, and yields problems

    Raises
    ------
    ValueError
        The key is registered already.
    """
    if key in SECTIONS:
        raise ValueError(f"a section named {key!r} is registered already; choose another key")
    told = help or (annotation.__doc__ or "").strip().split("\n")[0]
    named = files if callable(files) else lambda: files
    SECTIONS[key] = RegisteredSection(annotation, default, told, inherited, named, broken)
    scenario_model.cache_clear()


@cache
def scenario_model() -> type[Section]:
    """Pydantic model of a complete scenario, with all sections that are registered now."""
    _import_sections()
    fields: dict[str, Any] = {}
    for key in (*(k for k in ORDER if k in SECTIONS), *(k for k in SECTIONS if k not in ORDER)):
        entry = SECTIONS[key]
        made = entry.annotation() if inspect.isfunction(entry.annotation) else entry.annotation
        annotation = made | None if entry.default is None else made
        fields[key] = (annotation, Field(entry.default, description=entry.help or None))
    return create_model("Scenario", __base__=Section, **fields)


def section_at(path: Iterable[str | int]) -> type[Section] | None:
    """Section model of the mapping at a path of a scenario; None if the path has none.

    >>> section_at(("hil", "swap", 0, "ops")).allowed()[:2]
    ('context', 'preceding')
    """
    model: type[Section] | None = scenario_model()
    for part in path:
        if isinstance(part, str):  # a number is of a list
            field = model.model_fields.get(part) if model else None
            model = _section_in(field.annotation) if field else None
    return model


def _section_in(annotation: Any) -> type[Section] | None:
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation
    return next((s for a in get_args(annotation) if (s := _section_in(a))), None)


@cache
def _import_sections() -> None:
    """Import all sections, built-in and of installed packages."""
    sections = importlib.import_module(".sections", __package__)  # which import this file
    for module in pkgutil.iter_modules(sections.__path__):
        importlib.import_module(f"{sections.__name__}.{module.name}")
    load_installed("foretrace.sections")


def json_schema() -> dict[str, Any]:
    """JSON schema of scenarios for editors, with the sections and backends that are installed.

    Examples
    --------
    >>> sorted(json_schema()["required"])
    ['cluster', 'foretrace', 'name']
    """
    return _json_schema(scenario_model())


@lru_cache(maxsize=1)
def _json_schema(model: type[Section]) -> dict[str, Any]:
    """JSON schema of a pydantic model; cached, since it is slow to build."""
    schema = model.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "foretrace scenario"
    return schema
