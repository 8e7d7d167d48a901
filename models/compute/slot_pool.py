"""Pool of slots in a machine: cores of a SmartNIC, accelerators, stages of a switch."""

from __future__ import annotations

from collections.abc import Iterable

from ...sim.facts.kind import Role
from ...sim.facts.system import Component, Location
from ...sim.facts.waiting_room import Queue
from ..parts import NodePart


class SlotPool(NodePart):
    """Part of a machine with slots, to which ops are sent by its role.

    Parameters
    ----------
    kind : str
        Kind of its component, as in ``node0.nf0``.
    slots : int
        Number of ops that it runs at once.
    role : Role
        Role of its component.
    queue : Queue or None
        Bounded queue in front of the slots; None if any number of ops may wait.

    Examples
    --------
    >>> cores = SlotPool("nf", 8, Role("nf", "network"), Queue(16, "drop"))
    >>> [(part.name, part.slots, part.role) for part in cores.components("node0.nf0")]
    [('node0.nf0', 8, 'nf')]
    """

    def __init__(self, kind: str, slots: int, role: Role, queue: Queue | None = None):
        self.kind, self.slots, self.role, self.queue = kind, slots, role, queue

    def components(self, name: str) -> Iterable[Component]:
        """The component of one pool."""
        at = Location(role=self.role.name)
        yield Component(name, self.kind, slots=self.slots, queue=self.queue, location=at)
