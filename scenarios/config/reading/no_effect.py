"""Warnings about values of a variant that have no effect, or less than intended."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from ....models.network.topology.leaf_spine import FatTree
from ....models.network.topology.wiring import Adapter
from ..choice import Choice
from ..draft import VariantDraft
from ..problems import Problem
from ..topology_choice import known_topologies
from .machines import machine_descriptions
from .tree import Path, TreeNode, deepest_node, dotted_path_text, find_node

if TYPE_CHECKING:
    from ....sim.units import ByteRate
    from ..sections.cluster import ClusterSection, FabricSection, NodeSection
    from ..sections.jobs import JobSection, Pool

GIGABIT = 1e9 / 8  # B/s
LEAST = 1.02  # ratio of rates that is reported: catalog rates are rounded
EVERY = "node*.gpu*"


def no_effect_warnings(variant: VariantDraft) -> Iterator[Problem]:
    """Warnings at the positions of the values; none if the variant does not fit the schema."""
    if variant.model is None:
        return
    checked: Any = variant.model
    yield from _missing_spine_warning(checked.cluster, variant.tree)
    yield from _fast_nic_warnings(checked.cluster, variant.tree)
    yield from _shared_gpu_warnings(checked.jobs, checked.cluster, variant.tree)


def _doubt(said: TreeNode, message: str) -> Problem:
    return Problem("doubt", message, said.spot, "warning")


def _topology_choice(fabric: FabricSection) -> Choice:
    how = fabric.topology
    return how if isinstance(how, Choice) else Choice(how)


def _missing_spine_warning(cluster: ClusterSection, tree: TreeNode) -> Iterator[Problem]:
    """Warning about ``cluster.fabric.oversubscription`` if one leaf switch connects all NICs."""
    fabric, choice = cluster.fabric, _topology_choice(cluster.fabric)
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
    yield _doubt(said, f"'{said.text}' has no effect: {why}")


def _on_one_leaf(cluster: ClusterSection, topology: FatTree, ports: int) -> int:
    """Number of NICs, if all fit on one leaf switch; otherwise -1."""
    nics = [
        (m.count, part.count if (part := m.node.part("nic")) else 0) for m in cluster.machines()
    ]
    total = sum(machines * each for machines, each in nics)
    if not 0 < total <= ports:  # adapters that exceed one switch are not listed: may be too many
        return -1 if total else 0
    each = [each for machines, each in nics if each for _ in range(machines)]
    adapters = [Adapter(i, k) for i, count in enumerate(each) for k in range(count)]
    leaves = topology.leaves(adapters, topology.downlink_ports(adapters, ports))
    return -1 if len(np.unique(leaves)) > 1 else len(adapters)


def _fast_nic_warnings(cluster: ClusterSection, tree: TreeNode) -> Iterator[Problem]:
    """Warnings about NICs faster than their switch port, or than the links to their GPUs."""
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
            yield _doubt(said, f"'{said.text}' is not reached: {why}")
        where, links = _links_to_gpus(machine.node)
        if rate > LEAST * links:
            place = f"{dotted_path_text(path)}.links.{where}"
            why = (
                f"the links from its GPUs carry only {_gigabits(links)} ({place}); give that link "
                "another kind (via) or bandwidth"
            )
            yield _doubt(said, f"'{said.text}' is not reached: {why}")


def _written_rate(tree: TreeNode, path: Path) -> TreeNode | None:
    """Tree node of the user's NIC bandwidth, or else of the NIC model; None if neither is given."""
    for key in ("bandwidth", "model"):
        said = find_node(tree, (*path, "nic", key))
        if said is not None and said.layer not in ("catalog", "default"):
            return said
    return None


def _port_rate(fabric: FabricSection) -> ByteRate:
    """Rate of a switch port in B/s; infinite if the fabric has no ports that limit NICs."""
    cls = known_topologies()[_topology_choice(fabric).use]
    if fabric.switch is None or not issubclass(cls, FatTree):
        return math.inf
    return float(fabric.switch.settings.get("bandwidth", math.inf))


def _links_to_gpus(node: NodeSection) -> tuple[int, ByteRate]:
    """Index of the GPU-NIC link, and total rate in B/s of one NIC's links to its GPUs."""
    gpu, nic = node.part("gpu"), node.part("nic")
    for number, told in enumerate(node.links):
        if {told.from_, told.to} == {"gpu", "nic"} and gpu and nic and gpu.count and nic.count:
            of = told.link.settings
            each = of.get("bandwidth", math.inf) * of.get("efficiency", 1.0)
            return number, each * math.ceil(gpu.count / nic.count)
    return -1, math.inf


def _gigabits(rate: ByteRate) -> str:
    return f"{rate / GIGABIT:.4g} Gb/s"


def _shared_gpu_warnings(
    jobs: Mapping[str, JobSection], cluster: ClusterSection, tree: TreeNode
) -> Iterator[Problem]:
    """Warnings about jobs that use the same GPUs, if the GPUs do not set ``core: true``."""
    parts = [machine.node.part("gpu") for machine in cluster.machines()]
    if all(part is None or part.settings.get("core") for part in parts):
        return
    taken = {name: _globs_of_gpus(job.on) for name, job in jobs.items()}
    for one, other in combinations(taken, 2):
        if any(_meet(a, b) for a in taken[one] for b in taken[other]):
            where, _ = deepest_node(tree, ("jobs", other, "on"))
            yield _doubt(
                where,
                f"jobs '{one}' and '{other}' use the same GPUs without slowing each other down; "
                "write cluster.node.gpu.core: true so that their kernels share the GPUs",
            )


def _globs_of_gpus(pools: Mapping[str, Pool]) -> list[str]:
    """Names and globs of the GPUs that a job gives; a pool given as a count shares no GPU."""
    if not pools:
        return [EVERY]
    said = [[pool] if isinstance(pool, str) else pool for pool in pools.values()
            if not isinstance(pool, int)]  # fmt: skip
    return [glob for globs in said for glob in globs if ".gpu" in glob]


def _meet(first: str, second: str) -> bool:
    return fnmatchcase(first, second) or fnmatchcase(second, first)
