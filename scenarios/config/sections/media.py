"""``media``: the medium that shares components among concurrent ops, if not max-min."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Union

from pydantic import Field, PlainValidator

from ....sim.engine_api.medium_api import Medium
from ....sim.setting_groups import construct_with_groups
from ..choice import Choice, ChoiceKind
from ..schema import register
from ..settings import known_media

MAX_MIN = "max-min"  # the default


class MaxMinSharing:
    """Max-min fair sharing, the default of both engines."""

    def __init__(self) -> None:
        """Take no settings."""


def _choosable() -> Mapping[str, type]:
    return {MAX_MIN: MaxMinSharing, **known_media()}


MEDIUM = ChoiceKind(
    "medium", _choosable,
    unknown_name_hint="; if a plug-in defines it, list the plug-in's file under 'plugins'",
)  # fmt: skip


def make_medium(choice: Choice) -> Medium:
    """Construct a medium other than max-min; it holds no state, so several runs can share it."""
    return construct_with_groups(known_media()[choice.use], choice.settings)


def _media() -> Any:
    forms: Any = Union[(str, *map(MEDIUM.form, sorted(_choosable())))]
    reader = PlainValidator(MEDIUM.read, json_schema_input_type=forms)
    return dict[Annotated[str, Field(min_length=1)], Annotated[Choice, reader]]


register(
    "media",
    _media,
    {},
    help="Model that shares components among concurrent ops, by name or glob: the name of a "
    "medium from a plug-in. Max-min fairness by default.",
)
