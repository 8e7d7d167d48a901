"""A registered class chosen by name in a file: ``NAME``, or ``{use: NAME, …}`` with settings."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import Field, ValidationInfo, create_model

from .problems import did_you_mean_text
from .schema import REQUIRED, Section, validation_error
from .settings import constructor_model, plain_settings

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Choice:
    """A registered class chosen by name, with its settings in SI units.

    Parameters
    ----------
    use : registered name of the class, such as ``roofline``
    settings : keyword arguments of the constructor
    """

    use: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain dictionary in the form of a scenario file: ``use`` and the settings."""
        return {"use": self.use, **self.settings}


@dataclass(frozen=True)
class ChoiceKind:
    """A kind of registered class that a scenario chooses by name, such as a backend or a process.

    Parameters
    ----------
    noun : name of the kind in messages
    known : function that returns the registered classes by name
    partial : True if missing settings may come from elsewhere; defaults are then left out
    unknown_name_hint : text that ends the error message about an unknown name
    renamed : current name by old name; old names still work, with a warning
    """

    noun: str
    known: Callable[[], Mapping[str, type]]
    partial: bool = False
    unknown_name_hint: str = ""
    renamed: Mapping[str, str] = field(default_factory=dict)

    def read(self, data: Any, info: ValidationInfo) -> Choice:
        """Read a choice from the value in a file.

        Raises
        ------
        ValidationError
            The value has no name, the name is unknown, or a setting is not a constructor argument.
        """
        if not isinstance(data, dict):
            name = self._known_name(data, "")
            return Choice(name, self._settings({}, name, info))
        if data.get("use") is None:
            message = f"'use' is missing; write use: NAME, the name of the {self.noun}"
            raise validation_error("missing-key", message, value=data)
        name = self._known_name(data["use"], "use")
        if info.context is not None:
            info.context[id(data)] = ("use", *self._model(name).allowed())
        given = {k: v for k, v in data.items() if k != "use"}
        return Choice(name, self._settings(given, name, info))

    def form(self, name: str) -> type[Section]:
        """Pydantic model of one registered class with its settings, for the JSON schema."""
        model, says = self._model(name), f"This {self.noun}."
        own: dict[str, Any] = {"use": (Literal[name], Field(REQUIRED, description=says))}
        told = (model.__doc__ or "").partition("\n")[0]
        rest = model.field_definitions()
        return create_model(f"{name}_{self.noun}", __base__=Section, __doc__=told, **own, **rest)

    def _model(self, name: str) -> type[Section]:
        return constructor_model(self.known()[name], optional=self.partial)

    def _known_name(self, name: Any, key: str) -> str:
        if not isinstance(name, str | bool):  # YAML reads an unquoted yes or no as a boolean
            message = f"a {self.noun} needs a name; write it like {{use: NAME, …}}"
            raise validation_error("mapping", message, key, name)
        if isinstance(name, str) and (new := self.renamed.get(name)):
            log.warning("%s '%s' was renamed; write '%s'", self.noun, name, new)
            name = new
        known = self.known()
        if not isinstance(name, str) or name not in known:
            written = str(name).lower() if isinstance(name, bool) else str(name)
            hint = did_you_mean_text(written, sorted(known)) + self.unknown_name_hint
            message = f"no {self.noun} named '{written}'{hint}"
            raise validation_error(f"unknown-{self.noun}", message, key, name)
        return name

    def _settings(
        self, given: Mapping[str, Any], name: str, info: ValidationInfo
    ) -> dict[str, Any]:
        read = self._model(name).model_validate(given, context=info.context)
        return plain_settings(read, only_given=self.partial)
