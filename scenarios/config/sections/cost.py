"""``cost``: prices per hour of use."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ....sim.units import Bytes, MoneyRate
from ..schema import Many, Section, register


class PricedItem(Section):
    """Price of one kind of item."""

    what: str
    """The priced thing: a kind of part, node, switch (leaves and spines) or cable (of the fabric).
    kind:NAME is a machine of that kind, kind:NAME.gpu a GPU in it."""
    each: MoneyRate
    """Price of one item per hour, all costs included."""
    per: Annotated[Bytes, Field(gt=0)] | None = None
    """Amount that ``each`` pays for, if the item is priced by size; by default it is priced by
    count."""


class CostSection(Section):
    """Prices of machines, parts and network."""

    currency: Literal["USD"] = "USD"
    """Currency of all prices."""
    items: Many[PricedItem] = ()
    """Prices of all items."""


register("cost", CostSection, None)
