"""``what_if``: named variants, each compared with the scenario."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from ....sim.units import MoneyRate
from ..schema import Many, Section, register
from .head import Name
from .ops import OpRuleSection


class VariantSection(Section):
    """One variant: a named set of changes to the scenario."""

    name: Name
    """Name of the variant, as tables show it."""
    use: Many[str] = ()
    """Names of other variants to apply first, in order."""
    set: dict[str, Any] = Field(default_factory=dict)
    """Changed settings by dotted path: ``cluster.node.nic.bandwidth: 400 Gb/s``."""
    override: dict[str, Any] = Field(default_factory=dict)
    """Entries that are merged into ``cluster.override``."""
    backends: dict[str, Any] = Field(default_factory=dict)
    """Entries that are merged into ``backends``."""
    ops: Many[OpRuleSection] = ()
    """Further rules, applied after those of ``ops``."""
    cost: dict[str, MoneyRate] = Field(default_factory=dict)
    """New prices by kind of component."""


register(
    "what_if", Many[VariantSection], (), help="Named variants, each compared with the scenario."
)
