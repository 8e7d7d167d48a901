"""``backends``: who answers for which components."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, PlainValidator

from ..binding import Binding, read_binding
from ..schema import Section, register


class AnyBinding(Section):
    """A backend and its settings."""

    use: str
    """A name of `foretrace explain backends`."""


Bindings = dict[
    Annotated[str, Field(min_length=1)],
    Annotated[Binding, PlainValidator(read_binding, json_schema_input_type=dict[str, Any])],
]

register(
    "backends",
    Bindings,
    {},
    help="Who answers for which components, by name or glob; an exact name wins over a glob.",
)
