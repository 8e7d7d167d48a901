"""``what_if``: named differences from the scenario, each compared with it."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from ....sim.units import MoneyRate
from ..schema import Many, Section, register
from .head import Name


class VariantSection(Section):
    """One variant: named changes to the base scenario."""

    name: Name
    """Its column in tables."""
    use: Many[str] = ()
    """Other variants that it contains, applied first, in this order."""
    set: dict[str, Any] = Field(default_factory=dict)
    """Settings by dotted path: ``cluster.node.nic.bandwidth: 400 Gb/s``."""
    override: dict[str, Any] = Field(default_factory=dict)
    """Merged into ``cluster.override``."""
    backends: dict[str, Any] = Field(default_factory=dict)
    """Merged into ``backends``."""
    cost: dict[str, MoneyRate] = Field(default_factory=dict)
    """New prices by kind of component."""


register(
    "what_if", Many[VariantSection], (), help="Named differences, each compared with the scenario."
)
