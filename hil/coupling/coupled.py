"""Coupled mode: devices answer during the run, each op when its turn comes.

``couple`` takes a machine and who answers for it, puts devices in the place of components, and
gives back a machine, who answers, and what steers the run.  The simulation sees online backends,
components and processes like any others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ...sim.backend import Backend, Timing, Usage
from ...sim.binding import bind
from ...sim.errors import DriverFault, RecordingError, ScenarioError
from ...sim.ops import Ops
from ...sim.process import Process
from ...sim.system import System
from .coverage import device
from .device_adapter import DeviceAdapter, DeviceAnswer, ResidualPath, Swap
from .op_path import OpPath, each, question, where

JOINS = ("nic", "switch", "link")  # what only the fabric is asked about
WORKERS = ("gpu", "host", "dma")  # who is asked about copies, which use memories


@dataclass(frozen=True)
class Coupling:
    """A machine with devices in it.

    Parameters
    ----------
    system : with a component for each lane
    backends : by exact name
    processes : that set the rates of lanes
    ports : one for each swap
    """

    system: System
    backends: Mapping[str, Backend]
    processes: tuple[Process, ...]
    ports: tuple[DeviceAdapter, ...]


def couple(
    system: System,
    backends: Mapping[str, Backend],
    swaps: Sequence[Swap],
    ahead: bool = False,
) -> Coupling:
    """Put devices in the place of components.

    Parameters
    ----------
    ahead : ask before the run what does not depend on when it is asked, for recordings that
        answer with medians

    Raises
    ------
    ScenarioError
        Nobody would ever ask one of them.
    """
    ports = tuple(_port(system, swap) for swap in swaps)
    answer = dict(zip((c.name for c in system.components), bind(system, backends), strict=True))
    asked: dict[str, list[DeviceAdapter]] = {}
    for port in ports:
        for name in _asked_for(system, port.swap, answer):
            asked.setdefault(name, []).append(port)
    made: dict[tuple[int, ...], Backend] = {}
    bound: dict[str, Backend] = {n: b for n, b in answer.items() if b is not None}
    for name, here in asked.items():
        key = (id(answer[name]), *map(id, here))
        early = ahead and all(p.lanes is None for p in here)
        bound[name] = made.setdefault(key, Coupled(bound.get(name), tuple(here), not early))
    return Coupling(
        _with_lanes(system, ports),
        bound,
        tuple(p.lanes for p in ports if p.lanes is not None),
        ports,
    )


def _port(system: System, swap: Swap) -> DeviceAdapter:
    own = system.components[system.number(swap.component)] if _is_one(system, swap) else None
    slots = None if own is None else own.slots
    return DeviceAdapter(swap, slots, bytes=slots is None)


def _is_one(system: System, swap: Swap) -> bool:
    return swap.component in system.index


def _asked_for(system: System, swap: Swap, answer: Mapping[str, Backend | None]) -> tuple[str, ...]:
    """Components whose backends are asked about ops that the device may do."""
    parts = [c for c in system.components if device(c.name) in swap.covers.devices]
    if _is_one(system, swap) and (system[swap.component].slots or swap.component == system.fabric):
        return (swap.component,)
    found: list[str] = []
    if any(c.kind in JOINS for c in parts) and system.fabric:
        found.append(system.fabric)
    if any(c.kind in ("memory", "link") for c in parts):
        found += [c.name for c in system.components if c.kind in WORKERS and answer[c.name]]
    if not found:
        raise ScenarioError(
            f"hil.swap {swap.component}: no op of this machine would use it; swap what ops run on"
        )
    return tuple(found)


def _with_lanes(system: System, ports: Sequence[DeviceAdapter]) -> System:
    slots = {p.name: p.at_once for p in ports if p.at_once is not None}
    old = (replace(c, slots=slots.get(c.name, c.slots)) for c in system.components)
    new = (c for p in ports for c in p.components())
    return replace(system, components=(*old, *new))


class Coupled(Backend):
    """Devices for what they cover, a model for the rest.

    Parameters
    ----------
    model : Backend or None
        None: the devices answer for everything.
    ports : of the devices
    online : asked when an op starts, and not before the run
    """

    def __init__(
        self, model: Backend | None, ports: tuple[DeviceAdapter, ...], online: bool = True
    ):
        self.model, self.ports, self.online = model, ports, online
        told = [f"{p.name}: {p.swap.asked.source}" + _label(p) for p in ports]
        self.source = "; ".join([*told, *([f"else {model.source}"] if model else [])])

    def open(self, system: System) -> None:
        """Begin a run."""
        if self.model is not None:
            self.model.open(system)
        for port in self.ports:
            port.reset()

    def timing(self, ops: Ops, now: float = 0.0) -> Timing:
        """One answer a row; no two rows are merged."""
        said = self.modelled(ops, now)
        rows = [self._answer(op, said) for op in each(ops, said)]
        number = where(ops).system.number
        return Timing.of(
            [r.fixed for r in rows],
            [r.work for r in rows],
            Usage.of([{number(c): w for c, w in r.usage.items()} for r in rows]),
            self._limits(rows, said),
            holds=None if said is None else said.holds,
        )

    def _limits(
        self, rows: Sequence[DeviceAnswer], said: Timing | None
    ) -> NDArray[np.float64] | None:
        if said is None or said.limit is None:
            return None
        return np.where([r.modelled for r in rows], said.limit, np.inf)

    def modelled(self, ops: Ops, now: float) -> Timing | None:
        """What the model says, where any op may need it: of the way, or of the whole op."""
        whole = all(_whole(p, ops) and _able(p, ops) for p in self.ports)
        return None if whole or self.model is None else self.model.timing(ops, now)

    def _answer(self, op: OpPath, said: Timing | None) -> DeviceAnswer:
        port = self.port(op)
        if port is None:
            return _as_modelled(op, said)
        if op.collective and op.system.fabric not in port.swap.covers.devices:
            raise ScenarioError(
                f"hil.swap {port.name}: op {op.row} ({op.text}) is a collective across it, of "
                "which it does only a part; swap the fabric, or expand collectives into sends"
            )
        if not port.swap.can(op.text):
            if port.swap.others == "model":
                port.others += 1
                return _as_modelled(op, said)
            raise _unable(port, op.text)
        return port.answer(op.text, op.bytes, way(op, port))

    def port(self, op: OpPath) -> DeviceAdapter | None:
        """Who answers for an op; None for the model."""
        crossed = op.devices
        found = [p for p in self.ports if p.swap.covers.holds(crossed, op.system.fabric)]
        if len(found) > 1:
            names = " and ".join(p.name for p in found)
            raise ScenarioError(
                f"hil.swap: an op across {', '.join(sorted(crossed))} is in the samples of both "
                f"{names}, and would be counted twice; swap one of them"
            )
        return found[0] if found else None


def way(op: OpPath, port: DeviceAdapter) -> ResidualPath:
    """What stays modelled of an op that the device does."""
    held = port.swap.covers.devices
    if device(op.asked) in held:
        return ResidualPath()  # who does an op does all of it
    beside = [op.system[c] for c in sorted(op.crossed) if device(c) not in held]
    latency = sum(c.latency for c in beside) - port.swap.covers.off(op.devices).time
    return ResidualPath(latency, {c: w for c, w in op.used.items() if device(c) not in held})


def _unable(port: DeviceAdapter, text: str) -> DriverFault | RecordingError:
    """What is said of an op that nobody but the model could answer for."""
    if port.swap.recorded:
        return RecordingError(
            f"hil.swap {port.name}: its recording has not seen {text!r}; record it, or set others: "
            "model to let the model answer for what it has not seen"
        )
    return DriverFault(
        "unsupported",
        f"{port.name}: the device cannot do {text!r}; set others: model to let the model "
        "answer for what it cannot do, or swap another component",
    )


def _label(port: DeviceAdapter) -> str:
    """What a source says beside it: that contention is modelled, where it is."""
    return " (contention modelled)" if port.swap.sharing == "solo" else ""


def _whole(port: DeviceAdapter, ops: Ops) -> bool:
    """Whether a port answers for every op of a table, with nothing beside it."""
    at = where(ops)
    names = {at.system.components[c].name for c in np.unique(at.component).tolist()}
    return names == {port.name}


def _able(port: DeviceAdapter, ops: Ops) -> bool:
    """Whether nobody else will be asked about these ops."""
    if port.swap.others == "fail":
        return True
    return all(port.swap.can(question(ops, i)) for i in range(len(ops)))


def _as_modelled(op: OpPath, said: Timing | None) -> DeviceAnswer:
    if said is None:
        raise ScenarioError(
            f"coupled: nobody answers for op {op.row} ({op.ops.kind_names[op.row]}); bind a model "
            "beside"
        )
    work = 0.0 if said.work is None else float(said.work[op.row])
    return DeviceAnswer(float(said.fixed[op.row]), work, dict(op.used), True)
