"""Price of a scenario's machines: each item of ``cost`` times its number."""

from __future__ import annotations

from ....models.network.topology.topology import fabric_parts
from ....models.network.topology.wiring import FabricParts
from ....sim.errors import ScenarioError
from ....sim.facts.system import SELECTED
from ....sim.units import MoneyRate, Seconds
from ...config.part_specs import KINDS
from ...config.scenario import Scenario
from ...config.sections.cluster import MachineGroup
from ...config.sections.cost import PricedItem


def price_per_second(scenario: Scenario) -> MoneyRate | None:
    """Price of all machines in USD/s; None if there are no prices.

    Raises
    ------
    ScenarioError
        An item is priced by size, but its size is unknown.
    """
    if scenario.cost is None or not scenario.cost.items:
        return None
    return sum(item.each * _count_item(item, scenario) for item in scenario.cost.items)


def cost_per_million_tokens(rate: MoneyRate, token_time: Seconds) -> float:
    """Cost of a million tokens in USD.

    Parameters
    ----------
    rate : price in USD/s
    token_time : mean time per token, in s

    Examples
    --------
    >>> cost_per_million_tokens(0.5, 5e-7)
    0.25
    """
    return rate * token_time * 1e6


def _fabric_parts(scenario: Scenario, what: str) -> FabricParts:
    """Numbers of switches and cables that follow from ``cluster.fabric``."""
    from .system import fabric_of

    described = scenario.cluster
    if described.fabric.switch is None:
        raise ScenarioError(
            f"cost.items: '{what}' has a price, but cluster.fabric has no switch; write "
            "cluster.fabric.switch, or include the ports in the price of the NICs"
        )
    machines = [(m.count, m.node.part("nic")) for m in described.machines()]
    nics = [nic.count if nic else 0 for count, nic in machines for _ in range(count)]
    return fabric_parts(nics, fabric_of(described))


def _count_item(item: PricedItem, scenario: Scenario) -> float:
    """Number of times that an item is paid for."""
    if item.what == "switch":
        return sum(_fabric_parts(scenario, item.what).switches.values())
    if item.what == "cable":
        return sum(cables.number for cables in _fabric_parts(scenario, item.what).cables)
    what, pool = item.what, ""
    if what.startswith(SELECTED):
        pool, _, what = what.removeprefix(SELECTED).partition(".")
    machines = [m for m in scenario.cluster.machines() if pool in ("", m.pool)]
    if what in ("", "node"):
        return sum(m.count for m in machines)
    return sum(_count_part(what, item, m) for m in machines)


def _count_part(kind: str, item: PricedItem, machines: MachineGroup) -> float:
    """Number of times that an item is paid for in one group of identical machines."""
    part = machines.node.part(kind)
    if kind in machines.node.pools:
        return machines.count * machines.node.pools[kind].count
    if part is None:
        return 0
    if item.per is None:
        return machines.count * part.count
    size = part.settings.get(KINDS[kind].priced_by)
    if size is None:
        raise ScenarioError(
            f"cost.items: '{item.what}' is priced by size, but its size is unknown; write "
            f"cluster.{machines.path}.{kind}.{KINDS[kind].priced_by or 'size'}"
        )
    return float(machines.count * part.count * size / item.per)
