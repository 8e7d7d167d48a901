"""Path of an op: the component it runs on, and the components it crosses and uses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from ...sim.errors import BackendError, ScenarioError
from ...sim.facts.backend import Timing
from ...sim.facts.kind import Kind, kind_names
from ...sim.facts.ops import OpPlacement, Ops
from ...sim.facts.signature import Operand, Signature
from ...sim.facts.system import System
from .coverage import device_of_component


@dataclass(frozen=True)
class OpPath:
    """One op with the component it runs on and the path it takes.

    Parameters
    ----------
    ops, placement, row : ops table, its placement on the system, and the op's row
    used : load on each shared component that the model would use, by name: the component's rate
        used per unit of the op's rate
    """

    ops: Ops
    placement: OpPlacement
    row: int
    used: Mapping[str, float]

    @property
    def system(self) -> System:
        """System that the op runs on."""
        return self.placement.system

    @property
    def signature(self) -> str:
        """Signature of the op as a driver gets it; see ``op_signature``."""
        return op_signature(self.ops, self.row)

    @property
    def bytes(self) -> float:
        """Bytes of the op; NaN if unknown."""
        return float(self.ops.bytes[self.row])

    @property
    def collective(self) -> bool:
        """True if the op is a collective."""
        return bool(self.ops.kind[self.row] == Kind.COLLECTIVE)

    @property
    def component(self) -> str:
        """Name of the component whose backend times the op."""
        return self.system.components[int(self.placement.component[self.row])].name

    @cached_property
    def crossed(self) -> set[str]:
        """Names of all components that the op crosses.

        These are the component that it runs on, those on its route, and the shared components that
        the model uses.
        """
        route, crossed_numbers = self.system.route, {int(self.placement.component[self.row])}
        members = self.placement.members[self.row].tolist()
        if self.collective:
            crossed_numbers |= {c for a in members for b in members if a != b for c in route(a, b)}
        elif len(members) > 1:
            crossed_numbers |= set(route(members[0], members[-1]))
        return {self.system.components[c].name for c in crossed_numbers} | set(self.used)

    @property
    def devices(self) -> set[str]:
        """Names of the devices that the crossed components belong to."""
        return {device_of_component(c) for c in self.crossed}


def placement(ops: Ops) -> OpPlacement:
    """Placement of the ops of a table on the components of a system.

    Raises
    ------
    ScenarioError
        The graph was not placed.
    """
    if ops.at is None:
        raise ScenarioError("coupled: the graph is not placed on a machine; place it first")
    return ops.at


def op_paths(ops: Ops, timing: Timing | None) -> list[OpPath]:
    """Path of each op of a table.

    Parameters
    ----------
    timing : timing of the ops by the model; None if the model is not needed
    """
    at = placement(ops)
    return [OpPath(ops, at, row, _usage_of_row(at, row, timing)) for row in range(len(ops))]


def _usage_of_row(at: OpPlacement, row: int, timing: Timing | None) -> dict[str, float]:
    if timing is None:
        return {}
    parts = at.system.components
    if timing.usage is None:
        has = timing.work is not None and timing.work[row] > 0
        return {parts[at.component[row]].name: 1.0} if has else {}
    here = slice(int(timing.usage.indptr[row]), int(timing.usage.indptr[row + 1]))
    both = zip(
        timing.usage.component[here].tolist(), timing.usage.weight[here].tolist(), strict=True
    )
    return {parts[c].name: w for c, w in both}


def op_signature(ops: Ops, row: int) -> str:
    """Signature of an op as a driver gets it: its own, or one built from its kind and bytes.

    Raises
    ------
    BackendError
        The op has neither a signature nor a number of bytes.

    Examples
    --------
    >>> op_signature(Ops.of(kind=3, bytes=[4096.0]), 0)
    'send:send uint8[4096]'
    """
    text = ops.signature_text(row)
    if text:
        return text
    kind = str(kind_names()[ops.kind[row]])
    if not ops.bytes[row] >= 0:
        raise BackendError(
            f"op {row} ({kind}): has neither a signature nor bytes, so no device can time it; "
            "give it one of them"
        )
    return str(Signature(kind, kind, (Operand("uint8", (int(ops.bytes[row]),)),)))
