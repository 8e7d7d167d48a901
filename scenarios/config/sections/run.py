"""``run``: how the simulation is run."""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from ....sim.units import Bytes, Duration
from ..schema import Section, register

FORM = re.compile(r"local(?::([1-9]\d{0,3}))?|dask://(local(?::([1-9]\d{0,3}))?|[\w.\-\[\]:]+:\d+)")


def check_workers_text(text: str) -> str:
    """The text of ``run.workers`` or ``--workers`` unchanged, once its form is checked.

    Raises
    ------
    ValueError
        It has none of the known forms.

    Examples
    --------
    >>> check_workers_text("dask://planner:8786")
    'dask://planner:8786'
    >>> check_workers_text("ray://x:1")
    Traceback (most recent call last):
    ValueError: no workers 'ray://x:1'; write local, local:4, dask://local or dask://HOST:PORT
    """
    if not FORM.fullmatch(text):
        raise ValueError(f"no workers '{text}'; write local, local:4, dask://local or "
                         "dask://HOST:PORT")  # fmt: skip
    return text


class RunSection(Section):
    """How the simulation is run."""

    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    """Of every draw; the same seed gives the same answer."""
    replicas: Annotated[int, Field(ge=1, le=10_000)] = 1
    """Seeded runs that the jitter interval comes from."""
    keep: Literal["none", "ranks", "ops"] | None = None
    """What stays of a run: a row per op (up to 5 million unless said), what ranks did, or less."""
    defend: bool = False
    """Also try which unmeasured values matter, and how wrong a part may be: many more runs."""
    quick: bool = False
    """Leave out the runs that explain the answer: with parts faster, and with parts wrong."""
    engine: Literal["core", "reference"] = "core"
    """Compiled, or the plain SimPy program that defines what is right."""
    workers: Annotated[str, AfterValidator(check_workers_text)] = "local"
    """Where points of a sweep run: local, local:N, dask://local, dask://HOST:PORT."""
    time_limit: Annotated[Duration, Field(gt=0)] | None = None
    """Wall time after which it ends; finished variants, and points of a sweep, are kept."""
    memory: Bytes | None = None
    """Most memory that it may plan with; nine tenths of what is free unless said."""

    @model_validator(mode="after")
    def _quick_or_defended(self) -> Self:
        if self.quick and self.defend:
            raise ValueError("quick leaves out the runs that defend asks for; take one of them out")
        return self


register("run", RunSection, RunSection())
