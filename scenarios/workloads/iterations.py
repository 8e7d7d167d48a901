"""Iterations of a periodic workload: their number, and which of them count."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ..config.schema import Section

Positive = Annotated[int, Field(ge=1)]


class Iterations(Section):
    """Iterations that count."""

    warm_up: Annotated[int, Field(ge=0)] = 0
    """Left out at the start."""
    measure: Positive | None = None
    """Counted after that; all there are unless said."""


ALL = Iterations()
ONE = Iterations(measure=1)
