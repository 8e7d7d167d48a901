"""``workload: {type: transfers}``: sends, copies and other ops, written out."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from ....sim.units import Chunk
from ...studies.building import transfers as _builder  # noqa: F401  registers itself
from ..schema import REQUIRED, Many, Section
from .workload import Iterations, Positive, Workload

Rank = Annotated[int, Field(ge=0)]
KINDS = ("send", "copy", "host", "compute", "collective")


def _op(text: str) -> str:
    kind, colon, name = text.partition(":")
    if not colon or not name or kind not in KINDS:
        raise ValueError(f"'{text}' is no op; write it like send:write or copy:h2d")
    return text


class Transfer(Section):
    """Equal ops, from one rank or from several at once."""

    op: Annotated[str, AfterValidator(_op)]
    """Kind and name, as drivers know it: ``send:write``, ``copy:c2d``; a collective, such as
    ``collective:all-reduce``, is one op of all its ranks."""
    bytes: Annotated[Chunk, Field(ge=0)]
    """Of each."""
    from_: Many[Rank] = Field((0,), alias="from")
    """Ranks that do it, all at the same time; the members of a collective."""
    to: Rank | None = None
    """The rank at the other end of a send."""
    count: Positive = 1
    """Of each rank."""
    at_once: Positive = 1
    """Of each rank, in flight together."""


class TransferWorkload(Workload):
    """Ops written out: each line begins when the one before it is done."""

    type: Literal["transfers"]
    """This kind of workload."""
    ops: Annotated[Many[Transfer], Field(min_length=1)] = REQUIRED
    """What is done in one iteration."""
    iterations: Iterations = Iterations(measure=1)
    """How often: warm-up and measured together."""
