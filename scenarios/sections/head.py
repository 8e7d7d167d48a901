"""What a scenario is called and asks: ``foretrace``, ``name``, ``question``, ``extends``."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ..schema import REQUIRED, register

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]

register("foretrace", Literal[1], REQUIRED, help="Version of the form of this file.")
register("name", Name, REQUIRED, help="Names the folder of its runs.")
register("question", str, "", help="What the answer is for; the report answers it.")
register("extends", str, None, help="Another scenario, of which this one says the differences.")
