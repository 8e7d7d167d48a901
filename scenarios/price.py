"""What the machines of a scenario cost: the items of ``cost``, each times how many there are."""

from __future__ import annotations

from ..sim.errors import ScenarioError
from ..sim.units import MoneyRate
from .scenario import Scenario
from .sections.cost import Item

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


def cost_per_million_tokens(rate: MoneyRate, iteration: float, tokens: float) -> float:
    """USD for a million trained tokens.

    Parameters
    ----------
    rate : USD/s
    iteration : s, the mean
    tokens : of one iteration

    Examples
    --------
    >>> cost_per_million_tokens(0.5, 2.0, 4e6)
    0.25
    """
    return rate * iteration / tokens * 1e6


def _count(item: Item, scenario: Scenario) -> float:
    """How many times the item is paid for."""
    nodes = scenario.cluster.nodes
    part = scenario.cluster.node.part(item.what)
    if item.what == "node":
        return nodes
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
