"""System builder: parts of every machine, the fabric between them, and the routes.

Every direction of a link is a component of its own, named where it begins: ``node0.gpu0.tx``
carries what GPU 0 sends, ``node0.nic0.rx`` what NIC 0 hears.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ...sim.errors import GraphError
from ...sim.system import CORE, Component, Route, System
from ..memory.memory import Memory
from ..parts import NodePart
from . import leaf_spine as leaf_spine  # registers its topologies
from .link import Link
from .nic import Nic
from .switch import Switch
from .wiring import TOPOLOGIES, Adapter, Path, Topology


@dataclass(frozen=True)
class NodeSpec:
    """Parts of one kind of machine.

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
    others : (kind, count, part) of each kind of part beside these
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
    parts: Mapping[str, str] = field(default_factory=dict)
    others: tuple[tuple[str, int, NodePart], ...] = ()


@dataclass(frozen=True)
class FabricSpec:
    """Links, switches and topology between the machines.

    Parameters
    ----------
    switch : Switch or None
        None: nothing is in between, unless the topology says otherwise.
    topology : str or Topology
        How they are joined, or the name of a way that needs no settings.
    oversubscription : float or None
        Of a topology that is named, where it has such a setting.
    part : name of the switch's catalog entry
    """

    switch: Switch | None = None
    topology: str | Topology = "fat-tree"
    oversubscription: float | None = None
    part: str = ""

    def build_topology(self) -> Topology:
        """The topology, made from its name and settings.

        Raises
        ------
        GraphError
            There is none of that name.
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
    """A system of ``nodes`` identical machines.

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
    return join({"": (nodes, node)}, fabric)


def join(kinds: Mapping[str, tuple[int, NodeSpec]], fabric: FabricSpec | None = None) -> System:
    """A system of machines of several kinds; their numbers run through, kind after kind.

    Parameters
    ----------
    kinds : how many there are of each kind, and what is in one of them

    Raises
    ------
    GraphError
        Several machines, and some without NICs; or a topology that is not known.

    Examples
    --------
    >>> nic = Nic(bandwidth=50e9, latency=6e-7)
    >>> store = NodeSpec(gpus=0, nics=1, nic=nic)
    >>> system = join({"trainer": (2, NodeSpec(nics=1, nic=nic)), "store": (1, store)})
    >>> system.gpus, system.select(kind="host", pool="store")
    (('node0.gpu0', 'node1.gpu0'), ('node2.host',))
    """
    return _SystemBuilder(kinds, fabric or FabricSpec()).system()


def switches(nics: Sequence[int], fabric: FabricSpec) -> int:
    """Number of switches between the machines.

    Parameters
    ----------
    nics : of each machine

    Raises
    ------
    GraphError
        The topology cannot join them, or cannot say.

    Examples
    --------
    >>> switch = Switch(bandwidth=50e9, latency=0, ports=8)
    >>> [switches([1] * n, FabricSpec(switch)) for n in (1, 8, 16)]
    [0, 1, 6]
    """
    if len(nics) < 2:
        return 0
    topology = fabric.build_topology()
    for _ in topology.components(_adapters(nics), fabric.switch):
        pass
    return topology.switches()


def _adapters(nics: Sequence[int]) -> list[Adapter]:
    return [Adapter(i, k) for i, count in enumerate(nics) for k in range(count)]


def _require_nics(kinds: Mapping[str, tuple[int, NodeSpec]]) -> None:
    """Refuse machines without a NIC, where there are several machines."""
    machines = sum(count for count, _ in kinds.values())
    for pool, (count, node) in kinds.items():
        if machines > 1 and (node.nic is None or not node.nics):
            whose, path = f" of kind {pool!r}" * bool(pool), f"kinds.{pool}" if pool else "node"
            raise GraphError(
                "cluster",
                f"{count} nodes{whose} have no NIC to talk through; give {path}.nic",
            )


class _NicEnd(NamedTuple):
    """A NIC, and the components that data cross between a GPU and it, out and in."""

    adapter: Adapter
    out: tuple[int, ...]
    into: tuple[int, ...]


class _SystemBuilder:
    """The system under construction: names, numbers, and who is joined to whom."""

    def __init__(self, kinds: Mapping[str, tuple[int, NodeSpec]], fabric: FabricSpec):
        self.machines = [node for count, node in kinds.values() for _ in range(count)]
        self.pools = [pool for pool, (count, _) in kinds.items() for _ in range(count)]
        self.fabric, self.topology = fabric, fabric.build_topology()
        _require_nics(kinds)
        self.components: list[Component] = []
        self.number: dict[str, int] = {}
        self.machine_of: list[int] = []
        self.ends: dict[int, _NicEnd] = {}
        self.parts: dict[str, dict[str, str]] = {}

    def system(self) -> System:
        for i in range(len(self.machines)):
            self._add_machine(i)
        if len(self.machines) > 1:
            adapters = _adapters([node.nics for node in self.machines])
            for port in self.topology.components(adapters, self.fabric.switch):
                self._add_component(port, part=port.part or self.fabric.part)
        self._add_component(Component("fabric", "fabric"))
        return System(
            tuple(self.components),
            tuple(self.parts),
            self.parts,
            router=self._routes_between,
            fabric="fabric",
        )

    def _add_component(self, component: Component, machine: int = -1, **facts: Any) -> None:
        """Add a component with its facts; node -1 is between machines."""
        if machine >= 0:
            facts |= {"node": f"node{machine}", "pool": self.pools[machine]}
        self.number[component.name] = len(self.components)
        self.components.append(Component(**{**vars(component), **facts}) if facts else component)
        self.machine_of.append(machine)

    def _add_machine(self, i: int) -> None:
        node, machine = self.machines[i], f"node{i}"
        part = node.parts
        host = Component(f"{machine}.host", "host", slots=node.cores, part=part.get("host", ""))
        self._add_component(host, i, role="host")
        for kind, memory in (("dram", node.dram), ("cxl", node.cxl)):
            if memory is not None:
                component = memory.component(f"{machine}.{kind}", part.get(kind, ""))
                self._add_component(component, i, role=kind)
        for j in range(node.gpus):
            self._add_gpu(i, j)
        for k in range(node.nics if node.nic is not None else 0):
            assert node.nic is not None  # noqa: S101
            ports = node.nic.ports(f"{machine}.nic{k}", part.get("nic", ""))
            for way, port in zip(("tx", "rx"), ports, strict=True):
                self._add_component(port, i, role=way, rail=k)
        for kind, count, one in node.others:
            for k in range(count):
                self._add_part(i, kind, (k, count), one)

    def _add_gpu(self, i: int, j: int) -> None:
        node, machine = self.machines[i], f"node{i}"
        gpu, part = f"{machine}.gpu{j}", node.parts
        # GPUs share the NICs of their machine evenly, neighbours the same one.
        rail = j * node.nics // node.gpus if node.nics else -1
        card = Component(gpu, "gpu", slots=node.streams, part=part.get("gpu", ""))
        self._add_component(card, i, rail=rail)
        roles = {"host": f"{machine}.host"}
        if node.copy_engines:
            roles["dma"] = f"{gpu}.dma"
            self._add_component(
                Component(roles["dma"], "dma", slots=node.copy_engines), i, role="dma"
            )
        if node.hbm is not None:
            roles["hbm"] = f"{gpu}.hbm"
            self._add_component(
                node.hbm.component(roles["hbm"], part.get("gpu", "")), i, role="hbm"
            )
        if node.core:
            roles["core"] = f"{gpu}.core"
            self._add_component(Component(roles["core"], "core", rate=CORE), i, role="core")
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
                self._add_component(link.component(f"{gpu}.{way}"), i, role=way)
        self.parts[gpu] = roles

    def _add_part(self, i: int, kind: str, place: tuple[int, int], one: NodePart) -> None:
        """Add the k-th part of a registered kind; GPUs share such parts evenly."""
        node, (k, count) = self.machines[i], place
        for component in one.components(f"node{i}.{kind}{k}"):
            role, told = component.role or kind, component.part or node.parts.get(kind, "")
            self._add_component(component, i, role=role, part=told)
            for j in range(node.gpus):
                if j * count // node.gpus == k:
                    self.parts[f"node{i}.gpu{j}"][role] = component.name

    # Routes.

    def _routes_between(self, a: int, b: int) -> Sequence[Route]:
        """Routes from one GPU or host to another."""
        here, there = self.machines[self.machine_of[a]], self.machines[self.machine_of[b]]
        if self.machine_of[a] == self.machine_of[b]:
            if here.gpu_link is not None and not self._has_missing_links((a, "tx"), (b, "rx")):
                return [Route(self._links_in_roles((a, "tx"), (b, "rx")))]
            if here.host_link is not None:
                return [Route(self._links_in_roles((a, "d2h"), (b, "h2d")))]
        if not (here.nics and there.nics):
            return ()
        one, other = self._nic_end_of(a), self._nic_end_of(b)
        alone = len(self.machines) < 2
        paths = (Path(),) if alone else self.topology.routes(one.adapter, other.adapter)
        return [
            Route((*one.out, *map(self._component_named, path.names), *other.into), path.weight)
            for path in paths
        ]

    def _nic_end_of(self, component: int) -> _NicEnd:
        """NIC of a GPU or host, and the path to it."""
        if component not in self.ends:
            rail = max(self.components[component].rail, 0)
            nic = Adapter(self.machine_of[component], rail)
            out = (*self._links_in_roles((component, "to_nic")), self.number[f"{nic.name}.tx"])
            into = (self.number[f"{nic.name}.rx"], *self._links_in_roles((component, "from_nic")))
            self.ends[component] = _NicEnd(nic, out, into)
        return self.ends[component]

    def _component_named(self, name: str) -> int:
        """Index of a component that the topology names."""
        if name not in self.number:
            raise GraphError(
                "cluster",
                f"topology {self.topology.registered_name!r} sends data over {name!r}, which its "
                "components() did not make",
            )
        return self.number[name]

    def _links_in_roles(self, *ends: tuple[int, str]) -> tuple[int, ...]:
        """Links of these components in the given roles."""
        roles = [(self.parts.get(self.components[end].name, {}), role) for end, role in ends]
        return tuple(self.number[own[role]] for own, role in roles if role in own)

    def _has_missing_links(self, *ends: tuple[int, str]) -> bool:
        return len(self._links_in_roles(*ends)) < len(ends)
