"""Oversubscription of a spine that is not there: legal, and it changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from ....models.network.topology.leaf_spine import FatTree
from ....models.network.topology.wiring import Adapter
from ..choice import Choice
from ..problems import Problem
from ..topology_choice import known_topologies
from .tree import TreeNode, find_node

if TYPE_CHECKING:
    from ..sections.cluster import ClusterSection


def missing_spine_warning(cluster: ClusterSection, tree: TreeNode) -> Iterator[Problem]:
    """A doubt about ``cluster.fabric.oversubscription`` where one leaf switch joins everything.

    Parameters
    ----------
    cluster : checked
    tree : what the user wrote
    """
    fabric, how = cluster.fabric, cluster.fabric.topology
    choice = how if isinstance(how, Choice) else Choice(how)
    own = choice.settings.get("oversubscription")
    below = ("oversubscription",) if own is None else ("topology", "oversubscription")
    said = find_node(tree, ("cluster", "fabric", *below))
    over = fabric.oversubscription if own is None else own
    if said is None or over == 1:
        return
    cls = known_topologies()[choice.use]
    ports = fabric.switch.settings.get("ports") if fabric.switch else None
    if not issubclass(cls, FatTree):
        return
    if ports is None:
        why = "there is no switch; write cluster.fabric.switch with its number of ports"
    elif (nics := _on_one_leaf(cluster, cls(oversubscription=over), ports)) < 0:
        return
    else:
        why = (
            f"{nics} NICs fit on one leaf switch of {ports} ports, so there is no spine; "
            "leave it out, or write a smaller cluster.fabric.switch.ports"
        )
    yield Problem("doubt", f"'{said.text}' has no effect: {why}", said.spot, "warning")


def _on_one_leaf(cluster: ClusterSection, topology: FatTree, ports: int) -> int:
    """The number of NICs on the only leaf switch; -1 where there are several."""
    nics = [
        (m.count, part.count if (part := m.node.part("nic")) else 0) for m in cluster.machines()
    ]
    total = sum(machines * each for machines, each in nics)
    if not 0 < total <= ports:  # adapters that exceed one switch are not listed: may be too many
        return -1 if total else 0
    each = [each for machines, each in nics if each for _ in range(machines)]
    adapters = [Adapter(i, k) for i, count in enumerate(each) for k in range(count)]
    leaves = topology.leaves(adapters, topology.facing_machines(adapters, ports))
    return -1 if len(np.unique(leaves)) > 1 else len(adapters)
