"""``cluster``: the machines, their parts, and the network between them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from pydantic import AfterValidator, Field, PlainValidator, ValidationInfo, create_model

from ..choice import Choice
from ..part_specs import (
    KINDS,
    ComponentOverride,
    Part,
    PartLink,
    node_parts,
    part_link_model,
    part_model,
    read_part,
    read_part_link,
)
from ..run_arguments import HostResources
from ..schema import REQUIRED, Many, Section, register, validation_error
from ..topology_choice import read_topology, topology_forms
from .pools import Pools, PoolSection

HOW = "How switches are connected."


def _check_kind_name(text: str) -> str:
    """Check the name of a kind of machine, as in ``kind:NAME.gpu*``."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", text):
        raise ValueError(
            f"'{text}' is not a name for a kind of machine; use letters, digits, - and _, and "
            "begin with a letter"
        )
    return text


def _part_form(kind: str) -> Any:
    return PlainValidator(partial(read_part, kind), json_schema_input_type=str | part_model(kind))


class NodeSection(Section):
    """The parts of one machine; ``override`` describes machines that differ."""

    if TYPE_CHECKING:
        links: tuple[PartLink, ...]
        pools: Mapping[str, PoolSection]

    def part(self, name: str) -> Part | None:
        """Part of a kind; None if the machine has none."""
        found = getattr(self, name, None) if name in node_parts() else None
        return found if isinstance(found, Part) else None

    def parts(self) -> Mapping[str, Part]:
        """Parts of the machine by kind."""
        return {name: part for name in node_parts() if (part := self.part(name)) is not None}


class FabricSection(Section):
    """The network between the machines."""

    topology: str | Choice = "fat-tree"
    switch: Annotated[Part, _part_form("switch")] | None = None
    """Kind of switch that the network is built of."""
    library: Annotated[Part, _part_form("library")] | None = None
    """Communication library for sends and collectives (nccl-nvlink4, gloo …)."""
    oversubscription: Annotated[float, Field(ge=1)] = 1.0
    """Ratio of downlink to uplink capacity of a leaf switch; 1 is non-blocking."""
    gpu_domain: Annotated[int, Field(ge=1)] = 1
    """Number of consecutive machines whose GPU links meet in one switch (18 of 4 GPUs: NVL72)."""
    fidelity: Literal["alpha-beta", "flow"] = "flow"
    """``alpha-beta``: each transfer as if alone; ``flow``: transfers share links."""
    expand: str | None = None
    """Algorithms by which collectives are expanded into sends, such as ``ring, pairwise``. By
    default a collective is one op that uses all its links."""


@dataclass(frozen=True)
class MachineGroup:
    """A number of identical machines.

    Parameters
    ----------
    pool : name of their kind; "" if there is only one kind
    path : path of their description below ``cluster``
    """

    pool: str
    path: str
    count: int
    node: NodeSection


class ClusterSection(Section):
    """The machines and the network between them."""

    if TYPE_CHECKING:
        fabric: FabricSection
        override: Mapping[str, ComponentOverride]

    def machines(self) -> tuple[MachineGroup, ...]:
        """Groups of identical machines; machines are numbered in this order."""
        told: Any = self
        if "kinds" in type(self).model_fields:
            return tuple(MachineGroup(k, f"kinds.{k}", m.count, m) for k, m in told.kinds.items())
        return (MachineGroup("", "node", told.nodes, told.node),)

    def of(self, pool: str) -> NodeSection:
        """Parts of one machine of the named kind."""
        return next(m.node for m in self.machines() if m.pool == pool)

    def gpu(self) -> Part | None:
        """GPU of the first machine that has one, where ranks run by default; None for none."""
        return next((p for m in self.machines() if (p := m.node.part("gpu")) and p.count), None)

    def host_resources(self) -> HostResources:
        """Host resources of the first machine with GPUs; memory of its DRAM or its host."""
        for machine in self.machines():
            gpu = machine.node.part("gpu")
            if gpu is not None and gpu.count:
                memory, host = machine.node.part("memory"), machine.node.part("host")
                size = memory.count * memory.settings.get("size", 0) if memory else 0
                size = size or (host.settings.get("memory") if host else None)
                return HostResources(size, gpu.count, bool(host and host.settings.get("operator")))
        return HostResources()

    def parts(self) -> Mapping[str, Part]:
        """All parts by path below ``cluster``, such as ``node.gpu`` and ``fabric.switch``."""
        told = {f"{m.path}.{k}": p for m in self.machines() for k, p in m.node.parts().items()}
        beside = {"switch": self.fabric.switch, "library": self.fabric.library}
        return told | {f"fabric.{k}": p for k, p in beside.items() if p is not None}


def _node_model(name: str, doc: str, **own: Any) -> type[Section]:
    """Pydantic model of a machine with every registered kind of part."""
    fields: dict[str, Any] = dict(own)
    for kind in node_parts():
        what, told = Annotated[Part, _part_form(kind)], KINDS[kind].help
        fields[kind] = (what | None, Field(None, description=told))
    link: Any = Annotated[
        PartLink, PlainValidator(read_part_link, json_schema_input_type=part_link_model())
    ]
    fields["links"] = (
        Many[link],
        Field((), description="Links between the parts of a machine, such as PCIe and NVLink."),
    )
    fields["pools"] = (
        Pools,
        Field(
            default_factory=dict,
            description="Parts with slots, by name: cores of a SmartNIC, accelerators, stages of a "
            "switch. Ops are sent to them by role.",
        ),
    )
    return create_model(name, __base__=NodeSection, __doc__=doc, **fields)


def _shared_fields() -> dict[str, Any]:
    """Keys that both forms of ``cluster`` have."""
    topology: Any = PlainValidator(read_topology, json_schema_input_type=topology_forms())
    how: Any = Annotated[str | Choice, topology], Field("fat-tree", description=HOW)
    fabric: Any = create_model(
        "FabricSection", __base__=FabricSection, __doc__=FabricSection.__doc__, topology=how
    )
    return {
        "fabric": (fabric, Field(fabric(), description="The network between the machines.")),
        "override": (
            dict[str, ComponentOverride],
            Field(
                default_factory=dict,
                description="Components that differ from the others, by name or glob: a straggler, "
                "a slow NIC, a failed link. ``node3.gpu*`` matches its GPUs only, ``node3`` all of "
                "its components.",
            ),
        ),
    }


def _cluster_form() -> Any:
    """The two forms of ``cluster``: identical machines, or several kinds of machine."""
    beside, count = _shared_fields(), cast("Any", Annotated[int, Field(ge=1)])
    node = _node_model("NodeSection", NodeSection.__doc__ or "")
    alike = create_model(
        "ClusterSection",
        __base__=ClusterSection,
        __doc__=ClusterSection.__doc__,
        nodes=(count, Field(REQUIRED, description="Number of machines.")),
        node=(
            node,
            Field(
                REQUIRED, description="Parts of one machine: GPUs, NICs, host, memory and links."
            ),
        ),
        **beside,
    )
    many = count, Field(REQUIRED, description="Number of machines of this kind.")
    kind = _node_model("Machines", "Machines of one kind.", count=many)
    kinds: Any = dict[Annotated[str, AfterValidator(_check_kind_name)], kind]  # type: ignore[valid-type]
    several = create_model(
        "ClusterOfKinds",
        __base__=ClusterSection,
        __doc__="Machines of several kinds, and the network between them.",
        kinds=(
            Annotated[kinds, Field(min_length=1)],
            Field(
                REQUIRED,
                description="Machines by kind, in place of ``nodes`` and ``node``. Machines are "
                "numbered across all kinds; ``kind:NAME`` selects those of one kind.",
            ),
        ),
        **beside,
    )
    reader = PlainValidator(
        partial(_read_cluster, alike, several), json_schema_input_type=alike | several
    )
    return Annotated[ClusterSection, reader]


def _read_cluster(
    alike: type[Section], several: type[Section], data: Any, info: ValidationInfo
) -> Section:
    """Read a cluster in one of its two forms."""
    if not isinstance(data, dict) or "kinds" not in data:
        return alike.model_validate(data, context=info.context)
    for key in ("nodes", "node"):
        if key in data:
            message = f"'kinds' replaces '{key}'; remove '{key}', or write it as one of the kinds"
            raise validation_error("two-forms", message, key, data[key])
    return several.model_validate(data, context=info.context)


register(
    "cluster",
    _cluster_form,
    REQUIRED,
    help="The machines, and the network between them.",
    files=("fabric.topology.file",),
)
