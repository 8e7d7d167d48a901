"""Top-level keys ``foretrace``, ``name``, ``question`` and ``extends``."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from ..schema import REQUIRED, register

FORM = 1  # of scenarios
PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"


def _check_name(text: str) -> str:
    if not re.match(PATTERN, text):
        raise ValueError(f"'{text}' is not a name; use up to 64 letters, digits, '.', '_' and '-'")
    return text


Name = Annotated[str, AfterValidator(_check_name), Field(json_schema_extra={"pattern": PATTERN})]


def _check_form(number: int) -> int:
    if number != FORM:
        cure = "pip install --upgrade foretrace" if number > FORM else "see CHANGELOG"
        raise ValueError(f"this file has format {number}, this version reads format {FORM}; {cure}")
    return number


Form = Annotated[int, AfterValidator(_check_form), Field(json_schema_extra={"const": FORM})]

register("foretrace", Form, REQUIRED, help="Version of the scenario format.")
register("name", Name, REQUIRED, help="Name of the scenario, and of the folder of its runs.")
register("question", str, "", help="The question that the report answers, in words.")
register(
    "extends", str, None, help="Scenario file to start from; this file has only the differences."
)
