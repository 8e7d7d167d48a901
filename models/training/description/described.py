"""Base class of descriptions: dataclasses that define the schema for files, editors and Python."""

from __future__ import annotations

import inspect
import re
from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict, Field, GetJsonSchemaHandler

Count = Annotated[int, Field(strict=True, ge=0)]
Size = Annotated[int, Field(strict=True, gt=0)]
Flag = Annotated[bool, Field(strict=True)]
Text = Annotated[str, Field(strict=True)]


class Described:
    """Dataclass that can be read from a file; its docstring documents the fields."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: Any, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        found = handler(schema)
        properties = handler.resolve_ref_schema(found).get("properties", {})
        for name, text in _field_texts(cls).items():
            if name in properties:
                properties[name].setdefault("description", text)
        return found


def _field_texts(cls: type) -> dict[str, str]:
    """Documentation of each field from a docstring; names on one line share their text.

    >>> class Pair:
    ...     '''Two numbers.
    ...
    ...     Parameters
    ...     ----------
    ...     left, right : numbers, of which
    ...         there are two
    ...     '''
    >>> _field_texts(Pair)["right"]
    'Numbers, of which there are two.'
    """
    section = inspect.cleandoc(cls.__doc__ or "").partition("Parameters\n----------\n")[2]
    found = {}
    for entry in re.split(r"\n(?=\S)", section.partition("\n\n")[0]):
        names, _, text = " ".join(entry.split()).partition(" : ")
        for name in names.split(", "):
            found[name] = f"{text[:1].upper()}{text[1:].rstrip('.')}."
    return found
