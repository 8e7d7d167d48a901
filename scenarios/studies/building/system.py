"""From ``cluster`` to a system, and from ``backends`` to who answers for its components."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from ....models.compute.recorded import Recorded
from ....models.memory.copy import Copy
from ....models.memory.memory import Memory
from ....models.network.collectives import Fabric as Collectives
from ....models.network.gloo_fabric import Gloo
from ....models.network.link import Link
from ....models.network.nic import Nic
from ....models.network.switch import Switch
from ....models.network.topology import FabricSpec, NodeSpec, cluster
from ....sim.analysis.sensitivity import Altered
from ....sim.backend import Backend
from ....sim.errors import ScenarioError
from ....sim.system import Component, System
from ....sim.units import Bytes
from ...config.binding import Binding, meant
from ...config.part_specs import Part
from ...config.problems import nearest
from ...config.scenario import Scenario
from ...config.sections.cluster import ClusterSection
from ..limits import require_memory
from .link_models import link_models

T = TypeVar("T", bound=Backend)
BYTES_PER_COMPONENT = 500.0  # measured on 4,000 machines of 19 components
FEW = 100_000  # components that always fit


def system(scenario: Scenario) -> System:
    """The machines of a scenario.

    Raises
    ------
    ScenarioError
        A part lacks a value that neither the scenario nor the catalog says; more machines than
        fit into memory.
    """
    described = scenario.cluster
    node = _node(described)
    _refuse_too_many(described.nodes, node, scenario.run.memory)
    made = cluster(described.nodes, node, fabric_of(described))
    return _overridden(link_models(made, scenario, _answerer), scenario)


def _refuse_too_many(nodes: int, node: NodeSpec, allowed: Bytes | None) -> None:
    """Before anything is built: a few zeros too many would fill the memory."""
    count = nodes * (4 + 10 * node.gpus + 4 * node.nics)  # of components, at most
    if count > FEW:
        require_memory(BYTES_PER_COMPONENT * count, 1, allowed, f"{nodes:,} machines")


def _node(described: ClusterSection) -> NodeSpec:
    node = described.node
    gpu = node.gpu.settings
    parts = {p.kind: p.model for p in described.parts().values()}
    return NodeSpec(
        gpus=node.gpu.count,
        streams=int(gpu.get("streams") or _missing("cluster.node.gpu.streams", "128")),
        copy_engines=int(gpu.get("copy_engines", 0)),
        cores=_cores(node.host),
        gpu_link=_link(described, "gpu", "gpu"),
        host_link=_link(described, "gpu", "host"),
        nic_link=_link(described, "gpu", "nic"),
        nics=node.nic.count if node.nic else 0,
        nic=_made(Nic, "nic", node.nic, "cluster.node.nic") if node.nic else None,
        core=bool(gpu.get("core")),
        hbm=_hbm(gpu),
        dram=_memory(node.memory, "cluster.node.memory"),
        cxl=_memory(node.cxl, "cluster.node.cxl"),
        parts=parts,
    )


def _hbm(gpu: Mapping[str, Any]) -> Memory | None:
    """The memory of a GPU: what its kernels reach together; its latency is in their launch."""
    if "bandwidth" not in gpu:
        return None
    reached = gpu.get("memory_efficiency", 1.0)
    return Memory(bandwidth=gpu["bandwidth"], latency=0.0, efficiency=reached)


def _missing(path: str, example: str) -> float:
    raise ScenarioError(f"{path}: is needed and nobody says it; write it, for example {example}")


def _cores(host: Part | None) -> int:
    """Threads that run at once; without a host, as many as there are."""
    if host is None:
        return 2**31 - 1
    return int(host.settings.get("cores") or _missing("cluster.node.host.cores", "64"))


def _made(cls: type[T], backend: str, part: Part, path: str) -> T:
    """A backend from the settings of a part."""
    try:
        return cls(**part.of(backend))
    except TypeError as error:
        lacking = str(error).partition("argument")[2].strip(" s:")
        raise ScenarioError(
            f"{path}: {lacking} is needed and nobody says it; write it, or name a catalog entry"
        ) from error
    except ValueError as error:
        raise ScenarioError(f"{path}: {error}") from error


def _memory(part: Part | None, path: str) -> Memory | None:
    """A memory, unless it is not fitted."""
    if part is None or part.settings.get("size") == 0:
        return None
    return _made(Memory, "memory", part, path)


def _link(described: ClusterSection, a: str, b: str) -> Link | None:
    for i, join in enumerate(described.node.links):
        if {join.from_, join.to} == {a, b} and (a != b or join.from_ == join.to):
            return _made(Link, "link", join.link, f"cluster.node.links.{i}")
    return None


def fabric_of(described: ClusterSection) -> FabricSpec:
    """What joins the machines, but for the library that uses it."""
    fabric = described.fabric
    switch = fabric.switch
    made = _made(Switch, "switch", switch, "cluster.fabric.switch") if switch else None
    return FabricSpec(made, fabric.topology, fabric.oversubscription)


def _overridden(made: System, scenario: Scenario) -> System:
    """Slower rates and links that are down; slower slots are their backends' matter."""
    components = []
    for part in made.components:
        override = meant(scenario.cluster.override, part.name, made.index)
        if override is not None and part.rate is not None:
            part = _slower(part, 0.0 if override.down else 1 / override.slowdown)
        elif override is not None and override.down and part.slots is None:
            raise ScenarioError(
                f"{scenario.place('cluster.override')}cluster.override: '{part.name}' is asked, "
                "and nothing crosses it, so it cannot be down; take down its NICs, links or ports"
            )
        components.append(part)
    return replace(made, components=tuple(components))


def _slower(part: Component, factor: float) -> Component:
    return replace(part, rate=(part.rate or 0.0) * factor, max_rate=part.top)


def backends(scenario: Scenario, made: System) -> dict[str, Backend]:
    """Who answers for each component, by exact name.

    What the scenario does not bind is bound by what is known: a GPU of the kind that the trace was
    recorded on and the host answer with recorded durations, the fabric with a model.

    Raises
    ------
    ScenarioError
        The GPU is not the one of the recording, and nobody says how to predict it; a name that
        means nothing.
    """
    _all_meant(scenario, made)
    bound: dict[str, Backend] = {}
    shared: dict[int, Backend] = {}
    names = made.index
    defaults = _Defaults(scenario)
    for part in made.components:
        binding = meant(scenario.backends, part.name, names)
        if binding is not None:
            bound[part.name] = shared.setdefault(id(binding), _answerer(binding, scenario, part))
        elif (known := defaults.of(part)) is not None:
            bound[part.name] = known
    return _slowed(bound, scenario.cluster, made)


def _all_meant(scenario: Scenario, made: System) -> None:
    """Refuse a name or glob that means no component."""
    tables = {"backends": scenario.backends, "cluster.override": scenario.cluster.override}
    for path, table in tables.items():
        for glob in table:
            if not made.match(glob):
                names = [c.name for c in made.components]
                where = scenario.place(f"{path}.{glob}")
                raise ScenarioError(
                    f"{where}{path}: no component is named '{glob}'{nearest(glob, names)}"
                )


def _answerer(binding: Binding, scenario: Scenario, part: Component) -> Backend:
    """A backend; what the binding does not set, its part's settings do."""
    parts: Mapping[str, Part] = scenario.cluster.parts()
    role = "library" if part.kind == "fabric" else part.kind
    own = parts.get(f"node.{role}") or parts.get(f"fabric.{role}")
    known = own.of(binding.use) if own is not None else {}
    try:
        return Binding(binding.use, {**known, **binding.settings}).make()
    except TypeError as error:
        lacking = str(error).partition("argument")[2].strip(" s:")
        raise ScenarioError(
            f"backends.{part.name}: '{binding.use}' needs {lacking}; add it there"
        ) from error
    except ValueError as error:
        raise ScenarioError(f"backends.{part.name}: {error}") from error


def _library(part: Part | None, fidelity: str) -> Collectives:
    """What does sends and collectives: gloo where it is known what a message of its takes."""
    known = part.of("gloo") if part is not None else {}
    if "message" in known:
        return Gloo(**{**known, "fidelity": fidelity})
    return Collectives(**{**(part.of("fabric") if part else {}), "fidelity": fidelity})


class _Defaults:
    """What answers where the scenario says nothing."""

    def __init__(self, scenario: Scenario):
        self.scenario = scenario
        self.recorded = Recorded()
        self.copy = Copy()
        described = scenario.cluster.fabric
        self.fabric = _library(described.library, described.fidelity)

    def of(self, part: Component) -> Backend | None:
        if part.kind == "fabric":
            return self.fabric
        if part.kind == "host":
            return self.recorded
        if part.kind == "dma":
            return self.recorded if self._as_recorded() else self.copy
        if part.kind == "gpu":
            if not self._recorded_on():
                return None  # nothing was recorded; whoever needs it binds it
            if not self._as_recorded():
                self._refuse()
            return self.recorded
        return None

    def _recorded_on(self) -> list[str | None]:
        """The device of each trace; None where nobody says it."""
        works = [job.workload for job in self.scenario.jobs.values()]
        told = [w.recorded_on for w in works if hasattr(w, "recorded_on")]
        return [on.device if on else None for on in told]

    def _device(self) -> str | None:
        """The first that is not what the cluster has."""
        wanted, found = self.scenario.cluster.node.gpu.model, self._recorded_on()
        return next((d for d in found if d != wanted), found[0] if found else None)

    def _as_recorded(self) -> bool:
        return self._device() == self.scenario.cluster.node.gpu.model

    def _refuse(self) -> None:
        device, wanted = self._device(), self.scenario.cluster.node.gpu.model
        if device is None:
            raise ScenarioError(
                "workload.recorded_on.device: nobody says what the trace was recorded on; write "
                f"it, for example {{device: {wanted or 'h100-sxm5-80g'}}}"
            )
        raise ScenarioError(
            f"backends: the trace was recorded on {device}, the cluster has {wanted}; say who "
            "predicts it, for example {'node*.gpu*': {use: roofline}}"
        )


def _slowed(
    bound: dict[str, Backend], described: ClusterSection, made: System
) -> dict[str, Backend]:
    """Slots that ``override`` slows down, by backends whose answers take longer there."""
    for part in made.components:
        override = meant(described.override, part.name, made.index)
        if override is None or part.name not in bound or override.slowdown == 1:
            continue
        number = made.number(part.name)
        bound[part.name] = Altered(bound[part.name], [number], 1 / override.slowdown)
    return bound


def failures(scenario: Scenario, made: System) -> tuple[str, ...]:
    """Components with slots that ``override`` says are down."""
    found = []
    for part in made.components:
        override = meant(scenario.cluster.override, part.name, made.index)
        if override is not None and override.down and part.slots is not None:
            found.append(part.name)
    return tuple(found)
