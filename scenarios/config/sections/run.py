"""``run``: seed, replicas, engine and limits of the simulation."""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from ....sim.units import Bytes, Duration
from ..schema import Section, register

FORM = re.compile(r"local(?::([1-9]\d{0,3}))?|dask://(local(?::([1-9]\d{0,3}))?|[\w.\-\[\]:]+:\d+)")


def check_workers_text(text: str) -> str:
    """Check the text of ``run.workers`` or ``--workers``, and return it unchanged.

    Raises
    ------
    ValueError
        The text has none of the known forms.

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
    """Settings of the simulation run."""

    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    """Seed of all random draws; the same seed gives the same answer."""
    replicas: Annotated[int, Field(ge=1, le=10_000)] = 1
    """Number of seeded runs from which the jitter interval is computed."""
    keep: Literal["none", "ranks", "ops"] | None = None
    """Detail of the saved result: ``ops`` has one row per op (the default up to 5 million ops),
    ``ranks`` one row per rank, ``none`` totals only."""
    defend: bool = False
    """Also test which unmeasured values matter and which model errors would flip the answer; takes
    many more runs."""
    quick: bool = False
    """Skip the runs that explain the answer: sensitivity and model errors."""
    explain: Annotated[float, Field(ge=1, le=1e6)] = 4.0
    """Most simulations that explain the answer, as a multiple of its own, if processes submit so
    many ops that these would take more than 2 million ops."""
    engine: Literal["core", "reference"] = "core"
    """``core``: compiled; ``reference``: the plain SimPy engine that defines the semantics."""
    workers: Annotated[str, AfterValidator(check_workers_text)] = "local"
    """Where points of a sweep run: local, local:N, dask://local, dask://HOST:PORT."""
    time_limit: Annotated[Duration, Field(gt=0)] | None = None
    """Wall time after which the run stops; finished variants and points of a sweep are kept."""
    memory: Bytes | None = None
    """Memory that the run may use; by default nine tenths of the free memory."""

    @model_validator(mode="after")
    def _quick_or_defended(self) -> Self:
        if self.quick and self.defend:
            raise ValueError("'quick' skips the runs that 'defend' needs; remove one of them")
        return self


register("run", RunSection, RunSection())
