"""``cluster``: the machines, what is in one of them, and what joins them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import Field, PlainValidator

from ..part_specs import (
    Join,
    Override,
    Part,
    join_model,
    override_model,
    part_model,
    read_join,
    read_override,
    read_part,
)
from ..schema import REQUIRED, Many, Section, register


def _part(kind: str) -> Any:
    return PlainValidator(partial(read_part, kind), json_schema_input_type=str | part_model(kind))


class NodeSection(Section):
    """One machine; all are alike, ``override`` says which are not."""

    gpu: Annotated[Part, _part("gpu")]
    """Its GPUs."""
    nic: Annotated[Part, _part("nic")] | None = None
    """Its network adapters; GPUs share them evenly."""
    cxl: Annotated[Part, _part("cxl")] | None = None
    """CXL memory; ``size: 0 GB`` is not fitted."""
    host: Annotated[Part, _part("host")] | None = None
    """Processors and what runs on them."""
    memory: Annotated[Part, _part("memory")] | None = None
    """DRAM of the host."""
    links: Many[
        Annotated[Join, PlainValidator(read_join, json_schema_input_type=join_model())]
    ] = ()
    """What joins its parts."""

    def part(self, name: str) -> Part | None:
        """The part of a name, as links and prices use it."""
        found = getattr(self, name, None) if name in PARTS else None
        return found if isinstance(found, Part) else None


PARTS = ("gpu", "nic", "cxl", "host", "memory")


class FabricSection(Section):
    """What joins the machines."""

    topology: Literal["fat-tree", "rail", "torus", "dragonfly"] = "fat-tree"
    """How switches are joined."""
    switch: Annotated[Part, _part("switch")] | None = None
    """The switch that it is built of."""
    library: Annotated[Part, _part("library")] | None = None
    """What does sends and collectives: its start, steps and efficiency (nccl-nvlink4, gloo …)."""
    oversubscription: Annotated[float, Field(ge=1)] = 1.0
    """Capacity into a switch over capacity out of it; 1 is non-blocking."""
    fidelity: Literal["alpha-beta", "flow", "packet"] = "flow"
    """Each transfer as if alone, sharing links, or packet by packet."""


class ClusterSection(Section):
    """The machines and what joins them."""

    nodes: Annotated[int, Field(ge=1)]
    """How many machines."""
    node: NodeSection
    """What is in one of them."""
    fabric: FabricSection = FabricSection()
    """What joins them."""
    override: dict[
        str,
        Annotated[Override, PlainValidator(read_override, json_schema_input_type=override_model())],
    ] = Field(default_factory=dict)
    """Single components that differ, by name or glob: a straggler, a slow NIC, a failed link; of
    ``node3.gpu*`` the GPUs alone, of ``node3*`` all that is in it."""

    def parts(self) -> Mapping[str, Part]:
        """Every part by where it is said: ``node.gpu``, ``fabric.switch``."""
        found = {f"node.{name}": self.node.part(name) for name in PARTS}
        found["fabric.switch"] = self.fabric.switch
        found["fabric.library"] = self.fabric.library
        return {k: p for k, p in found.items() if p is not None}


register("cluster", ClusterSection, REQUIRED)
