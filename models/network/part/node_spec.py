"""Description of one kind of machine, and its components, numbered from 0."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....sim.facts.system import CORE, Component
from ....sim.units import Bytes
from ...compute.slot_pool import SlotPool
from ...memory.memory import Memory
from ...parts import NodePart
from .link import Link
from .nic import Nic
from .pcie import DOWN, UP, PcieSwitch

ROLES = ("tx", "rx", "d2h", "h2d", "to_nic", "from_nic", UP, DOWN)
"""Roles of the links of a GPU."""


@dataclass(frozen=True)
class GpuSpec:
    """Parts of each GPU of a machine.

    Parameters
    ----------
    streams, copy_engines : int
        Number of kernels, and of copies, that run at the same time.
    hbm : Memory or None
        Memory of the GPU; kernels and copies share its bandwidth.
    room : Bytes or None
        Memory capacity of the GPU that jobs allocate; None to ignore capacity.
    core : bool
        True if the GPU has a core whose time its ops share with library threads.
    """

    streams: int = 128
    copy_engines: int = 2
    hbm: Memory | None = None
    room: Bytes | None = None
    core: bool = False


@dataclass(frozen=True)
class NodeSpec:
    """Parts of one kind of machine.

    Parameters
    ----------
    gpus : int
        Number of GPUs.
    gpu : GpuSpec
        Parts of each GPU.
    cores : int
        Number of host threads that run at the same time.
    gpu_link : Link or None
        Link from every GPU to the others in its machine (NVLink, or a bus); None if they
        communicate through NICs.
    host_link, nic_link : Link or None
        Link from every GPU to the host, and to its NIC.
    nics : int
        Number of NICs.
    nic : Nic or None
        Model of each NIC.
    dram, cxl : Memory or None
        Host memory, and CXL memory.
    parts : names of catalog entries, by kind of part
    others : (kind, count, part) of each additional kind of part
    """

    gpus: int = 1
    gpu: GpuSpec = GpuSpec()
    cores: int = 1
    gpu_link: Link | None = None
    host_link: Link | None = None
    nic_link: Link | None = None
    nics: int = 0
    nic: Nic | None = None
    dram: Memory | None = None
    cxl: Memory | None = None
    parts: Mapping[str, str] = field(default_factory=dict)
    others: tuple[tuple[str, int, NodePart], ...] = ()


class MachineParts:
    """Components of one machine, in order; equal machines differ only in component names.

    Index columns are relative to the machine's first component.

    Parameters
    ----------
    name : name of the machine, such as ``node0``
    pool : kind of machine

    Examples
    --------
    >>> machine = MachineParts(NodeSpec(gpus=1, nics=1, nic=Nic(bandwidth=1e9, latency=0)), "node0")
    >>> [c.name for c in machine.components][-2:], machine.nic_tx.tolist()
    (['node0.nic0.tx', 'node0.nic0.rx'], [3])
    """

    def __init__(self, node: NodeSpec, name: str, pool: str = ""):
        self.node, self.name, self.pool = node, name, pool
        self.components: list[Component] = []
        self.parts: dict[str, dict[str, str]] = {}  # of each GPU, by role
        self._number: dict[str, int] = {}
        self._add_all()
        size, has_nic = len(self.components), node.nic is not None and node.nics > 0
        self.gpus = np.array([self._number[gpu] for gpu in self.parts], np.int64)
        self.played = {role: self._components_by_role(role) for role in self._roles()}
        self.roles: dict[str, NDArray[np.int64]] = {r: np.full(size, -1) for r in ROLES}
        for role in self.roles.keys() & self.played.keys():
            self.roles[role][self.gpus] = self.played[role]
        rails = [max(c.rail, 0) if has_nic else -1 for c in self.components]
        self.nic = np.array(rails, np.int64)
        tx, rx = (
            np.array([self._number[f"{name}.nic{k}.{w}"] for k in range(node.nics * has_nic)], int)
            for w in ("tx", "rx")
        )
        self.nic_tx = tx
        self.nic_columns = tx, rx, self._above_nics("up"), self._above_nics("down")

    def _roles(self) -> list[str]:
        return list(dict.fromkeys(role for parts in self.parts.values() for role in parts))

    def _components_by_role(self, role: str) -> NDArray[np.int64]:
        """Component with this role for each GPU, shape (GPUs,); -1 for none."""
        names = [parts.get(role) for parts in self.parts.values()]
        return np.array([-1 if name is None else self._number[name] for name in names], np.int64)

    @property
    def has_plugin_parts(self) -> bool:
        """True if it has parts from plug-ins, which may differ from machine to machine."""
        return any(not isinstance(one, PcieSwitch | SlotPool) for _, _, one in self.node.others)

    def _above_nics(self, way: str) -> NDArray[np.int64]:
        """Link component of the PCIe switch above each NIC, shape (NICs,); -1 for none."""
        found = np.full(len(self.nic_tx), -1)
        for kind, count, one in self.node.others:
            if isinstance(one, PcieSwitch):
                places = [f"{self.name}.{kind}{k * count // len(found)}" for k in range(len(found))]
                found[:] = [self._number[f"{place}.{way}"] for place in places]
        return found

    def _add(self, component: Component, **facts: Any) -> None:
        self._number[component.name] = len(self.components)
        facts |= {"node": self.name, "pool": self.pool}
        self.components.append(component.renamed(component.name, **facts))

    def _add_all(self) -> None:
        node, part = self.node, self.node.parts
        host = Component(f"{self.name}.host", "host", slots=node.cores)
        self._add(host, role="host", part=part.get("host", ""))
        for kind, memory in (("dram", node.dram), ("cxl", node.cxl)):
            if memory is not None:
                self._add(memory.component(f"{self.name}.{kind}", part.get(kind, "")), role=kind)
        for j in range(node.gpus):
            self._add_gpu(j)
        for k in range(node.nics if node.nic is not None else 0):
            assert node.nic is not None  # noqa: S101
            ports = node.nic.ports(f"{self.name}.nic{k}", part.get("nic", ""))
            for way, port in zip(("tx", "rx"), ports, strict=True):
                self._add(port, role=way, rail=k)
        for kind, count, one in node.others:
            for k in range(count):
                self._add_part(kind, (k, count), one)

    def _add_gpu(self, j: int) -> None:
        node, gpu, part = self.node, f"{self.name}.gpu{j}", self.node.parts
        own = node.gpu
        # The GPUs of a machine share its NICs evenly; neighbours share the same one.
        rail = j * node.nics // node.gpus if node.nics else -1
        self._add(Component(gpu, "gpu", slots=own.streams), rail=rail, part=part.get("gpu", ""))
        roles = {"host": f"{self.name}.host"}
        if own.copy_engines:
            roles["dma"] = f"{gpu}.dma"
            self._add(Component(roles["dma"], "dma", slots=own.copy_engines), role="dma")
        if own.hbm is not None:
            roles["hbm"] = f"{gpu}.hbm"
            self._add(own.hbm.component(roles["hbm"], part.get("gpu", "")), role="hbm")
        if own.room is not None:
            roles["memory"] = f"{gpu}.memory"
            held = Component(roles["memory"], "memory", capacity=int(own.room))
            self._add(held, role="memory", part=part.get("gpu", ""))
        if own.core:
            roles["core"] = f"{gpu}.core"
            self._add(Component(roles["core"], "core", rate=CORE), role="core")
        for kind, memory in (("dram", node.dram), ("cxl", node.cxl)):
            if memory is not None:
                roles[kind] = f"{self.name}.{kind}"
        for link, names in (
            (node.gpu_link, ("tx", "rx")),
            (node.host_link, ("d2h", "h2d")),
            (node.nic_link, ("to_nic", "from_nic")),
        ):
            for way in names if link is not None else ():
                assert link is not None  # noqa: S101
                roles[way] = f"{gpu}.{way}"
                self._add(link.component(f"{gpu}.{way}"), role=way)
        self.parts[gpu] = roles

    def _add_part(self, kind: str, place: tuple[int, int], one: NodePart) -> None:
        """Add the components of one part of a registered kind, and assign them to its GPUs.

        The GPUs of a machine share the parts of a kind evenly. ``place`` is (index of the part,
        number of parts of the kind).
        """
        node, (k, count) = self.node, place
        for component in one.components(f"{self.name}.{kind}{k}"):
            role, told = component.role or kind, component.part or node.parts.get(kind, "")
            self._add(component, role=role, part=told)
            for j in range(node.gpus):
                if j * count // node.gpus == k:
                    self.parts[f"{self.name}.gpu{j}"][role] = component.name
