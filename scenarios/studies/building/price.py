"""What the machines of a scenario cost: the items of ``cost``, each times how many there are."""

from __future__ import annotations

from ....models.network.topology import switches
from ....sim.errors import ScenarioError
from ....sim.units import MoneyRate, Seconds
from ...config.scenario import Scenario
from ...config.sections.cost import Item

SIZES = {"gpu": "memory", "host": "memory", "cxl": "size", "memory": "size"}


def price(scenario: Scenario) -> MoneyRate | None:
    """USD a second for all machines; None where nothing says what things cost.

    Raises
    ------
    ScenarioError
        Something is priced by a size that nobody says.
    """
    if scenario.cost is None or not scenario.cost.items:
        return None
    return sum(item.each * _count(item, scenario) for item in scenario.cost.items)


def cost_per_million_tokens(rate: MoneyRate, each: Seconds) -> float:
    """USD for a million tokens.

    Parameters
    ----------
    rate : USD/s
    each : mean time of a token

    Examples
    --------
    >>> cost_per_million_tokens(0.5, 5e-7)
    0.25
    """
    return rate * each * 1e6


def _switches(scenario: Scenario) -> int:
    """Leaves and spines; their ports and their number follow from ``cluster.fabric``."""
    from .system import fabric_of

    described = scenario.cluster
    if described.fabric.switch is None:
        raise ScenarioError(
            "cost.items: 'switch' has a price, and cluster.fabric has no switch; write "
            "cluster.fabric.switch, or put its ports into the price of the NICs"
        )
    nics = described.node.nic.count if described.node.nic else 0
    return switches(described.nodes, nics, fabric_of(described))


def _count(item: Item, scenario: Scenario) -> float:
    """How many times the item is paid for."""
    nodes = scenario.cluster.nodes
    part = scenario.cluster.node.part(item.what)
    if item.what == "node":
        return nodes
    if item.what == "switch":
        return _switches(scenario)
    if part is None:
        return 0
    if item.per is None:
        return nodes * part.count
    size = part.settings.get(SIZES.get(item.what, ""))
    if size is None:
        raise ScenarioError(
            f"cost.items: '{item.what}' is priced by size, and nobody says how large it is; give "
            f"cluster.node.{item.what} a {SIZES.get(item.what, 'size')}"
        )
    return float(nodes * part.count * size / item.per)
