"""``backends``: the backend of each component."""

from __future__ import annotations

from typing import Annotated, Any, Union

from pydantic import Field, PlainValidator, create_model

from ..binding import BACKEND, CHAIN, Binding, read_binding
from ..schema import REQUIRED, Many, Section, register
from ..settings import known_backends


def _bindings() -> Any:
    one: Any = Union[
        (str, *(BACKEND.form(name) for name in sorted(known_backends()) if name != CHAIN))
    ]
    links = (
        Many[one],
        Field(REQUIRED, description="Backends in order; the first that knows an op times it."),
    )
    told = (known_backends()[CHAIN].__doc__ or "").partition("\n")[0]
    chain = create_model(f"{CHAIN}_backend", __base__=Section, __doc__=told, use=links)
    forms: Any = one | chain | Many[one]
    reader = PlainValidator(read_binding, json_schema_input_type=forms)
    return dict[Annotated[str, Field(min_length=1)], Annotated[Binding, reader]]


register(
    "backends",
    _bindings,
    {},
    help="Backend of each component, by name or glob; an exact name wins over a glob. A list is a "
    "chain: the first backend that knows an op times it.",
)
