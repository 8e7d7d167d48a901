"""What flows use, read off the tables of the medium."""

from __future__ import annotations

import numpy as np

from ..machine import NO_LIMIT
from .sharing_state import COMPONENT, COUNT, LIMIT, START, WEIGHT, Sharing

OPEN = 2**63 - 1


def usage(sharing: Sharing, flow: int) -> dict[int, int]:
    """``{component: weight}`` of a flow.

    >>> import numpy as np
    >>> from ..machine import Parts
    >>> sharing = Sharing(Parts(("link",), np.array([-1]), np.array([10]), np.array([160])))
    >>> usage(sharing, sharing.append(work=40, usage={0: 1 << 40})) == {0: 1 << 40}
    True
    """
    _, flows, uses, *_ = sharing.state
    first = int(flows[flow, START])
    rows = uses[first : first + int(flows[flow, COUNT])]
    return dict(zip(rows[:, COMPONENT].tolist(), rows[:, WEIGHT].tolist(), strict=True))


def limit(sharing: Sharing, flow: int) -> int:
    """The limit of a flow, -1 for none."""
    found = int(sharing.state[1][flow, LIMIT])
    return NO_LIMIT if found == OPEN else found


def flows_on(sharing: Sharing, component: int) -> list[int]:
    """Flows that use a component, in flight or not."""
    _, flows, uses, *_ = sharing.state
    count = flows[: len(sharing), COUNT]
    if not count.sum():
        return []
    at = np.repeat(flows[: len(sharing), START] - np.cumsum(count) + count, count)
    row = np.repeat(np.arange(len(sharing)), count)
    hit = uses[at + np.arange(len(at)), COMPONENT] == component
    found: list[int] = row[hit].tolist()
    return found
