"""A NIC that is quicker than the switch port it is plugged into: legal, and the rest is lost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ....models.network.leaf_spine import FatTree
from ..choice import Choice
from ..problems import Problem
from ..topology_choice import known_topologies
from .machines import machine_descriptions
from .tree import TreeNode, find_node

if TYPE_CHECKING:
    from ..sections.cluster import ClusterSection

GIGABIT = 1e9 / 8  # B/s
LEAST = 1.02  # catalogs round rates


def slow_port_doubts(cluster: ClusterSection, tree: TreeNode) -> Iterator[Problem]:
    """Doubts about ``bandwidth`` of NICs above that of a port of ``cluster.fabric.switch``.

    Parameters
    ----------
    cluster : checked
    tree : what the user wrote
    """
    fabric = cluster.fabric
    how = fabric.topology
    choice = how if isinstance(how, Choice) else Choice(how)
    port = fabric.switch.settings.get("bandwidth") if fabric.switch else None
    if port is None or not issubclass(known_topologies()[choice.use], FatTree):
        return
    machines = zip(machine_descriptions(tree), cluster.machines(), strict=False)
    for (path, _), machine in machines:
        said = find_node(tree, (*path, "nic", "bandwidth"))
        nic = machine.node.part("nic")
        if said is None or said.layer in ("catalog", "default") or nic is None:
            continue
        if nic.settings["bandwidth"] > LEAST * port:
            yield Problem(
                "doubt",
                f"'{said.text}' changes less than it says: a port of the switch has "
                f"{port / GIGABIT:g} Gb/s; give cluster.fabric.switch another model, or bandwidth",
                said.spot,
                "warning",
            )
