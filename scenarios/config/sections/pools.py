"""``cluster.node.pools``: parts with slots that need no code, such as the cores of a SmartNIC."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from ....models.compute.service import Service
from ....models.compute.slot_pool import SlotPool
from ....sim.facts.kind import OUR_ROLES, ROLES, Role
from ....sim.facts.waiting_room import ELSEWHERE, Queue
from ....sim.units import ByteRate, Duration
from ..part_specs import KINDS, Whole
from ..schema import Many, Section

Slots = Annotated[int, Field(ge=1)]


class QueueSection(Section):
    """A bounded queue in front of slots."""

    length: Whole
    """Number of ops that may wait; those that run are not counted."""
    full: Literal["wait", "drop", "elsewhere"] = "wait"
    """Rule for an op that finds the queue full: it waits outside (``wait``), is dropped with all
    that depends on it (``drop``), or queues at another component (``elsewhere``)."""
    elsewhere: str | Many[str] = ()
    """Components to which it goes then, by name or glob, in the order in which they are tried;
    first within the machine: ``nf*``, ``host``."""

    @model_validator(mode="after")
    def _check_elsewhere(self) -> QueueSection:
        if (self.full == ELSEWHERE) != bool(self.elsewhere):
            raise ValueError(
                f"full is '{self.full}' and elsewhere is {_listed(self.elsewhere)}; name "
                "components in 'elsewhere' if, and only if, full is 'elsewhere'"
            )
        return self

    def queue(self) -> Queue:
        """The queue that it describes."""
        return Queue(self.length, self.full, _names(self.elsewhere))


class PoolSection(Section):
    """A part of a machine with slots, to which ops are sent by role or by name."""

    slots: Slots
    """Number of ops that one runs at once."""
    count: Whole = 1
    """Number in each machine."""
    role: str = ""
    """Role to which ops are sent (``on`` of the workload ``transfers``); the pool's name if it is
    left out."""
    layer: Literal["compute", "network", "copy", "host"] = "compute"
    """Layer of the time breakdown that its ops count to."""
    time: Annotated[Duration, Field(ge=0)] | None = None
    """Time of each op, whatever its size; without time and rate, bind a backend."""
    rate: Annotated[ByteRate, Field(gt=0)] | None = None
    """Rate at which one slot handles the bytes of an op."""
    queue: QueueSection | None = None
    """Bounded queue in front of the slots; by default any number of ops may wait."""

    def part(self, name: str) -> SlotPool:
        """The part that it describes, with its role registered."""
        role = self.role or name
        known = ROLES.get(role)
        if known is not None and known.layer != self.layer and role not in OUR_ROLES:
            raise ValueError(
                f"role {role!r} has layer '{known.layer}' in another scenario or variant, and "
                f"'{self.layer}' here; give the pool another role, or both one layer"
            )
        made = Role.register(role, layer=self.layer)
        return SlotPool(name, self.slots, made, self.queue.queue() if self.queue else None)

    def backend(self) -> Service | None:
        """Backend that follows from ``time`` and ``rate``; None without both."""
        if self.time is None and self.rate is None:
            return None
        return Service(time=self.time or 0.0, rate=self.rate)


def _listed(names: str | tuple[str, ...]) -> str:
    return ", ".join(_names(names)) or "empty"


def _names(names: str | tuple[str, ...]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else names


def _check_pools(pools: dict[str, PoolSection]) -> dict[str, PoolSection]:
    """Check the names and roles of pools, and register the roles."""
    for name, pool in pools.items():
        if not re.fullmatch(r"[a-z][a-z_-]*", name) or name in (*KINDS, *OUR_ROLES, "links"):
            raise ValueError(
                f"'{name}' is not a name for a pool; use the letters a to z, - and _, and no name "
                "of another part"
            )
        if pool.role in OUR_ROLES:
            raise ValueError(
                f"pool '{name}': role is '{pool.role}', which foretrace has; give another name"
            )
        pool.part(name)
    return pools


Pools = Annotated[dict[str, PoolSection], AfterValidator(_check_pools)]
"""Pools of a machine, by name."""
