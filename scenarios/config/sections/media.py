"""``media``: who shares what is in flight on which components, where it is not max-min."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Union

from pydantic import Field, PlainValidator, ValidationInfo, create_model

from ....sim.medium_api import Medium
from ..problems import did_you_mean_text
from ..schema import REQUIRED, Section, register, validation_error
from ..settings import constructor_model, known_media

MAX_MIN = "max-min"  # what shares where nothing is said


@dataclass(frozen=True)
class MediumChoice:
    """A medium by name, with its settings in SI.

    Parameters
    ----------
    use : name of the medium; ``max-min``, which is none that is plugged in
    settings : keyword arguments of its constructor
    """

    use: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain data as a scenario writes it."""
        return {"use": self.use, **self.settings}

    def make(self) -> Medium:
        """The medium itself; it holds no state of a run."""
        return known_media()[self.use](**self.settings)


def _read_medium(data: Any, info: ValidationInfo) -> MediumChoice:
    """From what a file says: ``{use: NAME, …}``, or only the name."""
    if isinstance(data, str):
        data = {"use": data}
    if not isinstance(data, dict):
        raise validation_error("mapping", "a medium is written like {use: NAME, …}", value=data)
    name, known = data.get("use"), known_media()
    if name is None:
        raise validation_error("missing-key", "'use' is missing; it names the medium", value=data)
    if name == MAX_MIN and len(data) == 1:
        return MediumChoice(MAX_MIN)
    if not isinstance(name, str) or name not in known:
        raise validation_error("unknown-medium", _unknown_medium_message(str(name)), "use", name)
    model = constructor_model(known[name])
    if info.context is not None:
        info.context[id(data)] = ("use", *model.allowed())
    return MediumChoice(name, dict(model.model_validate({k: v for k, v in data.items()
                                                         if k != "use"})))  # fmt: skip


def _unknown_medium_message(name: str) -> str:
    hint = did_you_mean_text(name, sorted((MAX_MIN, *known_media())))
    return f"no medium named '{name}'{hint}; name the file of a plug-in that has it under 'plugins'"


def _medium_form(name: str) -> type[Section]:
    """A medium and its settings, as a file writes them."""
    model = constructor_model(known_media()[name])
    own: dict[str, Any] = {"use": (Literal[name], Field(REQUIRED, description="This medium."))}
    rest: dict[str, Any] = {k: (f.annotation, f) for k, f in model.model_fields.items()}
    told = (model.__doc__ or "").partition("\n")[0]
    return create_model(f"{name}_medium", __base__=Section, __doc__=told, **own, **rest)


def _media() -> Any:
    forms: Any = Union[(str, *(_medium_form(name) for name in sorted(known_media())))]
    reader = PlainValidator(_read_medium, json_schema_input_type=forms)
    return dict[Annotated[str, Field(min_length=1)], Annotated[MediumChoice, reader]]


register(
    "media",
    _media,
    {},
    help="How what is in flight shares components, by name or glob: the name of a medium that a "
    "plug-in brings.  Max-min where nothing is said.",
)
