"""System built from ``cluster``, and the backends of its components from ``backends``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from ....models.memory.memory import Memory
from ....models.network.part.link import Link
from ....models.network.part.nic import Nic
from ....models.network.part.switch import Switch
from ....models.network.topology.router import GraphRouter
from ....models.network.topology.topology import FabricSpec, GpuSpec, NodeSpec, join
from ....models.network.topology.wiring import Topology
from ....models.parts import PARTS
from ....sim.errors import ScenarioError
from ....sim.facts.backend import Backend
from ....sim.facts.system import SELECTED, UNCOUNTED, Component, System
from ....sim.record.binding import BackendsByName, Bindings
from ....sim.rerun.sensitivity import ScaledBackend
from ....sim.run.workload import Workload
from ....sim.setting_groups import construct_with_groups
from ....sim.units import Bytes
from ...config.binding import entries_by_component, entry_index_by_component
from ...config.choice import Choice
from ...config.part_specs import Part
from ...config.problems import did_you_mean_text
from ...config.scenario import Scenario
from ...config.sections.cluster import ClusterSection
from ...config.sections.cluster import FabricSection as FabricSection
from ...config.sections.cluster import NodeSection as Described
from ...config.settings import constructor_model, known_workloads
from ...config.topology_choice import known_topologies
from .component_backends import DefaultBackends, backend_for_component
from .limits import require_memory
from .link_models import with_bound_link_models

T = TypeVar("T")
BYTES_PER_COMPONENT = 630.0  # 485 measured on 1,000 machines of 29, plus temporary allocations
FEW = 100_000  # number of components that always fits into memory
SYSTEM = "system"  # key in Scenario.build_cache


def build_system(scenario: Scenario) -> System:
    """System of a scenario; built once and cached.

    Raises
    ------
    ScenarioError
        A part lacks a value in scenario and catalog, or the machines do not fit into memory.
    """
    if SYSTEM not in scenario.build_cache:
        scenario.build_cache[SYSTEM] = _built_system(scenario)
    made: System = scenario.build_cache[SYSTEM]
    return made


def _built_system(scenario: Scenario) -> System:
    described = scenario.cluster
    kinds = machine_kinds(described, _jobs_compete_for_memory(scenario))
    _refuse_too_many(kinds, scenario.run.memory)
    joined = join(kinds, fabric_of(described))
    return _with_overrides(
        with_bound_link_models(joined, scenario, backend_for_component), scenario
    )


def _jobs_compete_for_memory(scenario: Scenario) -> bool:
    """True if more than one job holds GPU memory."""
    known = known_workloads()
    kinds = [known[job.workload.type] for job in scenario.jobs.values()]
    return sum(kind.holds is not Workload.holds for kind in kinds) > 1


def _refuse_too_many(kinds: Mapping[str, tuple[int, NodeSpec]], allowed: Bytes | None) -> None:
    """Raise an error for a system too large for the memory, before building it."""
    nodes, count = 0, 0  # of components, at most
    for many, node in kinds.values():
        others = sum(n for _, n, _ in node.others)
        nodes, count = (
            nodes + many,
            count + many * (4 + 10 * node.gpus + 4 * node.nics + 4 * others),
        )
    if count > FEW:
        most = max(kinds, key=lambda pool: kinds[pool][0])
        place = f"cluster.kinds.{most}.count" if most else "cluster.nodes"
        require_memory(
            BYTES_PER_COMPONENT * count, 1, allowed, f"{nodes:,} machines", place, "machines"
        )


def machine_kinds(
    described: ClusterSection, jobs_share_memory: bool = False
) -> dict[str, tuple[int, NodeSpec]]:
    """Number of machines of each kind, and the specification of one of them.

    Parameters
    ----------
    jobs_share_memory : True if jobs reserve GPU memory, unless the GPU's setting ``capacity`` says
        otherwise

    Raises
    ------
    ScenarioError
        A part lacks a value in scenario and catalog.
    """
    _refuse_roles_of_two_layers(described)
    return {
        m.pool: (m.count, _node_components(m.node, f"cluster.{m.path}", jobs_share_memory))
        for m in described.machines()
    }


def _refuse_roles_of_two_layers(described: ClusterSection) -> None:
    """Raise an error for a role that two pools declare with different layers."""
    layers: dict[str, tuple[str, str]] = {}
    for machine in described.machines():
        for name, pool in machine.node.pools.items():
            path = f"cluster.{machine.path}.pools.{name}"
            layer, other = layers.setdefault(pool.role or name, (pool.layer, path))
            if layer != pool.layer:
                raise ScenarioError(
                    f"{path}.layer: is {pool.layer!r}, and the same role has {layer!r} in {other}; "
                    "give both one layer, or each a role of its own"
                )


def _node_components(node: Described, path: str, jobs_share_memory: bool) -> NodeSpec:
    parts = node.parts()
    card, nic = parts.get("gpu", Part("gpu", count=0)), parts.get("nic")
    gpu = card.settings
    return NodeSpec(
        gpus=card.count,
        gpu=GpuSpec(
            streams=_stream_count(gpu, path) if "gpu" in parts else 1,
            copy_engines=int(gpu.get("copy_engines", 0)),
            hbm=_hbm_component(gpu),
            room=_memory_capacity(gpu, path, jobs_share_memory),
            core=bool(gpu.get("core")),
        ),
        cores=_core_count(parts.get("host"), path),
        gpu_link=_link(node, "gpu", "gpu", path),
        host_link=_link(node, "gpu", "host", path),
        nic_link=_link(node, "gpu", "nic", path),
        nics=nic.count if nic else 0,
        nic=_part_from_settings(Nic, nic.settings_for("nic"), f"{path}.nic") if nic else None,
        dram=_memory_components(parts.get("memory"), f"{path}.memory"),
        cxl=_memory_components(parts.get("cxl"), f"{path}.cxl"),
        parts={kind: part.model for kind, part in parts.items()},
        others=tuple(
            (kind, part.count, _part_from_settings(PARTS[kind], part.settings, f"{path}.{kind}"))
            for kind, part in parts.items()
            if kind in PARTS
        )
        + tuple((name, pool.count, pool.part(name)) for name, pool in node.pools.items()),
    )


def _memory_capacity(gpu: Mapping[str, Any], path: str, jobs_share_memory: bool) -> Bytes | None:
    """GPU memory in B that jobs reserve; None if memory is not simulated as a capacity."""
    asked = gpu.get("capacity")
    if asked and "memory" not in gpu:
        _missing_value_error(f"{path}.gpu.memory", "80 GiB")
    return gpu.get("memory") if (jobs_share_memory if asked is None else asked) else None


def _hbm_component(gpu: Mapping[str, Any]) -> Memory | None:
    """Component of a GPU's memory bandwidth; its latency is part of the kernels' launch time."""
    if "bandwidth" not in gpu:
        return None
    reached = gpu.get("memory_efficiency", 1.0)
    return Memory(bandwidth=gpu["bandwidth"], latency=0.0, efficiency=reached)


def _missing_value_error(path: str, example: str) -> float:
    raise ScenarioError(f"{path}: is missing; write it, for example {example}")


def _stream_count(gpu: Mapping[str, Any], path: str) -> int:
    return int(gpu.get("streams") or _missing_value_error(f"{path}.gpu.streams", "128"))


def _core_count(host: Part | None, path: str) -> int:
    """Number of concurrent host threads; unlimited without a host."""
    if host is None:
        return UNCOUNTED
    return int(host.settings.get("cores") or _missing_value_error(f"{path}.host.cores", "64"))


def _part_from_settings(cls: type[T], settings: Mapping[str, Any], path: str) -> T:
    """Construct a part from its settings."""
    try:
        return construct_with_groups(cls, settings)
    except TypeError as error:
        lacking = str(error).partition("argument")[2].strip(" s:")
        raise ScenarioError(
            f"{path}: {lacking} is missing; write it, or name a catalog entry"
        ) from error
    except ValueError as error:
        raise ScenarioError(f"{path}: {error}") from error


def _memory_components(part: Part | None, path: str) -> Memory | None:
    """Memory of a part; None if it is not present."""
    if part is None or part.settings.get("size") == 0:
        return None
    return _part_from_settings(Memory, part.settings_for("memory"), path)


def _link(node: Described, a: str, b: str, path: str) -> Link | None:
    for i, told in enumerate(node.links):
        if {told.from_, told.to} == {a, b} and (a != b or told.from_ == told.to):
            return _part_from_settings(Link, told.link.settings_for("link"), f"{path}.links.{i}")
    return None


def fabric_of(described: ClusterSection) -> FabricSpec:
    """Network between the machines, without the communication library.

    Raises
    ------
    ScenarioError
        The topology does not have a given setting.
    """
    fabric = described.fabric
    switch = fabric.switch
    switches = (
        _part_from_settings(Switch, switch.settings_for("switch"), "cluster.fabric.switch")
        if switch
        else None
    )
    part = switch.model if switch else ""
    return FabricSpec(switches, _topology(fabric), part=part, domain=fabric.gpu_domain)


def _topology(fabric: FabricSection) -> Topology:
    """Topology of the switches, with the fabric's ``oversubscription`` if it takes one."""
    how = fabric.topology
    joining = how if isinstance(how, Choice) else Choice(how)
    cls, settings = known_topologies()[joining.use], dict(joining.settings)
    if "oversubscription" in constructor_model(cls).model_fields:
        settings.setdefault("oversubscription", fabric.oversubscription)
    elif fabric.oversubscription != 1:
        raise ScenarioError(
            f"cluster.fabric.oversubscription: is {fabric.oversubscription:g}, but topology "
            f"'{joining.use}' has no such setting; remove it"
        )
    return _part_from_settings(cls, settings, "cluster.fabric.topology")


def _with_overrides(machine: System, scenario: Scenario) -> System:
    """System with the lower rates and failed links of ``override``.

    Components with slots are slowed down by their backends instead. A topology with individual
    links routes around failed ones.
    """
    if not scenario.cluster.override:
        return machine
    components, down = dict[int, Component](), list[int]()
    for number, override in sorted(
        entries_by_component(scenario.cluster.override, machine).items()
    ):
        part = machine.components[number]
        if part.rate is not None:
            factor = 0.0 if override.down else 1 / override.slowdown
            components[number] = _with_slower_rates(part, factor)
            down += [number] * override.down
        elif override.down and part.slots is None:
            raise ScenarioError(
                f"{scenario.message_prefix('cluster.override')}cluster.override: '{part.name}' "
                "cannot be down, since no data crosses it; take down its NICs, links or ports"
            )
    if down and isinstance(machine.router, GraphRouter):
        machine.router.take_down(down)
    return machine.with_components(machine.components.with_replaced(components))


def _with_slower_rates(part: Component, factor: float) -> Component:
    rate = (part.rate or 0.0) * factor
    return replace(part, rate=rate, max_rate=max(part.top, rate))


def build_backends(scenario: Scenario, machine: System) -> BackendsByName:
    """Backend of each component, by component name.

    Components without a binding get the default of ``DefaultBackends``: hosts and the recording GPU
    keep recorded durations, another GPU has a chain, the fabric has a model.

    Raises
    ------
    ScenarioError
        The GPU differs from the recording one and is unknown, or a name matches no component.
    """
    _refuse_unmatched_globs(scenario, machine)
    bindings, entry = (
        tuple(scenario.backends.values()),
        entry_index_by_component(scenario.backends, machine),
    )
    defaults, of = DefaultBackends(scenario), machine.components
    made: dict[tuple[int, str, str], Backend | None] = {}
    answerer: dict[int, int] = {}
    backends: list[Backend] = []
    alike = (entry + 1) * len(of.parts) + of.part_index
    _, first, which = np.unique(alike, return_index=True, return_inverse=True)
    place = np.full(len(first), -1, np.int32)
    for i in np.argsort(first).tolist():
        part, k = of[first[i]], int(entry[first[i]])
        key = k, part.pool, part.kind  # components with the same key share a backend
        if key not in made:
            made[key] = (
                defaults.of(part) if k < 0 else backend_for_component(bindings[k], scenario, part)
            )
        found = made[key]
        if found is not None:
            if id(found) not in answerer:
                answerer[id(found)] = len(backends)
                backends.append(found)
            place[i] = answerer[id(found)]
    bound = BackendsByName(of.names, Bindings(backends, place[which]))
    return _with_slowed_slots(bound, scenario.cluster, machine)


def _refuse_unmatched_globs(scenario: Scenario, machine: System) -> None:
    """Raise an error for a name or glob that matches no component."""
    tables: dict[str, Mapping[str, Any]] = {
        "backends": scenario.backends,
        "media": scenario.section("media"),
        "cluster.override": scenario.cluster.override,
    }
    for path, table in tables.items():
        for glob in table:
            if not machine.match(glob):
                pools = dict.fromkeys(f"{SELECTED}{c.pool}" for c in machine.components if c.pool)
                names = [*pools, *(c.name for c in machine.components)]
                where = scenario.message_prefix(f"{path}.{glob}")
                raise ScenarioError(
                    f"{where}{path}: no component matches '{glob}'{did_you_mean_text(glob, names)}"
                )


def _with_slowed_slots(
    backends_by_name: BackendsByName, described: ClusterSection, machine: System
) -> BackendsByName:
    """Backends of all components; those of slowed-down components with slots give longer times."""
    backends, which = (
        list(backends_by_name.bound.backends),
        backends_by_name.bound.backend_index.copy(),
    )
    for number, override in sorted(entries_by_component(described.override, machine).items()):
        if which[number] < 0 or override.slowdown == 1:
            continue
        slowed = ScaledBackend(backends[which[number]], [number], 1 / override.slowdown)
        which[number] = len(backends)
        backends.append(slowed)
    return BackendsByName(backends_by_name.names, Bindings(backends, which).without_unused())


def components_down_at_start(scenario: Scenario, machine: System) -> tuple[str, ...]:
    """Names of components with slots that ``override`` marks as failed."""
    down = entries_by_component(scenario.cluster.override, machine)
    parts = [machine.components[n] for n, override in sorted(down.items()) if override.down]
    return tuple(part.name for part in parts if part.slots is not None)
