"""Fat trees: leaf switches with NICs, spines above several leaves, cores above pods."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ....sim.errors import GraphError
from ....sim.facts.component_list import ComponentList
from ....sim.facts.system import Component, Location
from ..part.switch import Switch
from .graph_topology import GraphTopology
from .leaf_ports import UPLINKS, LeafPorts
from .routing import ECMP, SPRAY, Routing
from .switch_graph import SwitchGraph
from .tree_links import TreeLinks
from .wiring import Adapter, AdapterList, Cables, FabricParts, topology

Ints = NDArray[np.int64]
POOL = "pool"


@topology("fat-tree")
class FatTree(GraphTopology):
    """Leaf-spine network of two or three tiers; all NICs of a machine are on one leaf.

    Parameters
    ----------
    oversubscription : float
        Rate between a leaf and its machines, divided by the rate between the leaf and the spines.
    routing : str
        ``pool``: all uplinks of a leaf form one pool with perfectly even load. With the other
        values every uplink is a separate link: ``ecmp`` hashes each flow to one path, ``spray``
        spreads data evenly over all.
    paths : int
        Number of paths that ``spray`` uses; 0 for all.
    seed : int
        Seed of the hash.
    tiers : int or None
        Number of switch levels, 2 or 3; requires ``routing`` other than ``pool``. Default: the
        fewest that connect all machines.
    spines : int or None
        Number of spine switches of a two-tier network. Default: the fewest that connect all leaves.

    Examples
    --------
    >>> tree = FatTree()
    >>> there = [Adapter(i, 0) for i in range(8)]
    >>> [c.name for c in tree.components(there, Switch(bandwidth=1e9, latency=0, ports=4))][:4]
    ['leaf0.node0.nic0', 'leaf0.node1.nic0', 'leaf0.up', 'leaf0.down']
    >>> tree.routes(there[0], there[7])[0].names
    ('leaf0.up', 'leaf3.down', 'leaf3.node7.nic0')
    >>> own = FatTree(routing="ecmp", seed=1)
    >>> _ = own.components(there, Switch(bandwidth=1e9, latency=0, ports=4))
    >>> own.routes(there[0], there[7])[0].names
    ('leaf0.spine0', 'spine0.leaf3', 'leaf3.node7.nic0')
    """

    def __init__(
        self,
        *,
        oversubscription: float = 1.0,
        routing: Literal["pool", "ecmp", "spray"] = "pool",
        paths: int = 0,
        seed: int = 0,
        tiers: int | None = None,
        spines: int | None = None,
    ):
        if not oversubscription >= 1:
            raise ValueError(f"oversubscription is {oversubscription}; give 1 or more")
        if tiers not in (None, 2, 3):
            raise ValueError(f"tiers is {tiers}; give 2 or 3, or leave it out")
        if spines is not None and (spines < 1 or tiers == 3):
            raise ValueError(f"spines is {spines}; give 1 or more, of two tiers, or leave it out")
        for key, value in (("tiers", tiers), ("spines", spines), ("paths", paths)):
            if routing == POOL and value:
                raise ValueError(
                    f"{key} is {value}, but pooled uplinks do not use it; write "
                    "routing: spray or ecmp, so that every uplink is a separate link"
                )
        self.pooled = routing == POOL
        allowed = (POOL, ECMP, SPRAY)
        if routing not in allowed:
            raise ValueError(f"routing is {routing!r}; take one of: {', '.join(allowed)}")
        self.routing = Routing(SPRAY if self.pooled else routing, paths, seed)
        self.routing.check()
        self.oversubscription, self.tiers, self.spines = oversubscription, tiers, spines
        self.switch: Switch | None = None
        self.leaf = np.zeros(0, np.int64)  # (NICs,) of each

    def graph(self, adapters: Sequence[Adapter], switch: Switch | None) -> SwitchGraph:
        """Switch graph of leaves, their ports to NICs, and links above them if needed."""
        self.switch, self.leaf = switch, np.zeros(0, np.int64)
        graph = SwitchGraph(adapters)
        if switch is None:  # direct connection, modelled as a switch without cost
            graph.attach_nics(np.arange(len(adapters)), graph.add_switches("", 1)[0])
            return graph
        self.leaf = self.leaves(adapters, self.downlink_ports(adapters, switch.ports))
        self._add_leaves(graph, switch)
        return graph

    def _add_leaves(self, graph: SwitchGraph, switch: Switch) -> None:
        """Add the leaves in the order of their first NIC, their ports, and the links above them."""
        _, begins, which = np.unique(self.leaf, return_index=True, return_inverse=True)
        home = np.argsort(np.argsort(begins))[which]  # (NICs,) switch of each
        number, counts = self.leaf[np.sort(begins)], np.bincount(home)
        order = np.argsort(home, kind="stable")
        graph.add_switches("leaf", (f"leaf{i}" for i in number.tolist()))
        pool = graph.add_switches("", ["pool"] if self.pooled and len(number) > 1 else [])
        names = LeafPorts(number, counts, AdapterList.of(graph.adapters).take(order), bool(pool))
        parts, kinds = [switch.component(names[0])], np.zeros(len(names), np.int64)
        ends = names.first + counts
        if pool:
            size, of = np.unique(counts, return_inverse=True)
            for k, way in enumerate(UPLINKS):
                kinds[ends + k] = len(parts) + of
                parts += [self._pooled_uplinks(switch, nics, way) for nics in size.tolist()]
            leaf, above = np.arange(len(number)), np.full(len(number), pool[0])
            rises = np.stack([leaf, above], axis=-1)  # up, then down, leaf after leaf
            graph.add_links(
                rises.ravel(), rises[:, ::-1].ravel(), np.stack([ends, ends + 1], axis=-1).ravel()
            )
            self._set_levels(graph, len(number), [1], [0], [len(number)])
        graph.add_components(ComponentList(parts, kinds, names))
        own = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
        graph.attach_nics(order, home[order], np.repeat(names.first, counts) + own)
        if len(number) > 1 and not pool:
            self._add_tiers(graph, len(number), int(counts.max()), switch)

    def _pooled_uplinks(self, switch: Switch, nics: int, way: str) -> Component:
        """Component for the pooled uplinks or downlinks of a leaf with this number of NICs."""
        rate = nics * switch.rate / self.oversubscription
        at = Location(role=way)
        return Component(way, "switch", rate=rate, latency=switch.latency, location=at)

    def _add_tiers(self, graph: SwitchGraph, leaves: int, nics: int, switch: Switch) -> None:
        """Add spines, or pods and cores; every leaf has the uplinks of the fullest one."""
        uplinks, ports = math.ceil(nics / self.oversubscription), switch.ports
        if nics + uplinks > ports:
            raise GraphError(
                "cluster.fabric.switch",
                f"a leaf has {nics} NICs and {uplinks} uplinks, but a switch has {ports} ports; "
                "take a larger switch, or more oversubscription",
            )
        spines = self.spines or switches_above(leaves, uplinks, ports)
        if self.spines:
            self._require_spines(self.spines, leaves, uplinks, ports)
        if self.tiers != 3 and spines:
            above = graph.add_switches("spine", spines)
            join_tiers(graph, switch, np.arange(leaves), above, uplinks)
            level, low, span = [1] * spines, [0] * spines, [leaves] * spines
        elif self.tiers == 2:
            raise GraphError(
                "cluster.fabric.topology",
                f"spines with {ports} ports cannot connect {leaves} leaves with {uplinks} uplinks "
                "each; write tiers: 3, or use a larger switch",
            )
        else:
            level, low, span = self._add_pods(graph, leaves, uplinks, switch)
        self._set_levels(graph, leaves, level, low, span)

    @staticmethod
    def _set_levels(
        graph: SwitchGraph, leaves: int, level: list[int], low: list[int], span: list[int]
    ) -> None:
        """Record which leaves are below each switch."""
        source, target = graph.columns[:2]
        graph.levels = TreeLinks(
            source,
            target,
            np.array([0] * leaves + level),
            np.array([*range(leaves), *low]),
            np.array([1] * leaves + span),
            leaves,
        )

    def _add_pods(
        self, graph: SwitchGraph, leaves: int, uplinks: int, switch: Switch
    ) -> tuple[list[int], list[int], list[int]]:
        """Add pods of leaves, each with one spine per uplink of a leaf, and the cores above them.

        Returns the level, the first leaf below, and the number of leaves below each spine and core.
        """
        ports = switch.ports
        each = min(ports // 2, leaves)  # leaves of a pod, and uplinks of its spines
        pods = math.ceil(leaves / each)
        cores = switches_above(pods, each, ports)
        if cores is None:
            most = each * ports
            raise GraphError(
                "cluster.fabric.topology",
                f"{leaves} leaves are more than the {most} that three tiers of switches with "
                f"{ports} ports join; take a larger switch",
            )
        spines = graph.add_switches("spine", pods * uplinks)
        for pod in range(pods):
            below = np.arange(pod * each, min((pod + 1) * each, leaves))
            join_tiers(graph, switch, below, spines[pod * uplinks : (pod + 1) * uplinks], uplinks)
        tops = graph.add_switches("core", uplinks * cores)
        for plane in range(uplinks):
            below = np.array(spines[plane::uplinks])
            join_tiers(graph, switch, below, tops[plane * cores : (plane + 1) * cores], each)
        first = [pod * each for pod in range(pods) for _ in range(uplinks)]
        return (
            [1] * len(spines) + [2] * len(tops),
            first + [0] * len(tops),
            [each] * len(spines) + [leaves] * len(tops),
        )

    def _require_spines(self, spines: int, leaves: int, uplinks: int, ports: int) -> None:
        """Raise an error if the spines lack ports, or outnumber the uplinks of a leaf."""
        if spines > uplinks or leaves * math.ceil(uplinks / spines) > ports:
            raise GraphError(
                "cluster.fabric.topology.spines",
                f"{spines} spines of {ports} ports do not fit {leaves} leaves of {uplinks} "
                f"uplinks; {spines_advice(leaves, uplinks, ports)}",
            )

    def leaves(self, adapters: Sequence[Adapter], down: int) -> Ints:
        """Leaf of each NIC, shape (NICs,): machines in order, as many per leaf as fit.

        Parameters
        ----------
        down : number of leaf ports that face machines
        """
        node = AdapterList.of(adapters).node
        _, begins, which = np.unique(node, return_index=True, return_inverse=True)
        place = np.argsort(np.argsort(begins))[which]  # machine of each, by its first NIC
        found, leaf, used = np.zeros(len(begins), np.int64), 0, 0
        for machine, nics in enumerate(np.bincount(place).tolist()):
            if used and used + nics > down:
                leaf, used = leaf + 1, 0
            found[machine] = leaf
            used += nics
        return found[place]

    def ports_needed(self, adapters: Sequence[Adapter]) -> int:
        """Number of ports that a single leaf for all NICs would need."""
        return len(adapters)

    def downlink_ports(self, adapters: Sequence[Adapter], ports: int) -> int:
        """Number of leaf ports that face machines; all ports if one leaf is enough."""
        if self.ports_needed(adapters) <= ports:
            return ports
        return int(ports * self.oversubscription / (1 + self.oversubscription))

    def take_down(self, components: Iterable[int]) -> None:
        """Exclude some components from all routes; a pool of uplinks cannot be avoided."""
        if not self.pooled:
            super().take_down(components)

    @property
    def avoidable(self) -> frozenset[int]:
        """Components that routing can avoid; none if uplinks are pooled."""
        return frozenset() if self.pooled else super().avoidable

    @property
    def sprays(self) -> bool:
        """True if each pair uses many paths; False for pooled uplinks, which are one path."""
        return not self.pooled and super().sprays

    def parts(self) -> FabricParts:
        """Leaves, spines and cables; for pooled uplinks, the spines that the uplinks fill.

        With more leaves than a spine has ports, only the leaves are listed: pooled uplinks do not
        describe a third tier.
        """
        if self.switch is None:
            return FabricParts({}, [], [])
        if not self.pooled:
            return super().parts()
        leaves, ports = len(np.unique(self.leaf)), self.switch.ports
        below = [Cables("NIC", "leaf", len(self.leaf))]
        uplinks = leaves * (ports - self.downlink_ports(self.network.adapters, ports))
        if leaves == 1 or not uplinks or leaves > ports:
            return FabricParts({"leaf": leaves}, below, [])
        found = {"leaf": leaves, "spine": math.ceil(uplinks / ports)}
        return FabricParts(found, [*below, Cables("leaf", "spine", uplinks)], [])

    def switches(self) -> int:
        """Number of switches: leaves, and the spines that their uplinks fill.

        Raises
        ------
        GraphError
            More leaves than a spine switch has ports.
        """
        leaves = len(np.unique(self.leaf))
        if self.pooled and self.switch is not None and leaves > self.switch.ports:
            raise GraphError(
                "cluster",
                f"{leaves} leaves are more than the {self.switch.ports} ports of a spine switch, "
                "so the number of switches is unknown; "
                "for a third tier write cluster.fabric.topology: {use: fat-tree, routing: spray}",
            )
        return super().switches()


@topology("rail")
class Rail(FatTree):
    """Rail-optimized network: NIC k of every machine is on a leaf of rail k.

    Parameters
    ----------
    oversubscription : float
        Rate between a leaf and its machines, divided by the rate between the leaf and the spines.

    Examples
    --------
    >>> rail = Rail()
    >>> there = [Adapter(i, k) for i in range(2) for k in range(2)]
    >>> _ = list(rail.components(there, Switch(bandwidth=1e9, latency=0, ports=4)))
    >>> rail.leaf.tolist()
    [0, 1, 0, 1]
    """

    def leaves(self, adapters: Sequence[Adapter], down: int) -> Ints:
        """Leaf of each NIC, shape (NICs,): the NICs of a rail in order, as many per leaf as fit."""
        rail = AdapterList.of(adapters).rail
        order = np.argsort(rail, kind="stable")
        before = np.empty(len(rail), np.int64)
        first = np.cumsum(np.bincount(rail)) - np.bincount(rail)
        before[order] = np.arange(len(rail)) - first[rail[order]]
        return np.asarray(rail + (1 + rail.max()) * (before // max(down, 1)))

    def ports_needed(self, adapters: Sequence[Adapter]) -> int:
        """Number of ports that a single leaf for all NICs would need."""
        return len(np.unique(AdapterList.of(adapters).node))


def switches_above(below: int, uplinks: int, ports: int) -> int | None:
    """Smallest number of upper switches to which each lower switch can connect evenly.

    None if no number of upper switches has enough ports.

    >>> switches_above(4, 32, 64), switches_above(64, 32, 64), switches_above(65, 32, 64)
    (2, 32, None)
    """
    for count in range(1, uplinks + 1):
        if below * math.ceil(uplinks / count) <= ports:
            return count
    return None


def spines_advice(leaves: int, uplinks: int, ports: int) -> str:
    """Advice for an error message: the numbers of spines that fit.

    >>> spines_advice(4, 32, 64), spines_advice(65, 32, 64)
    ('give 2 to 32', 'take a larger switch, or leave it out for a third tier')
    """
    least = switches_above(leaves, uplinks, ports)
    if least is None:
        return "take a larger switch, or leave it out for a third tier"
    return f"give {least} to {uplinks}"


def join_tiers(
    graph: SwitchGraph, switch: Switch, below: Ints, above: Sequence[int], uplinks: int
) -> None:
    """Add ``uplinks`` cables from each lower switch to the upper switches in turn."""
    high = np.array(above)[np.arange(uplinks) % len(above)]
    low = np.repeat(below, uplinks)
    graph.add_cables(low, np.tile(high, len(below)), switch.component(""), ("up", "down"))
