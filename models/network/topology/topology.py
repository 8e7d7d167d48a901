"""System builder: components of every machine, the fabric between them, and the routes.

Every direction of a link is a separate component, named after its start: ``node0.gpu0.tx`` carries
what GPU 0 sends, ``node0.nic0.rx`` what NIC 0 receives.
"""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....sim.errors import GraphError
from ....sim.facts.component_list import ComponentList
from ....sim.facts.part_names import NameSubset, PartsByRole
from ....sim.facts.system import Component, System
from ..part.link import Link as Link
from ..part.nic import Nic as Nic
from ..part.node_spec import ROLES, MachineParts
from ..part.node_spec import GpuSpec as GpuSpec
from ..part.node_spec import NodeSpec as NodeSpec
from ..part.switch import Switch
from . import custom_graph as custom_graph  # imports that register topologies
from . import direct_networks as direct_networks
from .graph_topology import GraphTopology
from .leaf_spine import FatTree
from .router import GraphRouter, MachineLinks, MachineRouter
from .wiring import TOPOLOGIES, AdapterList, FabricParts, Topology

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class FabricSpec:
    """Links, switches and topology between the machines.

    Parameters
    ----------
    switch : Switch or None
        Model of the switches; None if NICs are connected directly, or the topology needs no switch.
    topology : str or Topology
        Topology, or the name of one that needs no settings.
    oversubscription : float or None
        Oversubscription of a topology given by name.
    part : name of the switch's catalog entry
    domain : int
        Number of consecutive machines whose GPUs share one NVLink switch.
    """

    switch: Switch | None = None
    topology: str | Topology = "fat-tree"
    oversubscription: float | None = None
    part: str = ""
    domain: int = 1

    def build_topology(self) -> Topology:
        """Create the topology from its name and settings.

        Raises
        ------
        GraphError
            The name is unknown.
        """
        if isinstance(self.topology, Topology):
            return self.topology
        if self.topology not in TOPOLOGIES:
            raise GraphError(
                "cluster",
                f"topology {self.topology!r} is not modelled; take one of {tuple(TOPOLOGIES)}",
            )
        over = self.oversubscription
        settings: dict[str, Any] = {} if over is None else {"oversubscription": over}
        return TOPOLOGIES[self.topology](**settings)


def cluster(nodes: int, node: NodeSpec, fabric: FabricSpec | None = None) -> System:
    """Build a system of ``nodes`` identical machines.

    Raises
    ------
    GraphError
        The topology is unknown.

    Examples
    --------
    >>> nic = Nic(bandwidth=50e9, latency=6e-7)
    >>> nvlink = Link(bandwidth=450e9, latency=1e-6)
    >>> system = cluster(2, NodeSpec(gpus=8, gpu_link=nvlink, nics=8, nic=nic))
    >>> [system.components[c].name for c in system.route(*map(system.number,
    ...     ("node0.gpu3", "node1.gpu3")))]
    ['node0.nic3.tx', 'node1.nic3.rx']
    """
    return join({"": (nodes, node)}, fabric)


def join(kinds: Mapping[str, tuple[int, NodeSpec]], fabric: FabricSpec | None = None) -> System:
    """Build a system of several kinds of machines, numbered consecutively, kind after kind.

    Parameters
    ----------
    kinds : number of machines and machine parts, by kind

    Raises
    ------
    GraphError
        The topology is unknown.

    Examples
    --------
    >>> nic = Nic(bandwidth=50e9, latency=6e-7)
    >>> store = NodeSpec(gpus=0, nics=1, nic=nic)
    >>> system = join({"trainer": (2, NodeSpec(nics=1, nic=nic)), "store": (1, store)})
    >>> system.gpus, system.select(kind="host", pool="store")
    (('node0.gpu0', 'node1.gpu0'), ('node2.host',))
    """
    collecting = gc.isenabled()
    gc.disable()  # garbage collection took 40 % of the time and finds nothing
    try:
        return _SystemBuilder(kinds, fabric or FabricSpec()).system()
    finally:
        if collecting:
            gc.enable()


def fabric_parts(nics: Sequence[int], fabric: FabricSpec) -> FabricParts:
    """Count the switches and cables between machines.

    Parameters
    ----------
    nics : number of NICs of each machine

    Raises
    ------
    GraphError
        The topology cannot connect the machines, or does not know its parts.

    Examples
    --------
    >>> switch = Switch(bandwidth=50e9, latency=0, ports=8)
    >>> [fabric_parts([1] * n, FabricSpec(switch)).switches for n in (1, 8, 16)]
    [{}, {'leaf': 1}, {'leaf': 4, 'spine': 2}]
    """
    if np.count_nonzero(nics) < 2:
        return FabricParts({}, [], [])
    topology = fabric.build_topology()
    for _ in topology.components(_adapters(nics), fabric.switch):
        pass
    topology.switches()  # or unknown
    return topology.parts()


def _adapters(nics: Sequence[int] | Ints) -> AdapterList:
    return AdapterList.of_machines(np.asarray(nics, np.int64))


class _SystemBuilder:
    """System under construction: components of all machines, and of the fabric between them."""

    def __init__(self, kinds: Mapping[str, tuple[int, NodeSpec]], fabric: FabricSpec):
        self.fabric = fabric
        self.machines: list[tuple[int, MachineParts]] = []  # how many there are of each
        for pool, (count, node) in kinds.items():
            self._add_machines(pool, count, node)
        self.counts = np.array([count for count, _ in self.machines])

    def _add_machines(self, pool: str, count: int, node: NodeSpec) -> None:
        """Add machines of one kind; plug-in parts are created separately for each machine."""
        first, end = self.size, self.size + count
        while first < end:
            made = MachineParts(node, f"node{first}", pool)
            many = 1 if made.has_plugin_parts else end - first
            self.machines.append((many, made))
            first += many

    @property
    def size(self) -> int:
        """Number of machines."""
        return sum(count for count, _ in self.machines)

    def system(self) -> System:
        blocks = [ComponentList.of(())]
        for (count, made), first in zip(self.machines, self._firsts(self.counts), strict=True):
            blocks.append(
                ComponentList.of(made.components)
                if made.has_plugin_parts
                else ComponentList.of_machines(made.components, int(first), count)
            )
        first = sum(map(len, blocks))
        nics = np.array([made.node.nics for _, made in self.machines], np.int64)
        adapters = _adapters(np.repeat(nics, self.counts))
        joined = len(np.unique(adapters.node)) > 1
        topology = self.fabric.build_topology() if joined else FatTree()
        switch = self.fabric.switch if joined else None
        ports = ComponentList.of(topology.components(adapters, switch))
        if self.fabric.part:
            ports = ports.with_changed(
                np.arange(len(ports)),
                lambda port: port if port.part else port.renamed(port.name, part=self.fabric.part),
            )
        every = ComponentList.concatenate(
            [*blocks, ports, ComponentList.of((Component("fabric", "fabric"),))]
        )
        links = self._links(len(every))
        router = (
            GraphRouter(links, adapters, topology, len(ports), first)
            if isinstance(topology, GraphTopology)
            else MachineRouter(links, adapters, topology, ports.names, first)
        )
        gpus = NameSubset(
            every.names, self._indices_over_machines([m.gpus for _, m in self.machines])
        )
        roles = {
            role: self._indices_over_machines(
                [m.played.get(role, m.gpus * 0 - 1) for _, m in self.machines]
            )
            for role in dict.fromkeys(role for _, m in self.machines for role in m.played)
        }
        return System(every, gpus, PartsByRole(gpus, roles), router=router, fabric="fabric")

    @staticmethod
    def _firsts(counts: Ints) -> Ints:
        return np.cumsum(counts) - counts

    def _indices_over_machines(
        self, of: Sequence[Ints], sizes: Sequence[int] | None = None
    ) -> Ints:
        """Indices over all machines, concatenated, from indices within one machine of each kind.

        Parameters
        ----------
        of : for each kind of machine, indices within one machine of that kind; -1 for none
        sizes : for each kind of machine, how many indices one machine takes; default: its number of
            components
        """
        size = np.array(sizes or [len(m.components) for _, m in self.machines])
        found = [np.zeros(0, np.int64)]
        begins = self._firsts(self.counts * size)
        for own, begin, each, (count, _) in zip(of, begins, size, self.machines, strict=True):
            base = begin + each * np.arange(count)[:, None]
            found.append(np.where(own >= 0, base + own, -1).ravel())
        return np.concatenate(found)

    def _links(self, total: int) -> MachineLinks:
        """Links of GPUs, hosts and NICs, as columns over all components."""
        made = [m for _, m in self.machines]
        size = np.array([len(m.components) for m in made])
        machine = self._column(np.repeat(np.arange(self.size), np.repeat(size, self.counts)), total)
        nics = [len(m.nic_tx) for m in made]
        return MachineLinks(
            machine,
            np.where(machine >= 0, machine // self.fabric.domain, -1),
            self._flag(machine, [m.node.gpu_link is not None for m in made]),
            self._flag(machine, [m.node.host_link is not None for m in made]),
            {
                r: self._column(self._indices_over_machines([m.roles[r] for m in made]), total)
                for r in ROLES
            },
            self._column(self._indices_over_machines([m.nic for m in made], nics), total),
            *(
                self._indices_over_machines(of)
                for of in zip(*(m.nic_columns for m in made), strict=True)
            ),
        )

    @staticmethod
    def _column(of_machines: Ints, total: int) -> Ints:
        """Column over all components, from a column over machine components; -1 elsewhere."""
        found = np.full(total, -1)
        found[: len(of_machines)] = of_machines
        return found

    def _flag(self, machine: Ints, of: Sequence[bool]) -> NDArray[np.bool_]:
        """Per-kind flag expanded to all components; False between machines."""
        return np.where(machine >= 0, np.repeat(np.array(of), self.counts)[machine], False)
