"""Coupled mode: a device times each op during the run, when the op starts.

``couple`` takes a system and its backends and puts devices in place of components. If a device
executes several ops concurrently, each op in flight gets a component of its own, called a lane.
``couple`` returns the changed system, its backends, and the processes that set the rates of the
lanes. To the simulation these are ordinary online backends, components and processes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ...sim.errors import DriverFault, RecordingError, ScenarioError
from ...sim.facts.backend import Backend, Timing, Usage
from ...sim.facts.component import Component
from ...sim.facts.component_list import ComponentList
from ...sim.facts.kind import ROLES
from ...sim.facts.ops import Ops
from ...sim.facts.system import System
from ...sim.record.binding import bind
from ...sim.run.process import Process
from .coverage import device_of_component
from .device_adapter import DeviceAdapter, DeviceAnswer, ResidualPath, Swap
from .op_path import OpPath, op_paths, op_signature, placement

JOINS = ("nic", "switch", "link")  # ops that use these are timed by the fabric's backend


@dataclass(frozen=True)
class Coupling:
    """Result of ``couple``: a system in which devices replace components, and what it needs to run.

    Parameters
    ----------
    system : system with the extra components (lanes) for ops in flight on a device
    backends : backends by component name
    processes : processes that set the rates of the lanes during the run
    adapters : device adapters, one per swap
    """

    system: System
    backends: Mapping[str, Backend]
    processes: tuple[Process, ...]
    adapters: tuple[DeviceAdapter, ...]


def couple(
    system: System,
    backends: Mapping[str, Backend],
    swaps: Sequence[Swap],
    ahead: bool = False,
) -> Coupling:
    """Put devices in place of components of a system.

    Parameters
    ----------
    swaps : components to replace, each with its device
    ahead : True to time ops before the run if their times do not depend on when they start, as with
        a recording that returns medians

    Raises
    ------
    ScenarioError
        No op would ever use one of the devices.
    """
    adapters = tuple(_device_adapter(system, swap) for swap in swaps)
    answer = dict(zip((c.name for c in system.components), bind(system, backends), strict=True))
    asked: dict[str, list[DeviceAdapter]] = {}
    for adapter in adapters:
        for name in _queried_components(system, adapter.swap, answer):
            asked.setdefault(name, []).append(adapter)
    coupled_by_key: dict[tuple[int, ...], Backend] = {}
    bound: dict[str, Backend] = {n: b for n, b in answer.items() if b is not None}
    for name, here in asked.items():
        key = (id(answer[name]), *map(id, here))
        early = ahead and all(p.lanes is None for p in here)
        bound[name] = coupled_by_key.setdefault(
            key, Coupled(bound.get(name), tuple(here), not early)
        )
    return Coupling(
        _system_with_lanes(system, adapters),
        bound,
        tuple(p.lanes for p in adapters if p.lanes is not None),
        adapters,
    )


def _device_adapter(system: System, swap: Swap) -> DeviceAdapter:
    own = system.components[system.number(swap.component)] if _is_component(system, swap) else None
    slots = None if own is None else own.slots
    return DeviceAdapter(swap, slots, bytes=slots is None)


def _is_component(system: System, swap: Swap) -> bool:
    return swap.component in system.index


def _queried_components(
    system: System, swap: Swap, answer: Mapping[str, Backend | None]
) -> tuple[str, ...]:
    """Names of the components whose backends time the ops that the device may execute."""
    parts = [c for c in system.components if device_of_component(c.name) in swap.covers.devices]
    if _is_component(system, swap) and (
        system[swap.component].slots or swap.component == system.fabric
    ):
        return (swap.component,)
    matches: list[str] = []
    if any(c.kind in JOINS for c in parts) and system.fabric:
        matches.append(system.fabric)
    if any(c.kind in ("memory", "link") for c in parts):
        matches += [c.name for c in system.components if _runs_ops(c) and answer[c.name]]
    if not matches:
        raise ScenarioError(
            f"hil.swap {swap.component}: no op would use this device; name a component that ops "
            "run on or cross"
        )
    return tuple(matches)


def _runs_ops(component: Component) -> bool:
    """True if a component has a role, such as GPU or host.

    Backends of these components also time copies, which use memories.
    """
    return component.kind in ROLES or component.role in ROLES


def _system_with_lanes(system: System, adapters: Sequence[DeviceAdapter]) -> System:
    slots = {p.name: p.slots_needed for p in adapters if p.slots_needed is not None}
    old = (replace(c, slots=slots.get(c.name, c.slots)) for c in system.components)
    new = (c for p in adapters for c in p.components())
    return replace(system, components=ComponentList.of((*old, *new)))


class Coupled(Backend):
    """Backend that uses devices for the ops they cover and a model for the others.

    Parameters
    ----------
    model : Backend or None
        Model of the other ops; None if devices cover every op.
    adapters : adapters of the devices
    online : True if ops are timed when they start, False if before the run
    """

    def __init__(
        self, model: Backend | None, adapters: tuple[DeviceAdapter, ...], online: bool = True
    ):
        self.model, self.adapters, self.online = model, adapters, online
        sources = [f"{p.name}: {p.swap.timer.source}" + _contention_suffix(p) for p in adapters]
        self.source = "; ".join([*sources, *([f"else {model.source}"] if model else [])])

    def open(self, system: System) -> None:
        """Open the model and reset the devices for a new run."""
        if self.model is not None:
            self.model.open(system)
        for adapter in self.adapters:
            adapter.reset()

    def timing(self, ops: Ops, now: float = 0.0) -> Timing:
        """Timing of each op, from a device or the model; a device executes equal ops separately."""
        modelled_timing = self.model_timing(ops, now)
        rows = [self._answer(op, modelled_timing) for op in op_paths(ops, modelled_timing)]
        number = placement(ops).system.number
        return Timing.of(
            [r.fixed for r in rows],
            [r.work for r in rows],
            Usage.of([{number(c): w for c, w in r.usage.items()} for r in rows]),
            self._limits(rows, modelled_timing),
            holds=None if modelled_timing is None else modelled_timing.holds,
        )

    def _limits(
        self, rows: Sequence[DeviceAnswer], modelled_timing: Timing | None
    ) -> NDArray[np.float64] | None:
        if modelled_timing is None or modelled_timing.limit is None:
            return None
        return np.where([r.modelled for r in rows], modelled_timing.limit, np.inf)

    def model_timing(self, ops: Ops, now: float) -> Timing | None:
        """Timing of the ops by the model.

        None if devices execute all ops completely, so that no part of any op's path needs the
        model.
        """
        covered = all(_covers_all(p, ops) and _supports_all(p, ops) for p in self.adapters)
        return None if covered or self.model is None else self.model.timing(ops, now)

    def _answer(self, op: OpPath, modelled_timing: Timing | None) -> DeviceAnswer:
        adapter = self.adapter_of(op)
        if adapter is None:
            return _as_modelled(op, modelled_timing)
        if op.collective and op.system.fabric not in adapter.swap.covers.devices:
            raise ScenarioError(
                f"hil.swap {adapter.name}: op {op.row} ({op.signature}) is a collective, and this "
                "device executes only a part of it; swap the fabric, or expand collectives into "
                "sends"
            )
        if not adapter.swap.can_execute(op.signature):
            if adapter.swap.others == "model":
                adapter.others += 1
                return _as_modelled(op, modelled_timing)
            raise _unsupported_error(adapter, op.signature)
        return adapter.answer(op.signature, op.bytes, residual_path(op, adapter))

    def adapter_of(self, op: OpPath) -> DeviceAdapter | None:
        """Adapter of the device that covers an op; None if the model times the op."""
        crossed = op.devices
        matches = [p for p in self.adapters if p.swap.covers.covers_path(crossed, op.system.fabric)]
        if len(matches) > 1:
            names = " and ".join(p.name for p in matches)
            raise ScenarioError(
                f"hil.swap: the samples of {names} both include the time of an op across "
                f"{', '.join(sorted(crossed))}, which would be counted twice; swap only one of them"
            )
        return matches[0] if matches else None


def residual_path(op: OpPath, adapter: DeviceAdapter) -> ResidualPath:
    """Part of an op's path outside the device that executes it; this part stays modelled."""
    devices = adapter.swap.covers.devices
    if device_of_component(op.component) in devices:
        return ResidualPath()  # who does an op does all of it
    remaining = [op.system[c] for c in sorted(op.crossed) if device_of_component(c) not in devices]
    latency = sum(c.latency for c in remaining) - adapter.swap.covers.subtraction(op.devices).time
    return ResidualPath(
        latency, {c: w for c, w in op.used.items() if device_of_component(c) not in devices}
    )


def unseen_op_error(component: str, text: str) -> RecordingError:
    """Error for an op that a component's recording does not contain, if ``others`` is ``fail``."""
    return RecordingError(
        f"hil.swap {component}: its recording has not seen {text!r}; record it, or set ops: "
        "{others: model} to use the model for such ops"
    )


def _unsupported_error(adapter: DeviceAdapter, text: str) -> DriverFault | RecordingError:
    """Error for an op that the device cannot execute, if ``others`` is ``fail``."""
    if adapter.swap.recorded:
        return unseen_op_error(adapter.name, text)
    return DriverFault(
        "unsupported",
        f"{adapter.name}: the device cannot execute {text!r}; set ops: {{others: model}} to use "
        "the model for such ops, or swap another component",
    )


def _contention_suffix(adapter: DeviceAdapter) -> str:
    """Suffix of a timing's source that says that contention is modelled; "" if it is measured."""
    return " (contention modelled)" if adapter.swap.sharing == "solo" else ""


def _covers_all(adapter: DeviceAdapter, ops: Ops) -> bool:
    """True if all ops of a table run on the component that the device replaces."""
    at = placement(ops)
    names = {at.system.components[c].name for c in np.unique(at.component).tolist()}
    return names == {adapter.name}


def _supports_all(adapter: DeviceAdapter, ops: Ops) -> bool:
    """True if the device can execute every op of a table, so that none needs the model."""
    if adapter.swap.others == "fail":
        return True
    return all(adapter.swap.can_execute(op_signature(ops, i)) for i in range(len(ops)))


def _as_modelled(op: OpPath, modelled_timing: Timing | None) -> DeviceAnswer:
    if modelled_timing is None:
        raise ScenarioError(
            f"coupled: no backend times op {op.row} ({op.ops.kind_names[op.row]}); bind a "
            "model to its component"
        )
    work = 0.0 if modelled_timing.work is None else float(modelled_timing.work[op.row])
    return DeviceAnswer(float(modelled_timing.fixed[op.row]), work, dict(op.used), True)
