"""Leaf-spine topologies: leaf switches with NICs, and spines where one leaf is not enough."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from ...sim.errors import GraphError
from ...sim.system import Component
from .switch import Switch
from .wiring import Adapter, Path, Topology, topology


@topology("fat-tree")
class FatTree(Topology):
    """Leaf-spine network with all NICs of a machine on one leaf.

    Parameters
    ----------
    oversubscription : float
        Rate into a leaf from its machines over rate to the spine; uplinks are one pool, as if
        traffic were spread evenly over them.

    Examples
    --------
    >>> tree = FatTree()
    >>> there = [Adapter(i, 0) for i in range(8)]
    >>> [c.name for c in tree.components(there, Switch(bandwidth=1e9, latency=0, ports=4))][:4]
    ['leaf0.node0.nic0', 'leaf0.node1.nic0', 'leaf0.up', 'leaf0.down']
    >>> tree.routes(there[0], there[7])[0].names
    ('leaf0.up', 'leaf3.down', 'leaf3.node7.nic0')
    """

    def __init__(self, *, oversubscription: float = 1.0):
        if not oversubscription >= 1:
            raise ValueError(f"oversubscription is {oversubscription}; give 1 or more")
        self.oversubscription = oversubscription
        self.switch: Switch | None = None
        self.leaf: dict[Adapter, int] = {}

    def components(self, adapters: Sequence[Adapter], switch: Switch | None) -> Iterable[Component]:
        """Ports of each leaf to NICs, and its up- and downlinks where there are several leaves."""
        self.switch, self.leaf = switch, {}
        if switch is None:
            return  # back to back, as if by a switch that costs nothing
        self.leaf = self.leaves(adapters, self.facing_machines(adapters, switch.ports))
        joined: dict[int, list[Adapter]] = {}
        for adapter, leaf in self.leaf.items():
            joined.setdefault(leaf, []).append(adapter)
        for leaf, here in joined.items():
            for adapter in here:
                yield switch.component(f"leaf{leaf}.{adapter.name}")
            if len(joined) > 1:
                rate = len(here) * switch.rate / self.oversubscription
                for way in ("up", "down"):
                    yield Component(
                        f"leaf{leaf}.{way}", "switch", rate=rate, latency=switch.latency, role=way
                    )

    def leaves(self, adapters: Sequence[Adapter], down: int) -> dict[Adapter, int]:
        """The leaf of each NIC: machines in order, as many to a leaf as have room.

        Parameters
        ----------
        down : ports of a leaf that face machines
        """
        found: dict[Adapter, int] = {}
        leaf, used = 0, 0
        for here in adapters_by_machine(adapters):
            if used and used + len(here) > down:
                leaf, used = leaf + 1, 0
            found |= dict.fromkeys(here, leaf)
            used += len(here)
        return found

    def ports_wanted(self, adapters: Sequence[Adapter]) -> int:
        """Ports that a single leaf would need."""
        return len(adapters)

    def facing_machines(self, adapters: Sequence[Adapter], ports: int) -> int:
        """Ports of a leaf that face machines; all of them where one leaf is enough."""
        if self.ports_wanted(adapters) <= ports:
            return ports
        return int(ports * self.oversubscription / (1 + self.oversubscription))

    def routes(self, a: Adapter, b: Adapter) -> Sequence[Path]:
        """The one route: the receiver's port, over the spine where the leaves differ."""
        if self.switch is None:
            return (Path(),)
        last = f"leaf{self.leaf[b]}.{b.name}"
        if self.leaf[a] == self.leaf[b]:
            return (Path((last,)),)
        return (Path((f"leaf{self.leaf[a]}.up", f"leaf{self.leaf[b]}.down", last)),)

    def switches(self) -> int:
        """Number of switches: leaves, and the spines that their uplinks fill.

        Raises
        ------
        GraphError
            More leaves than a spine switch has ports: a third level, which is not described.
        """
        if self.switch is None:
            return 0
        leaves, ports = len(set(self.leaf.values())), self.switch.ports
        if leaves > ports:
            raise GraphError(
                "cluster",
                f"{leaves} leaves are more than the {ports} ports of a spine switch; what joins "
                "them is not described, so nobody knows how many switches that takes",
            )
        down = self.facing_machines(list(self.leaf), ports)
        uplinks = leaves * (ports - down) if leaves > 1 else 0
        return leaves + math.ceil(uplinks / ports)


@topology("rail")
class Rail(FatTree):
    """Rail-optimized network: NIC k of every machine on a leaf of rail k.

    Parameters
    ----------
    oversubscription : float
        Rate into a leaf from its machines over rate to the spine; uplinks are one pool, as if
        traffic were spread evenly over them.

    Examples
    --------
    >>> rail = Rail()
    >>> there = [Adapter(i, k) for i in range(2) for k in range(2)]
    >>> _ = list(rail.components(there, Switch(bandwidth=1e9, latency=0, ports=4)))
    >>> [rail.leaf[a] for a in there]
    [0, 1, 0, 1]
    """

    def leaves(self, adapters: Sequence[Adapter], down: int) -> dict[Adapter, int]:
        """NICs of a rail in order, as many to a leaf as have room."""
        rails = 1 + max(a.rail for a in adapters)
        on: dict[int, int] = {}
        found: dict[Adapter, int] = {}
        for adapter in adapters:
            before = on.get(adapter.rail, 0)
            found[adapter] = adapter.rail + rails * (before // max(down, 1))
            on[adapter.rail] = before + 1
        return found

    def ports_wanted(self, adapters: Sequence[Adapter]) -> int:
        """Ports that a single leaf would need."""
        return len({a.node for a in adapters})


def adapters_by_machine(adapters: Sequence[Adapter]) -> list[list[Adapter]]:
    """NICs by machine.

    >>> adapters_by_machine([Adapter(0, 0), Adapter(0, 1), Adapter(1, 0)])[1]
    [Adapter(node=1, rail=0)]
    """
    nics: dict[int, list[Adapter]] = {}
    for adapter in adapters:
        nics.setdefault(adapter.node, []).append(adapter)
    return list(nics.values())
