"""``cost``: what things cost, per hour of use."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ....sim.units import Bytes, MoneyRate
from ..schema import Many, Section, register


class PricedItem(Section):
    """The price of one kind of thing."""

    what: str
    """A kind of part, node, switch (leaves and spines) or cable (of the fabric); kind:NAME is a
    machine of that kind, kind:NAME.gpu a GPU in one."""
    each: MoneyRate
    """Price of one per hour, all in."""
    per: Annotated[Bytes, Field(gt=0)] | None = None
    """Priced by size: ``each`` buys this much; by count unless said."""


class CostSection(Section):
    """What things cost."""

    currency: Literal["USD"] = "USD"
    """Of all prices."""
    items: Many[PricedItem] = ()
    """Everything that is paid for."""


register("cost", CostSection, None)
