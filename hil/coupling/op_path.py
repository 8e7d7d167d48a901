"""One op of a table that backends are asked about: where it runs, what it crosses, what it uses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from ...sim.backend import Timing
from ...sim.errors import BackendError, ScenarioError
from ...sim.ops import KIND_NAMES, Kind, OpPlacement, Ops
from ...sim.signature import Operand, Signature
from ...sim.system import System
from .coverage import device


@dataclass(frozen=True)
class OpPath:
    """One op where it runs.

    Parameters
    ----------
    ops, at, row : its table, where the ops of it run, its row
    used : shared components that the model would use for it, with weights
    """

    ops: Ops
    at: OpPlacement
    row: int
    used: Mapping[str, float]

    @property
    def system(self) -> System:
        """The machine."""
        return self.at.system

    @property
    def text(self) -> str:
        """What a driver is asked for it."""
        return question(self.ops, self.row)

    @property
    def bytes(self) -> float:
        """B of it; NaN for unknown."""
        return float(self.ops.bytes[self.row])

    @property
    def collective(self) -> bool:
        """Whether it is one."""
        return bool(self.ops.kind[self.row] == Kind.COLLECTIVE)

    @property
    def asked(self) -> str:
        """The component whose backend is asked."""
        return self.system.components[int(self.at.component[self.row])].name

    @cached_property
    def crossed(self) -> set[str]:
        """Names of all that it is asked at or crosses on its way, or would use by the model."""
        route, found = self.system.route, {int(self.at.component[self.row])}
        members = self.at.members[self.row].tolist()
        if self.collective:
            found |= {c for a in members for b in members if a != b for c in route(a, b)}
        elif len(members) > 1:
            found |= set(route(members[0], members[-1]))
        return {self.system.components[c].name for c in found} | set(self.used)

    @property
    def devices(self) -> set[str]:
        """The devices that those belong to."""
        return {device(c) for c in self.crossed}


def where(ops: Ops) -> OpPlacement:
    """Where the ops of a table run.

    Raises
    ------
    ScenarioError
        Nobody placed them.
    """
    if ops.at is None:
        raise ScenarioError("coupled: asked without a machine; place the graph first")
    return ops.at


def each(ops: Ops, said: Timing | None) -> list[OpPath]:
    """The ops of a table, one by one.

    Parameters
    ----------
    said : by the model; None where nobody asked it
    """
    at = where(ops)
    return [OpPath(ops, at, row, _used(at, row, said)) for row in range(len(ops))]


def _used(at: OpPlacement, row: int, said: Timing | None) -> dict[str, float]:
    if said is None:
        return {}
    parts = at.system.components
    if said.usage is None:
        has = said.work is not None and said.work[row] > 0
        return {parts[at.component[row]].name: 1.0} if has else {}
    here = slice(int(said.usage.indptr[row]), int(said.usage.indptr[row + 1]))
    both = zip(said.usage.component[here].tolist(), said.usage.weight[here].tolist(), strict=True)
    return {parts[c].name: w for c, w in both}


def question(ops: Ops, row: int) -> str:
    """What a driver is asked for an op: its signature, or its kind and bytes.

    Raises
    ------
    BackendError
        The op has neither.

    Examples
    --------
    >>> question(Ops.of(kind=3, bytes=[4096.0]), 0)
    'send:send uint8[4096]'
    """
    text = ops.signature_text(row)
    if text:
        return text
    kind = str(KIND_NAMES[ops.kind[row]])
    if not ops.bytes[row] >= 0:
        raise BackendError(f"op {row} ({kind}): has neither signature nor bytes to ask a device by")
    return str(Signature(kind, kind, (Operand("uint8", (int(ops.bytes[row]),)),)))
