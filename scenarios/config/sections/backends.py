"""``backends``: who answers for which components."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Union

from pydantic import Field, PlainValidator, create_model

from ..binding import Binding, read_binding
from ..schema import REQUIRED, Section, register
from ..settings import known_backends, settings_of


def _backend_form(name: str) -> type[Section]:
    """A backend and its settings, as a file writes them."""
    model = settings_of(name, optional=True)
    own: dict[str, Any] = {"use": (Literal[name], Field(REQUIRED, description="This backend."))}
    rest: dict[str, Any] = {k: (f.annotation, f) for k, f in model.model_fields.items()}
    told = (model.__doc__ or "").partition("\n")[0]
    return create_model(f"{name}_backend", __base__=Section, __doc__=told, **own, **rest)


def _bindings() -> Any:
    forms: Any = Union[(str, *(_backend_form(name) for name in sorted(known_backends())))]
    reader = PlainValidator(read_binding, json_schema_input_type=forms)
    return dict[Annotated[str, Field(min_length=1)], Annotated[Binding, reader]]


register(
    "backends",
    _bindings,
    {},
    help="The backend that times the ops of each component, by name or glob; an exact name wins "
    "over a glob.",
)
