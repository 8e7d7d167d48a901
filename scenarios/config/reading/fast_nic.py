"""A NIC that is quicker than the switch port or the PCIe link it is plugged into: the rest is lost.

Legal, and an answer to another question: "a quicker NIC changes nothing".
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ....models.network.topology.leaf_spine import FatTree
from ..choice import Choice
from ..problems import Problem
from ..topology_choice import known_topologies
from .machines import machine_descriptions
from .tree import Path, TreeNode, dotted_path_text, find_node

if TYPE_CHECKING:
    from ....sim.units import ByteRate
    from ..sections.cluster import ClusterSection, FabricSection, NodeSection

GIGABIT = 1e9 / 8  # B/s
LEAST = 1.02  # ratio of rates that is reported: catalog rates are rounded


def fast_nic_warnings(cluster: ClusterSection, tree: TreeNode) -> Iterator[Problem]:
    """Doubts about NICs above a port of ``cluster.fabric.switch``, or the links to their GPUs.

    Parameters
    ----------
    cluster : checked
    tree : what the user wrote
    """
    port = _port_rate(cluster.fabric)
    machines = zip(machine_descriptions(tree), cluster.machines(), strict=False)
    for (path, _), machine in machines:
        said, nic = _written_rate(tree, path), machine.node.part("nic")
        if said is None or nic is None:
            continue
        rate = nic.settings.get("bandwidth", 0.0)
        if rate > LEAST * port:
            why = (
                f"a switch port has only {_gigabits(port)}; give cluster.fabric.switch another "
                "model or bandwidth"
            )
            yield _doubt(said, why)
        where, links = _links_to_gpus(machine.node)
        if rate > LEAST * links:
            place = f"{dotted_path_text(path)}.links.{where}"
            why = (
                f"the links from its GPUs carry only {_gigabits(links)} ({place}); give that link "
                "another kind (via) or bandwidth"
            )
            yield _doubt(said, why)


def _written_rate(tree: TreeNode, path: Path) -> TreeNode | None:
    """What the user wrote of the rate of a machine's NICs: their bandwidth, or else their model."""
    for key in ("bandwidth", "model"):
        said = find_node(tree, (*path, "nic", key))
        if said is not None and said.layer not in ("catalog", "default"):
            return said
    return None


def _port_rate(fabric: FabricSection) -> ByteRate:
    """Rate of the port that a NIC is plugged into; infinite where none is."""
    how = fabric.topology
    choice = how if isinstance(how, Choice) else Choice(how)
    if fabric.switch is None or not issubclass(known_topologies()[choice.use], FatTree):
        return math.inf
    return float(fabric.switch.settings.get("bandwidth", math.inf))


def _links_to_gpus(node: NodeSection) -> tuple[int, ByteRate]:
    """Number of the link between GPUs and NICs, and what those of one NIC's GPUs carry together."""
    gpu, nic = node.part("gpu"), node.part("nic")
    for number, told in enumerate(node.links):
        if {told.from_, told.to} == {"gpu", "nic"} and gpu and nic and gpu.count and nic.count:
            of = told.link.settings
            each = of.get("bandwidth", math.inf) * of.get("efficiency", 1.0)
            return number, each * math.ceil(gpu.count / nic.count)
    return -1, math.inf


def _gigabits(rate: ByteRate) -> str:
    return f"{rate / GIGABIT:.4g} Gb/s"


def _doubt(node: TreeNode, why: str) -> Problem:
    return Problem("doubt", f"'{node.text}' is not reached: {why}", node.spot, "warning")
