"""Form of ``workload.model``: what may be said of a model, for editors and ``explain``."""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from pydantic import WithJsonSchema

from ...models.training.description import ImageNetwork, Part, Recommender, Transformer

NAMES = {int: "integer", bool: "boolean", str: "string"}
PARTS = {"type": "array", "description": "Parts of the network, in order."}


def description_form(cls: type) -> dict[str, Any]:
    """JSON schema of a description: its fields, which of them must be said, and what they mean.

    Examples
    --------
    >>> form = description_form(Transformer)
    >>> form["required"]
    ['hidden', 'layers', 'heads', 'vocabulary', 'inner']
    >>> form["properties"]["norm"]
    {'enum': ['rms', 'layer'], 'default': 'layer', 'description': '``rms`` or ``layer``.'}
    """
    hints, told = get_type_hints(cls), _field_texts(cls)
    properties = {}
    for one in fields(cls):
        properties[one.name] = form = dict(_form_of(hints[one.name]))
        if isinstance(one.default, str | int):
            form["default"] = one.default
        if text := told.get(one.name):
            form["description"] = text
    required = [one.name for one in fields(cls) if one.default is MISSING]
    return {"type": "object", "properties": properties, "required": required}


def _form_of(kind: Any) -> Mapping[str, Any]:
    """JSON schema of the values of a type."""
    if isinstance(kind, types.UnionType):
        (kind,) = (k for k in get_args(kind) if k is not type(None))
    if is_dataclass(kind):
        return description_form(kind)  # type: ignore[arg-type]
    if get_origin(kind) is Literal:
        return {"enum": list(get_args(kind))}
    if get_origin(kind) is tuple:
        each = get_args(kind)[0]
        return PARTS if each is Part else {"type": "array", "items": _form_of(each)}
    return {"type": NAMES[kind]}


def _field_texts(cls: type) -> dict[str, str]:
    """What the docstring says of each field; of several of one line the line for each.

    >>> _field_texts(Transformer)["layers"]
    'Counts.'
    """
    section = inspect.cleandoc(cls.__doc__ or "").partition("Parameters\n----------\n")[2]
    entries = re.split(r"\n(?=\S)", section.partition("\n\n")[0])
    found = {}
    for entry in entries:
        names, _, text = " ".join(entry.split()).partition(" : ")
        for name in names.split(", "):
            found[name] = f"{text[:1].upper()}{text[1:].rstrip('.')}."
    return found


CONFIG = {
    "type": "object",
    "properties": {"model_type": {"type": "string", "description": "Of a Hugging Face config."}},
    "required": ["model_type"],
}
DescribedModel = Annotated[
    dict[str, Any],
    WithJsonSchema(
        {
            "anyOf": [
                *(description_form(c) for c in (Transformer, ImageNetwork, Recommender)),
                CONFIG,
            ]
        }
    ),
]
"""A model said key by key; ``read_description`` checks it."""
