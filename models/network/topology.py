"""Machines joined to a system: what every node has, what joins them, and the routes that follow.

Every direction of a link is a component of its own, named where it begins: ``node0.gpu0.tx``
carries what GPU 0 sends, ``node0.nic0.rx`` what NIC 0 hears.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from ...sim.errors import GraphError
from ...sim.system import CORE, Component, System
from ..memory.memory import Memory
from .link import Link
from .nic import Nic
from .switch import Switch

TOPOLOGIES = ("fat-tree", "rail")


@dataclass(frozen=True)
class NodeSpec:
    """What every machine has.

    Parameters
    ----------
    gpus : int
    streams, copy_engines : int
        Kernels, and copies, that one GPU runs at once.
    cores : int
        Host threads that run at once.
    gpu_link : Link or None
        Joins every GPU to the others of its node (NVLink, or a bus); None: they talk through NICs.
    host_link, nic_link : Link or None
        Joins every GPU to the host, and to its NIC.
    nics : int
    nic : Nic or None
    hbm, dram, cxl : Memory or None
    core : bool
        Its GPUs are cores of a processor, whose time ops share with the threads of a library.
    parts : names of catalog entries by kind
    """

    gpus: int = 1
    streams: int = 128
    copy_engines: int = 2
    cores: int = 1
    gpu_link: Link | None = None
    host_link: Link | None = None
    nic_link: Link | None = None
    nics: int = 0
    nic: Nic | None = None
    hbm: Memory | None = None
    dram: Memory | None = None
    cxl: Memory | None = None
    core: bool = False
    parts: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class FabricSpec:
    """What joins the machines: leaf switches, and a spine above them where one leaf is not enough.

    Parameters
    ----------
    switch : Switch or None
        None: the NICs are joined back to back, as if by a switch that costs nothing.
    topology : str
        ``fat-tree``: all NICs of a node on one leaf; ``rail``: NIC k of every node on leaf k.
    oversubscription : float
        Rate into a leaf from its nodes over rate to the spine; uplinks are one pool, as if
        traffic were spread evenly over them.
    """

    switch: Switch | None = None
    topology: str = "fat-tree"
    oversubscription: float = 1.0


def cluster(nodes: int, node: NodeSpec, fabric: FabricSpec | None = None) -> System:
    """Join ``nodes`` machines.

    Raises
    ------
    GraphError
        Several machines without NICs, or a topology that is not known.

    Examples
    --------
    >>> nic = Nic(bandwidth=50e9, latency=6e-7)
    >>> nvlink = Link(bandwidth=450e9, latency=1e-6)
    >>> system = cluster(2, NodeSpec(gpus=8, gpu_link=nvlink, nics=8, nic=nic))
    >>> [system.components[c].name for c in system.route(*map(system.number,
    ...     ("node0.gpu3", "node1.gpu3")))]
    ['node0.nic3.tx', 'node1.nic3.rx']
    """
    fabric = fabric or FabricSpec()
    if nodes > 1 and (node.nic is None or not node.nics):
        raise GraphError("cluster", f"{nodes} nodes have no NIC to talk through; give node.nic")
    if fabric.topology not in TOPOLOGIES:
        raise GraphError(
            "cluster", f"topology {fabric.topology!r} is not modelled; take one of {TOPOLOGIES}"
        )
    return _Cluster(nodes, node, fabric).system()


def switches(nodes: int, nics: int, fabric: FabricSpec) -> int:
    """How many switches join the machines: the leaves, and the spines that their uplinks fill.

    Parameters
    ----------
    nodes, nics : machines, and how many NICs each has

    Raises
    ------
    GraphError
        More leaves than a spine switch has ports: a third level, which is not described.

    Examples
    --------
    >>> switch = Switch(bandwidth=50e9, latency=0, ports=8)
    >>> [switches(n, 1, FabricSpec(switch)) for n in (1, 8, 16)]
    [0, 1, 6]
    """
    if fabric.switch is None or nodes < 2:
        return 0
    made, ports = _Cluster(nodes, NodeSpec(nics=nics), fabric), fabric.switch.ports
    leaves = {made._leaf(i, k) for i in range(nodes) for k in range(nics)}
    if len(leaves) > ports:
        raise GraphError(
            "cluster",
            f"{len(leaves)} leaves are more than the {ports} ports of a spine switch; what joins "
            "them is not described, so nobody knows how many switches that takes",
        )
    uplinks = len(leaves) * (ports - made._down_ports()) if len(leaves) > 1 else 0
    return len(leaves) + math.ceil(uplinks / ports)


class _Cluster:
    """Names and numbers of everything, and who is joined to whom."""

    def __init__(self, nodes: int, node: NodeSpec, fabric: FabricSpec):
        self.nodes, self.node, self.fabric = nodes, node, fabric
        self.components: list[Component] = []
        self.number: dict[str, int] = {}
        self.parts: dict[str, dict[str, str]] = {}

    def system(self) -> System:
        for i in range(self.nodes):
            self._machine(f"node{i}")
        self._leaves()
        self._add(Component("fabric", "fabric"))
        gpus = tuple(self.parts)
        self.gpu_of = {self.number[g]: g for g in gpus}
        return System(tuple(self.components), gpus, self.parts, router=self._route, fabric="fabric")

    def _add(self, component: Component) -> None:
        self.number[component.name] = len(self.components)
        self.components.append(component)

    def _machine(self, name: str) -> None:
        node, part = self.node, self.node.parts
        self._add(Component(f"{name}.host", "host", slots=node.cores, part=part.get("host", "")))
        for kind, memory in (("dram", node.dram), ("cxl", node.cxl)):
            if memory is not None:
                self._add(memory.component(f"{name}.{kind}", part.get(kind, "")))
        for j in range(node.gpus):
            self._gpu(name, f"{name}.gpu{j}")
        for k in range(node.nics if node.nic is not None else 0):
            assert node.nic is not None  # noqa: S101
            for port in node.nic.ports(f"{name}.nic{k}", part.get("nic", "")):
                self._add(port)

    def _gpu(self, machine: str, gpu: str) -> None:
        node, part = self.node, self.node.parts
        self._add(Component(gpu, "gpu", slots=node.streams, part=part.get("gpu", "")))
        roles = {"host": f"{machine}.host"}
        if node.copy_engines:
            roles["dma"] = f"{gpu}.dma"
            self._add(Component(f"{gpu}.dma", "dma", slots=node.copy_engines))
        if node.hbm is not None:
            roles["hbm"] = f"{gpu}.hbm"
            self._add(node.hbm.component(f"{gpu}.hbm", part.get("gpu", "")))
        if node.core:
            roles["core"] = f"{gpu}.core"
            self._add(Component(f"{gpu}.core", "core", rate=CORE))
        for kind, memory in (("dram", node.dram), ("cxl", node.cxl)):
            if memory is not None:
                roles[kind] = f"{machine}.{kind}"
        for link, names in (
            (node.gpu_link, ("tx", "rx")),
            (node.host_link, ("d2h", "h2d")),
            (node.nic_link, ("to_nic", "from_nic")),
        ):
            for way in names if link is not None else ():
                assert link is not None  # noqa: S101
                roles[way] = f"{gpu}.{way}"
                self._add(link.component(f"{gpu}.{way}"))
        self.parts[gpu] = roles

    # Leaves and the spine.

    def _leaf(self, node: int, nic: int) -> int:
        """The leaf switch that a NIC is on."""
        if self.fabric.switch is None:
            return 0
        down = self._down_ports()
        if self.fabric.topology == "rail":
            return nic + self.node.nics * (node // down)
        return node // max(down // self.node.nics, 1)

    def _down_ports(self) -> int:
        """Ports of a leaf that face nodes; all of them where one leaf is enough."""
        assert self.fabric.switch is not None  # noqa: S101
        ports = self.fabric.switch.ports
        wanted = self.nodes * (1 if self.fabric.topology == "rail" else self.node.nics)
        if wanted <= ports:
            return ports
        over = self.fabric.oversubscription
        return int(ports * over / (1 + over))

    def _leaves(self) -> None:
        switch = self.fabric.switch
        if switch is None or self.nodes < 2:
            return
        joined: dict[int, list[str]] = {}
        for i in range(self.nodes):
            for k in range(self.node.nics):
                joined.setdefault(self._leaf(i, k), []).append(f"node{i}.nic{k}")
        part = self.node.parts.get("switch", "")
        for leaf, nics in joined.items():
            for nic in nics:
                self._add(switch.component(f"leaf{leaf}.{nic}", part))
            if len(joined) > 1:
                rate = len(nics) * switch.rate / self.fabric.oversubscription
                for way in ("up", "down"):
                    self._add(
                        Component(f"leaf{leaf}.{way}", "switch", rate=rate, latency=switch.latency)
                    )

    # Routes.

    def _route(self, a: int, b: int) -> tuple[int, ...]:
        return tuple(self.number[name] for name in self._names(self.gpu_of[a], self.gpu_of[b]))

    def _names(self, a: str, b: str) -> list[str]:
        here, there = a.partition(".")[0], b.partition(".")[0]
        node = self.node
        if here == there and node.gpu_link is not None:
            return [f"{a}.tx", f"{b}.rx"]
        if here == there and node.host_link is not None:
            return [f"{a}.d2h", f"{b}.h2d"]
        out, into = self._nic(a), self._nic(b)
        first = [f"{a}.to_nic"] if node.nic_link is not None else []
        last = [f"{b}.from_nic"] if node.nic_link is not None else []
        return [
            *first,
            f"{here}.nic{out}.tx",
            *self._between(int(here[4:]), out, int(there[4:]), into),
            f"{there}.nic{into}.rx",
            *last,
        ]

    def _nic(self, gpu: str) -> int:
        """GPUs share the NICs of their node evenly, neighbours the same one."""
        return int(gpu.rpartition("gpu")[2]) * self.node.nics // self.node.gpus

    def _between(self, here: int, out: int, there: int, into: int) -> list[str]:
        """Ports of switches from one NIC to another."""
        if self.fabric.switch is None:
            return []
        a, b = self._leaf(here, out), self._leaf(there, into)
        last = f"leaf{b}.node{there}.nic{into}"
        return [last] if a == b else [f"leaf{a}.up", f"leaf{b}.down", last]
