"""Bounded queues of components, in the form that engines read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import GraphError
from ..facts.csr import Csr
from ..facts.system import Component, System
from ..facts.waiting_room import ELSEWHERE, WAIT, Queue

UNBOUNDED = -1
DROPPED = -1  # value of `last`


@dataclass(frozen=True)
class QueueTable:
    """Queues in front of the slots of components, one row each.

    An op that finds the queue of its component full tries the components of its row in
    ``elsewhere``, in order. If the queues of all of them are full, it waits at component ``last``.

    Parameters
    ----------
    length : (c,) int64 number of ops that may wait, -1 for any number
    elsewhere : components that an op tries when the queue is full, by component
    last : (c,) int32 component at which an op waits in the end, -1 to drop it
    """

    length: NDArray[np.int64]
    elsewhere: Csr
    last: NDArray[np.int32]

    @classmethod
    def of(cls, queues: Mapping[int, tuple[int, str, Sequence[int]]], count: int) -> QueueTable:
        """Table of some queues, each (length, rule, components elsewhere), of ``count`` components.

        Examples
        --------
        >>> rows = {0: (1, "elsewhere", (1, 2)), 1: (0, "elsewhere", (0, 2)), 2: (4, "wait", ())}
        >>> table = QueueTable.of(rows, 3)
        >>> table.length.tolist(), table.last.tolist(), table.elsewhere.values.tolist()
        ([1, 0, 4], [2, 2, 2], [1, 2, 0, 2])
        """
        length = np.full(count, UNBOUNDED, np.int64)
        last = np.full(count, DROPPED, np.int32)
        chains: list[list[int]] = [[] for _ in range(count)]
        for c, (bound, rule, _) in queues.items():
            length[c], chains[c] = bound, _components_tried(queues, c)
            end = chains[c][-1] if chains[c] else c
            if (queues[end][1] if end in queues else rule) == WAIT:
                last[c] = end
        return cls(length, Csr.of(chains), last)

    def turns_away(self) -> NDArray[np.bool_]:
        """(c,) True if an op may be dropped at a component, or be sent elsewhere."""
        row = np.arange(len(self.length))
        return np.asarray((self.length != UNBOUNDED) & (self.last != row))


def _components_tried(queues: Mapping[int, tuple[int, str, Sequence[int]]], c: int) -> list[int]:
    """Components that an op for component ``c`` tries after it, each once."""
    tried, todo = [c], list(queues[c][2])
    for other in todo:
        if other not in tried:
            tried.append(other)
            todo += queues[other][2] if other in queues else ()
    return tried[1:]


def queue_table(system: System) -> QueueTable | None:
    """Table of the bounded queues of a system; None if it has none.

    Raises
    ------
    GraphError
        A queue sends ops to a component that does not exist or has no slots.
    """
    parts = system.components
    if all(part.queue is None for part in parts.parts):
        return None
    bounded = [c for c, part in enumerate(parts) if part.queue is not None]
    return QueueTable.of({c: _row_of_queue(system, c) for c in bounded}, len(parts))


def _row_of_queue(system: System, c: int) -> tuple[int, str, Sequence[int]]:
    part = system.components[c]
    queue = part.queue
    assert queue is not None  # noqa: S101
    if queue.full != ELSEWHERE:
        return queue.length, queue.full, ()
    found = [other for name in queue.elsewhere for other in _named(system, part, queue, name)]
    others = tuple(other for other in dict.fromkeys(found) if other != c)
    if not others:
        raise GraphError(
            "queue",
            f"{part.name}: its queue sends ops to {', '.join(queue.elsewhere)}, where no other "
            "component is; name another one, or write full: drop",
        )
    return queue.length, queue.full, others


def _named(system: System, part: Component, queue: Queue, name: str) -> Sequence[int]:
    """Components that a name or glob of a queue means: those in its machine, or else any."""
    inside = system.match(f"{part.node}.{name}") if part.node else ()
    found = inside or system.match(name)
    if not found:
        raise GraphError(
            "queue",
            f"{part.name}: its queue sends ops to {name!r}, which does not exist; name a component "
            f"with slots, such as {part.kind}* for those of its machine",
        )
    for other in found:
        if system.components[other].slots is None:
            raise GraphError(
                "queue",
                f"{part.name}: its queue sends ops to {system.components[other].name}, which has "
                "no slots to queue for; name a component with slots",
            )
    return found
