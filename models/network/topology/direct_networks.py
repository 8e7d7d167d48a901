"""Direct networks: torus and dragonfly, whose routers are connected to each other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ....sim.errors import GraphError
from ..part.switch import Switch
from .graph_topology import GraphTopology
from .routing import Routing
from .switch_graph import SwitchGraph
from .wiring import Adapter, FabricParts, topology

Ints = NDArray[np.int64]
WHERE = "cluster.fabric.topology"
GLOBAL_COST = 3  # more than two local links, so that a path uses only one global link


@topology("torus")
class Torus(GraphTopology):
    """Torus: machines on a grid with wrap-around links, each with a router.

    Traffic takes the shortest path in the first dimension, then in the next (Dally, Seitz 1987,
    doi:10.1109/TC.1987.1676939). Links have the rate and latency of the switch's ports.

    Parameters
    ----------
    shape : Sequence
        Number of machines along each dimension; their product is the number of machines.
    routing : str
        Choice between two paths of equal length: ``spray`` uses both evenly, ``ecmp`` hashes each
        flow to one.
    seed : int
        Seed of the hash.

    Examples
    --------
    >>> ring = Torus(shape=[4])
    >>> there = [Adapter(i, 0) for i in range(4)]
    >>> _ = ring.components(there, Switch(bandwidth=1e9, latency=0, ports=4))
    >>> [path.names for path in ring.routes(there[0], there[2])]
    [('router0.router1', 'router1.router2'), ('router0.router3', 'router3.router2')]
    """

    def __init__(
        self, *, shape: Sequence[int], routing: Literal["spray", "ecmp"] = "spray", seed: int = 0
    ):
        if not shape or min(shape) < 1:
            raise ValueError(
                f"shape is {list(shape)}; give the number of machines along each dimension, "
                "1 or more"
            )
        self.shape, self.routing = tuple(shape), Routing(routing, 0, seed)
        self.routing.check()

    def graph(self, adapters: Sequence[Adapter], switch: Switch | None) -> SwitchGraph:
        """Switch graph with one router per machine, connected to its neighbours."""
        switch = require_switch(switch, "torus")
        nodes = sorted({a.node for a in adapters})
        said = " x ".join(map(str, self.shape))
        if math.prod(self.shape) != len(nodes):
            raise GraphError(
                f"{WHERE}.shape",
                f"{said} is a torus of {math.prod(self.shape)} machines, and {len(nodes)} have "
                f"NICs; give a shape whose product is {len(nodes)}",
            )
        wanted = sum(min(2, size - 1) for size in self.shape)
        if wanted > switch.ports:
            raise GraphError(
                "cluster.fabric.switch",
                f"a router of a torus of {said} needs {wanted} ports, and the switch has "
                f"{switch.ports}; give the switch more ports, or the torus fewer dimensions",
            )
        graph = SwitchGraph(adapters)
        routers = graph.add_switches("router", (f"router{n}" for n in nodes))
        grid = np.arange(routers.start, routers.stop).reshape(self.shape)
        for dimension, size in enumerate(self.shape):
            beside = np.roll(grid, -1, axis=dimension)
            whole = np.arange(size if size > 2 else size - 1)
            low, high = (x.take(whole, axis=dimension).ravel() for x in (grid, beside))
            graph.add_cables(low, high, switch.component(""), turn=dimension)
        place = {node: router for node, router in zip(nodes, routers, strict=True)}
        graph.attach_nics(np.arange(len(adapters)), np.array([place[a.node] for a in adapters]))
        return graph

    def parts(self) -> FabricParts:
        """Cables of the network; its routers are parts of the machines."""
        return FabricParts({}, self.network.cables(), [])


@topology("dragonfly")
class Dragonfly(GraphTopology):
    """Dragonfly: groups of fully connected routers, with global links between the groups.

    Traffic uses at most one global link; parallel global links between two groups are alternatives
    (minimal routing). The global ports of a group connect to the other groups in turn.

    Parameters
    ----------
    routers : int
        Number of routers per group.
    nics : int
        Number of NICs per router.
    global_links : int
        Number of global links per router.
    routing : str
        Choice between paths of equal cost: ``spray`` spreads data evenly over all, ``ecmp`` hashes
        each flow to one.
    paths : int
        Number of paths that ``spray`` uses; 0 for all.
    seed : int
        Seed of the hash.

    Examples
    --------
    >>> fly = Dragonfly(routers=2, nics=1, global_links=1)
    >>> there = [Adapter(i, 0) for i in range(6)]
    >>> _ = fly.components(there, Switch(bandwidth=1e9, latency=0, ports=4))
    >>> fly.parts().switches, fly.routes(there[0], there[2])[0].names
    ({'router': 6}, ('router0.router3', 'router3.router2', 'router2.node2.nic0'))

    References
    ----------
    Kim, Dally, Scott, Abts 2008, doi:10.1109/ISCA.2008.19.
    """

    def __init__(
        self,
        *,
        routers: int,
        nics: int,
        global_links: int,
        routing: Literal["spray", "ecmp"] = "spray",
        paths: int = 0,
        seed: int = 0,
    ):
        for key, value in (("routers", routers), ("nics", nics), ("global_links", global_links)):
            if value < 1:
                raise ValueError(f"{key} is {value}; give 1 or more")
        self.routers, self.nics, self.global_links = routers, nics, global_links
        self.routing = Routing(routing, paths, seed)
        self.routing.check()

    def graph(self, adapters: Sequence[Adapter], switch: Switch | None) -> SwitchGraph:
        """Switch graph with as many groups as the NICs need; every two groups are connected."""
        switch = require_switch(switch, "dragonfly")
        each, per_group = self.routers, self.routers * self.nics
        groups = math.ceil(len(adapters) / per_group)
        wanted = self.nics + each - 1 + (self.global_links if groups > 1 else 0)
        if wanted > switch.ports:
            raise GraphError(
                "cluster.fabric.switch",
                f"a router has {wanted} links, but the switch only {switch.ports} ports; take a "
                "larger switch, or fewer nics, routers or global_links",
            )
        ports = each * self.global_links
        if groups > ports + 1:
            raise GraphError(
                WHERE,
                f"{len(adapters)} NICs need {groups} groups, but the {ports} global links of a "
                f"group reach only {ports} others; give more routers, nics or global_links",
            )
        graph = SwitchGraph(adapters)
        graph.add_switches("router", groups * each)
        port, first = switch.component(""), np.arange(groups) * each
        a, b = np.triu_indices(each, 1)
        graph.add_cables((first[:, None] + a).ravel(), (first[:, None] + b).ravel(), port)
        if groups > 1:
            low, high = self._global_cables(groups, ports)
            graph.add_cables(low, high, port, cost=GLOBAL_COST)
        home = np.arange(len(adapters)) // self.nics
        names = (f"{graph.names[r]}.{nic.name}" for r, nic in zip(home, adapters, strict=True))
        made = graph.add_components(port.renamed(name) for name in names)
        graph.attach_nics(np.arange(len(adapters)), home, made + np.arange(len(adapters)))
        return graph

    def _global_cables(self, groups: int, ports: int) -> tuple[Ints, Ints]:
        """Routers at both ends of global cables; consecutive ports go to consecutive groups."""
        others = groups - 1
        port = np.arange(ports // others * others)
        group = np.arange(groups)[:, None]
        far = (group + 1 + port % others) % groups
        theirs = port // others * others + others - 1 - port % others
        low = group * self.routers + port // self.global_links
        high = far * self.routers + theirs // self.global_links
        once = np.broadcast_to(group, far.shape) < far
        return low[once], high[once]


def require_switch(switch: Switch | None, what: str) -> Switch:
    """Return the switch whose ports give the properties of the links.

    Raises
    ------
    GraphError
        No switch is given.
    """
    if switch is None:
        raise GraphError(
            "cluster.fabric.switch",
            f"the ports of the {what}'s routers are not described; write "
            "cluster.fabric.switch with bandwidth, latency and ports",
        )
    return switch
