"""``run``: how the simulation is run."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from ....sim.units import Bytes, Duration
from ...studies.workers.workers import checked
from ..schema import Section, register


class RunSection(Section):
    """How the simulation is run."""

    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    """Of every draw; the same seed gives the same answer."""
    replicas: Annotated[int, Field(ge=1, le=10_000)] = 1
    """Seeded runs that the jitter interval comes from."""
    keep: Literal["none", "ranks", "ops"] | None = None
    """What stays of a run: a row an op (up to 5 million unless said), what ranks did, or less."""
    defend: bool = False
    """Also try which unmeasured values matter, and how wrong a part may be: many more runs."""
    engine: Literal["core", "reference"] = "core"
    """Compiled, or the plain SimPy program that defines what is right."""
    workers: Annotated[str, AfterValidator(checked)] = "local"
    """Where points of a sweep run: local, local:N, dask://local, dask://HOST:PORT."""
    time_limit: Annotated[Duration, Field(gt=0)] | None = None
    """Wall time after which it ends; finished variants, and points of a sweep, are kept."""
    memory: Bytes | None = None
    """Most memory that it may plan with; nine tenths of what is free unless said."""


register("run", RunSection, RunSection())
