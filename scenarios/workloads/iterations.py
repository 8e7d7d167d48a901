"""Number of iterations of a periodic workload, and which of them count."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ..config.schema import Section

Positive = Annotated[int, Field(ge=1)]


class Iterations(Section):
    """Numbers of warm-up and of counted iterations."""

    warm_up: Annotated[int, Field(ge=0)] = 0
    """Number of first iterations that are not counted."""
    measure: Positive | None = None
    """Number of iterations counted after the warm-up; by default all."""


ALL = Iterations()
ONE = Iterations(measure=1)
