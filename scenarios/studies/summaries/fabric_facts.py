"""Facts about the network of a variant for its summary: switches, cables, prices."""

from __future__ import annotations

from typing import Any

from ....models.network.topology.router import MachineRouter
from ..variants.variant import Variant

DRAWN = 64  # most switches that are drawn individually
PRICED = ("switch", "cable")


def fabric_facts(variant: Variant) -> dict[str, Any]:
    """Switches and cables by kind, their connections, and prices in USD/s; {} without a switch."""
    router = variant.simulation.system.router
    described = variant.scenario.cluster.fabric.switch
    if described is None or not isinstance(router, MachineRouter):
        return {}
    parts = router.topology.parts()
    few = sum(parts.switches.values()) <= DRAWN
    items = variant.scenario.cost.items if variant.scenario.cost else ()
    return {
        "topology": router.topology.registered_name,
        "switches": parts.switches,
        "cables": [cables._asdict() for cables in parts.cables],
        "joins": [list(join) for join in parts.joins] if few else [],
        "prices": {item.what: item.each for item in items if item.what in PRICED},
    }
